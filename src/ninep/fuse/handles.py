"""What the kernel calls handles: open files and directories, each a fid of its own.

A handle belongs to the connection it was opened on and ends with it: what was written and not taken is discarded then,
and every use answers `connection lost`.
"""

import asyncio
import errno
import os
import stat as modes
from collections.abc import Callable, Iterator
from typing import Any

from ninep import _wire
from ninep.client import Client, File
from ninep.client.calls import expect
from ninep.errors import ConnectionLostError
from ninep.fuse.nodes import Node, Nodes
from ninep.fuse.protocol import pack_dirent
from ninep.messages import Stat, parse_directory

_O_ACCMODE = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
_MODES = {os.O_RDONLY: _wire.OREAD, os.O_WRONLY: _wire.OWRITE, os.O_RDWR: _wire.ORDWR}


def mode_of(flags: int) -> int:
    """The mode of Topen for flags of open(2), without what they truncate; OSError where they say nothing."""
    mode = _MODES.get(flags & _O_ACCMODE)
    if mode is None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return mode


class FileHandle:
    """An open file.

    close(2) may come more than once for one open(2): a shell that redirects a command duplicates the descriptor and
    closes it, and so does every program that inherited it. `flush` is called for each, `close` after the last.

    Attributes:
        node: what is open.
        readable, writable: how.
        patient: whether its reads may wait, and take away what they read; not where it was opened with O_NONBLOCK.
    """

    def __init__(self, nodes: Nodes, node: Node, flags: int, opener: int | None) -> None:
        self._mode = mode_of(flags)
        self.node = node
        self.readable = self._mode != _wire.OWRITE
        self.writable = self._mode != _wire.OREAD
        self.patient = not flags & os.O_NONBLOCK
        self._truncate = bool(flags & os.O_TRUNC)
        self._append = bool(flags & os.O_APPEND)
        self._opener = opener
        self._nodes = nodes
        self._client: Client | None = None
        self._file: File | None = None
        self._dirty = False
        self._reopening = asyncio.Lock()
        self._appending = nodes.appending(node)

    async def open(self) -> None:
        """Topen, on a clone of the node's fid."""
        mode = self._mode | (_wire.OTRUNC if self._truncate else 0)
        async with self._nodes.at(self.node) as (client, fid):
            self.opened(client, await client.open("", mode, fid))

    def opened(self, client: Client, file: File) -> None:
        """This is the file; from now on the handle has to be closed or discarded."""
        self._client, self._file = client, file
        if self.writable:
            self.node.writers += 1

    async def read(self, offset: int, count: int) -> bytes:
        """One Tread; it waits as long as the file makes it wait."""
        file = await self._opened()
        frame = await self._call(_wire.RREAD, _wire.pack_tread, file.fid, offset, min(count, file.iounit))
        return _wire.parse_rread(frame, 0, len(frame))[0]

    async def write(self, offset: int, data: bytes) -> int:
        """Write all of `data`; to a handle that appends, at the end of the file, wherever the kernel believes it is.

        Returns:
            How much was written before the server took no more, or the caller was interrupted.
        """
        file = await self._opened()
        self._dirty = True
        if not self._append:
            return await self._write(file, offset, data)
        async with self._appending:
            return await self._write(file, (await file.stat()).length, data)

    async def _write(self, file: File, offset: int, data: bytes) -> int:
        done = 0
        while True:
            piece = data[done : done + file.iounit]
            frame = await self._call(_wire.RWRITE, _wire.pack_twrite, file.fid, offset + done, piece)
            (count,) = _wire.parse_rwrite(frame, 0, len(frame))
            done += count
            if done >= len(data) or not count or _interrupted():
                return done

    async def _call(self, reply: int, pack: Callable[..., bytes], *args: Any) -> bytes:
        """A request whose reply counts, too, when it comes between the interrupt and Rflush: flush(5)."""
        late: list[bytes] = []
        assert self._client is not None
        try:
            return await self._client.calls.call(reply, pack, *args, late=late.append)
        except asyncio.CancelledError:
            if not late:
                raise
            return expect(reply, late[0])

    async def commit(self) -> None:
        """fsync(2): the server takes what was written, and tells what is wrong with it."""
        if self._file is not None and self.writable:
            await self._file.commit()
            self._dirty = False

    async def flush(self, closer: int | None) -> None:
        """close(2) of one of the descriptors, by the process `closer`.

        Where it is likely to be the last one, the fid is clunked, so that what is wrong with what was written comes
        back from close(2): where the process that opened the file closes it and something was written. What a program
        inherits is not its to close. A handle that can also read is left alone: its answer has yet to be read.
        """
        if self._dirty and not self.readable and closer is not None and closer == self._opener:
            await self._clunk()

    async def _opened(self) -> File:
        """The open file; one that was clunked too early is opened again, where it continues with something new."""
        if self._file is not None:
            return self._file
        async with self._reopening:
            if self._file is None:
                async with self._nodes.at(self.node) as (client, fid):
                    if client is not self._client:
                        raise ConnectionLostError
                    self._file = await client.open("", self._mode, fid)
        return self._file

    async def close(self) -> None:
        """Clunk it, after its last descriptor was closed, and raise what is wrong with what was written."""
        self._unused()
        await self._clunk()

    def discard(self) -> None:
        """Nobody has used it and nobody will."""
        self._unused()
        if self._file is not None:
            self._file.discard()

    def _unused(self) -> None:
        if self.writable:
            self.node.writers -= 1

    async def _clunk(self) -> None:
        file, self._file = self._file, None
        self._dirty = False
        if file is not None:
            await file.close()


