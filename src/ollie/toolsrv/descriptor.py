"""Descriptor 3 of a run: gives its processes connections to olliesrv that belong to its agent.

See `ollie.protocol.broker` for the tool's side. A connection is made here, by this process, so that the sandbox of the
tool need not allow it; olliesrv knows this process as its tool server and is told in the attach whose the connection is
from then on, before the tool has it. What the tool says on it then is the tool's own 9P conversation, from its Tversion
on.

One request is served at a time. A tool that asks and does not fetch its answers waits for itself.
"""

import asyncio
import logging
import os
import socket
from typing import Self

from ninep import _wire
from ninep.dial import Unix
from ninep.errors import NinepError, ProtocolError
from ollie.protocol.broker import BINDING, GRANTED, PACKET_BYTES
from ollie.protocol.words import reason
from ollie.sandbox.open_files import EXHAUSTED

_log = logging.getLogger(__name__)
_FID = 0
_TAG = 1
_TIMEOUT_S = 10


class Descriptor:
    """The socket of one run; a context manager that closes it.

    Args:
        address: where olliesrv listens.
        agent: the id of the agent that the connections belong to.
        run: the number of the run, by which olliesrv counts them.

    Attributes:
        given: the tool's end; `started` closes it here.
    """

    def __init__(self, address: Unix, agent: str, run: int) -> None:
        self._address = address
        self._agent = agent
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        self.given = theirs.detach()
        self._serving: asyncio.Task[None] | None = None
        self._over = False
        # By its number: asyncio first prints a socket that it does not know.
        self._loop.add_reader(self._ours.fileno(), self._asked)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.started()
        self._loop.remove_reader(self._ours)
        self._over = True
        if self._serving is None:
            self._ours.close()
        else:
            self._serving.cancel()

    def started(self) -> None:
        """The tool has its end."""
        if self.given >= 0:
            os.close(self.given)
            self.given = -1

    def _asked(self) -> None:
        self._loop.remove_reader(self._ours)
        try:
            asked = self._ours.recv(PACKET_BYTES)
        except OSError:
            asked = b""
        if asked:  # else no process has the other end any more
            self._serving = self._loop.create_task(self._serve())
            self._serving.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._serving = None
        error = None if task.cancelled() else task.exception()
        if self._over or task.cancelled():  # it may have come to its end before it was cancelled
            self._ours.close()
        elif error is not None:
            _log.warning("no connection for agent %s: %s", self._agent, error)
        else:
            self._loop.add_reader(self._ours, self._asked)

    async def _serve(self) -> None:
        """Answer one request."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                connection = await bound(self._address, self._agent, self._run)
        except (OSError, NinepError) as error:
            await self._answer(self._why(error).encode(), [])
            return
        with connection:
            await self._answer(GRANTED, [connection.fileno()])

    def _why(self, error: OSError | NinepError) -> str:
        """Why there is no connection."""
        if isinstance(error, NinepError):
            return f"no connection to {self._address}: {error}"
        if error.errno in EXHAUSTED:
            return f"no connection to {self._address}: the tool server has no open files to spare; close connections"
        why = "it does not answer" if isinstance(error, TimeoutError) else reason(error)
        return f"no server at {self._address}: {why}"

    async def _answer(self, text: bytes, descriptors: list[int]) -> None:
        while True:
            try:
                socket.send_fds(self._ours, [text[:PACKET_BYTES]], descriptors, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                await self._writable()
            else:
                return

    async def _writable(self) -> None:
        room = self._loop.create_future()
        self._loop.add_writer(self._ours, _set, room)
        try:
            await room
        finally:
            self._loop.remove_writer(self._ours)


def _set(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


async def bound(address: Unix, agent: str, run: int) -> socket.socket:
    """A connection to olliesrv that belongs to an agent whoever holds it, with nothing outstanding on it.

    Raises:
        OSError: nobody answers there.
        NinepError: the server refuses, with its words.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, address.path)
        size = _wire.MIN_MSIZE
        await _ask(connection, _wire.pack_version(_wire.TVERSION, _wire.NOTAG, size, _wire.VERSION), _wire.RVERSION)
        attach = _wire.pack_tattach(_TAG, _FID, _wire.NOFID, "toolsrv", f"{BINDING}{agent}/{run}")
        await _ask(connection, attach, _wire.RATTACH)
        await _ask(connection, _wire.pack_fid(_wire.TCLUNK, _TAG, _FID), _wire.RCLUNK)
    except BaseException:
        connection.close()
        raise
    connection.setblocking(True)  # the flag goes with the descriptor, and the tool expects it so
    return connection


async def _ask(connection: socket.socket, message: bytes, wanted: int) -> None:
    """Send one message and take its reply."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, message)
    reply = b""
    while not (end := _wire.message_end(reply, 0, PACKET_BYTES)) or len(reply) < end:
        data = await loop.sock_recv(connection, PACKET_BYTES)
        if not data:
            raise ProtocolError("it hung up")
        reply += data
    kind, _ = _wire.parse_header(reply, 0)
    if kind == _wire.RERROR:
        raise NinepError(*_wire.parse_rerror(reply, 0, len(reply)))
    if kind != wanted:
        raise ProtocolError(f"reply of type {kind} instead of {wanted}")
