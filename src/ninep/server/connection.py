"""One connection of a server: moves bytes between a transport and a session.

Input arrives in one buffer that all connections of a server share, and is copied from there at once: a plain
`asyncio.Protocol` has 256 KiB allocated for every segment, which costs more than the rest of a short request.

All frames of a segment are handled before anything is written. What is written is joined to pieces of at most 64 KiB:
larger temporaries cost more than the system calls they save.

A client that does not read what it asked for stops being served: while the transport's buffer is full nothing more is
read from the socket, and no more of what was read is handled.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ninep import dial
from ninep import tree as trees
from ninep._session import DIALECT, OUTPUT_BYTES, AfidConversation, Place, Session
from ninep.enames import for_linux
from ninep.errors import NinepError, ProtocolError
from ninep.server.inline import Inline

if TYPE_CHECKING:
    from ninep._wire import Buffer
    from ninep.server.server import Server

_log = logging.getLogger("ninep")


class Conn:
    """What a server's callbacks see of a connection.

    Attributes:
        socket: for peer credentials and addresses; not for I/O.
        listener: the address it was accepted on; None when it was adopted.
        state: whatever the callbacks want to keep with the connection.
        accepted_s: when it was accepted, by CLOCK_BOOTTIME, the clock of the start times of processes.
    """

    __slots__ = ("accepted_s", "listener", "socket", "state")

    def __init__(self, sock: socket.socket, listener: dial.Unix | dial.Tcp | None) -> None:
        self.socket = sock
        self.listener = listener
        self.state: dict[str, Any] = {}
        self.accepted_s = time.clock_gettime(time.CLOCK_BOOTTIME)


class Connection(asyncio.BufferedProtocol):
    """Driver of one session.

    Args:
        server: whose connection it is.
        listener: the address it comes in by; None when it is adopted.
    """

    __slots__ = (
        "_conn",
        "_deadline",
        "_held",
        "_listener",
        "_loop",
        "_reading",
        "_server",
        "_transport",
        "_writable",
        "session",
    )

    def __init__(self, server: "Server", listener: dial.Unix | dial.Tcp | None) -> None:
        self._server = server
        self._listener = listener
        self._loop = server.loop
        self._transport: asyncio.Transport
        self._conn: Conn
        self._deadline: asyncio.TimerHandle  # until it has attached
        self._writable = True
        self._reading = True
        self._held = trees.Held(server.limits.held_bytes)
        self.session = Session(self, server.limits, DIALECT, server.trace)

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection begins."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._conn = Conn(transport.get_extra_info("socket"), self._listener)
        self._deadline = self._loop.call_later(self._server.limits.attach_s, self._expire)
        self._server.connected(self)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where to receive; `buffer_updated` follows before anything else is received."""
        return self._server.input

    def buffer_updated(self, nbytes: int) -> None:
        """Handle all that came, and write once."""
        self._pump(self._server.input[:nbytes].tobytes())

    def pause_writing(self) -> None:
        """The client does not read; nothing more is handled until it does."""
        self._writable = False
        if self._reading:
            self._read_on(reading=False)

    def resume_writing(self) -> None:
        """It does again."""
        if not self._transport.is_closing():
            self._writable = True
            self._pump()

    def connection_lost(self, _error: Exception | None) -> None:
        """Cancel everything; `closed` comes when it has ended."""
        self._writable = False
        self._deadline.cancel()
        self.session.close()

    # Driver

    def start(self, work: Awaitable[Any], done: Callable[[Any, BaseException | None], None]) -> Inline:
        """Run it inline as far as it goes."""
        inline = Inline(self._loop, work, done, self._server.soon)
        inline.start()
        return inline

    def later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """A timer of the loop."""
        return self._loop.call_later(delay_s, callback)

    def wake(self) -> None:
        """Write what there is; input that had to wait may go on."""
        if self._writable and not self._reading:
            self._pump()
            return
        self._write()
        if self._server.waiters:
            self._server.notice()

    def authenticate(self, uname: str, aname: str) -> Awaitable[AfidConversation]:
        """The server decides."""
        return self._server.authenticate(self._conn, uname, aname)

    async def attach(self, uname: str, aname: str, auth: AfidConversation | None) -> Place:
        """The server decides."""
        place = await self._server.attach(self._conn, uname, aname, auth, held=self._held)
        self._deadline.cancel()
        if isinstance(place, trees.Place) and place.attached.options.kernel:
            self.session.wording = for_linux
        return place

    def failed(self, place: Place, error: NinepError) -> None:
        """The server keeps it."""
        self._server.failed(place, error)

    def closed(self) -> None:
        """Everything of it has ended."""
        self._server.disconnected(self)

    def _expire(self) -> None:
        self._server.say("closed a connection: it did not attach within %g s", self._server.limits.attach_s)
        self._transport.abort()

    # Moving bytes

    def _pump(self, data: bytes = b"") -> None:
        session, server = self.session, self._server
        while True:
            server.handling = True
            try:
                more = session.process(data)
            except ProtocolError as error:
                say = _log.warning if self._deadline.cancelled() else self._server.say  # seldom of strangers
                say("closed a connection: %s", error)
                self._write()
                self._writable = False
                self._transport.close()
                return
            finally:
                server.handling = False
                if server.ready:
                    server.settle()
            self._write()
            if not more or not self._writable:
                break
            data = b""
        reading = self._writable and session.then is None
        if reading is not self._reading:
            self._read_on(reading=reading)
        if server.waiters:
            server.notice()

    def _read_on(self, *, reading: bool) -> None:
        if not self._transport.is_closing():
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _write(self) -> None:
        session = self.session
        output = session.output
        if not output:
            return
        if self._transport.is_closing():
            self._writable = False
            session.discard()
            return
        if session.output_bytes <= OUTPUT_BYTES:
            self._transport.write(b"".join(output))
        else:
            for piece in joined(output):
                self._transport.write(piece)
        output.clear()
        session.output_bytes = 0
        if session.deliveries is not None:
            session.sent()

    @property
    def buffered_bytes(self) -> int:
        """What was written and the client has not read."""
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()


def joined(pieces: "list[Buffer]") -> "list[Buffer]":
    """The same bytes in pieces of at most 64 KiB, except where one was larger before."""
    result: list[Buffer] = []
    group: list[Buffer] = []
    size = 0
    for piece in pieces:
        if group and size + len(piece) > OUTPUT_BYTES:
            result.append(b"".join(group))
            group, size = [], 0
        group.append(piece)
        size += len(piece)
    result.append(b"".join(group) if len(group) > 1 else group[0])
    return result
