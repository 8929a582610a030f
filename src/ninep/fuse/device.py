"""Requests from the kernel and replies to it, on a descriptor of `/dev/fuse`."""

import asyncio
import errno
import os
import select
from collections.abc import Callable
from dataclasses import dataclass

from ninep.fuse import protocol
from ninep.fuse.callers import Caller
from ninep.fuse.protocol import IN_HEADER, MIN_READ_BUFFER, OUT_HEADER, WRITE_IN, MalformedError, OutHeader

_UNMOUNTED = {errno.ENODEV, errno.ECONNABORTED}
_TAKEN_BACK = {errno.EAGAIN, errno.ENOENT, errno.EINTR}  # between the poll and the read
_NOBODY_WAITS = {errno.ENOENT, errno.ENODEV, errno.ECONNABORTED, errno.EPIPE, errno.ECONNRESET}


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Args:
        opcode: what is asked; it may be one that `Opcode` does not have.
        unique: its number, which the reply carries.
        nodeid: the node it is about.
        caller: who asks.
        body: what follows the header.
    """

    opcode: int
    unique: int
    nodeid: int
    caller: Caller
    body: bytes


class Device:
    """Reads whole requests as they come, and writes whole replies.

    Args:
        fd: the descriptor; the device closes it.
        max_write: the longest write that the kernel may ask for, in bytes.
        handle: called with each request.
        ended: called once when the file system is no longer mounted.
    """

    def __init__(self, fd: int, max_write: int, handle: Callable[[Request], None], ended: Callable[[], None]) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._handle = handle
        self._ended = ended
        size = max(MIN_READ_BUFFER, IN_HEADER.size + WRITE_IN.size + max_write)
        self._buffer = bytearray(size)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._readable)

    @property
    def mounted(self) -> bool:
        """Whether the file system is mounted somewhere, also where nobody has been told yet that it is not."""
        if self._fd < 0:
            return False
        error = select.poll()
        error.register(self._fd, 0)
        return not error.poll(0)

    def _readable(self) -> None:
        try:
            size = os.readv(self._fd, [self._buffer])
        except OSError as error:
            if error.errno in _UNMOUNTED:
                self.close()
            elif error.errno not in _TAKEN_BACK:
                raise
            return
        if size:
            self._handle(self._parse(size))
        else:
            self.close()

    def _parse(self, size: int) -> Request:
        view = memoryview(self._buffer)[:size]
        header = IN_HEADER.parse(view)
        if header.len != size:
            raise MalformedError(f"request of {size} bytes that says {header.len}")
        end = size - 8 * header.total_extlen
        caller = Caller(header.pid, header.uid, header.gid)
        return Request(header.opcode, header.unique, header.nodeid, caller, bytes(view[IN_HEADER.size : end]))

    def reply(self, unique: int, data: bytes) -> bool:
        """Answer a request; False when nobody waits for it any more."""
        return self._write(OutHeader(OUT_HEADER.size + len(data), 0, unique), data)

    def fail(self, unique: int, number: int) -> bool:
        """Answer a request with an errno; False when nobody waits for it any more."""
        return self._write(OutHeader(OUT_HEADER.size, -number, unique), b"")

    def _write(self, header: protocol.OutHeader, data: bytes) -> bool:
        if self._fd < 0:
            return False
        try:
            os.writev(self._fd, [OUT_HEADER.pack(header), data])
        except OSError as error:
            if error.errno in _NOBODY_WAITS:
                return False
            raise
        return True

    def close(self) -> None:
        """Whoever still waits gets ENOTCONN from the kernel; a second call does nothing."""
        if self._fd < 0:
            return
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._ended()