class DirHandle:
    """An open directory. Its entries are those it had when it was last read from the start."""

    def __init__(self, nodes: Nodes, node: Node) -> None:
        self._nodes = nodes
        self._node = node
        self._file: File | None = None
        self._entries: list[tuple[bytes, Stat | Node]] = []

    async def open(self) -> None:
        """Topen, on a clone of the node's fid."""
        async with self._nodes.at(self._node) as (client, fid):
            self._file = await client.open("", _wire.OREAD, fid)

    async def read(self, offset: int, size: int) -> bytes:
        """As many whole entries from the one numbered `offset` as fit into `size` bytes; empty after the last."""
        if offset == 0:
            self._entries = await self._list()
        out, used = [], 0
        for number, (name, entry) in enumerate(self._entries[offset:], offset + 1):
            record = pack_dirent(_ino(entry), number, _kind(entry), name)
            if used + len(record) > size:
                break
            out.append(record)
            used += len(record)
        return b"".join(out)

    async def _list(self) -> list[tuple[bytes, Stat | Node]]:
        assert self._file is not None
        self._file.offset = 0
        stats = parse_directory(await self._file.read_all())
        return [(b".", self._node), (b"..", self._node.parent or self._node), *_named(stats)]

    def discard(self) -> None:
        """Nobody has used it and nobody will."""
        if self._file is not None:
            self._file.discard()

    async def close(self) -> None:
        """Clunk it."""
        file, self._file = self._file, None
        if file is not None:
            await file.close()


def _interrupted() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _named(stats: list[Stat]) -> Iterator[tuple[bytes, Stat]]:
    """Entries with names that the kernel takes; a single other one would make it refuse the directory."""
    for stat in stats:
        name = stat.name.encode("utf-8", "surrogateescape")
        if name not in {b"", b".", b".."} and b"/" not in name and b"\0" not in name:
            yield name, stat


def ino_of(qid_path: int) -> int:
    """The inode number shown for a file: never 0, which means no file to some programs."""
    return qid_path + 1 & _wire.MAX64 or _wire.MAX64


def _ino(entry: Stat | Node) -> int:
    return ino_of(entry.qid.path if isinstance(entry, Stat) else entry.qid_path)


def _kind(entry: Stat | Node) -> int:
    return modes.S_IFMT(modes.S_IFDIR if entry.is_dir else modes.S_IFREG) >> 12
