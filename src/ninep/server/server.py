"""The server: listens, accepts, and serves one tree to all its connections."""

import asyncio
import logging
import os
import socket
import stat
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ninep import dial, errors
from ninep import tree as trees
from ninep._session import AfidConversation, Limits, Place
from ninep.errors import NinepError
from ninep.server.acceptor import Acceptor, unlink
from ninep.server.connection import Conn, Connection
from ninep.tree import Options, Peer, Tree

if TYPE_CHECKING:
    from ninep._wire import Buffer

_log = logging.getLogger("ninep")

INPUT_BYTES = 64 * 1024
SETTLE_AT_ONCE = 32  # readers that are answered before the writer who woke them
SILENT_S = 60.0  # until `say` repeats itself


class Auth(Protocol):
    """How Tauth is answered."""

    async def begin(self, conn: Conn, uname: str, aname: str) -> AfidConversation:
        """A new conversation, or NinepError."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is in use now, over all connections; a lost connection counts until everything of it has ended.

    Args:
        connections: established, and lost ones that something still runs for.
        fids: in use.
        outstanding: requests that have not ended.
    """

    connections: int
    fids: int
    outstanding: int


Attach = Callable[[Conn, str, str, AfidConversation | None], Awaitable[Peer]]


class Server:
    """Serves a tree.

    Args:
        tree: what is served.
        attach: `(conn, uname, aname, auth)` decides who an attaching client is. `aname` is without its options; `auth`
            is the finished conversation of its afid, None when it brought none: whoever needs one refuses then.
        auth: answers Tauth; without it Tauth is an error that clients fall back from.
        limits: for each connection.
        on_error: `(peer, path, error)` is told of errors of what was written, found when nobody waits for a reply: at
            clunk (Rclunk is an Rerror then, which many clients do not see) and after a writer's pause.
        trace: gets one line for each message.
    """

    def __init__(
        self,
        tree: Tree,
        attach: Attach,
        *,
        auth: Auth | None = None,
        limits: Limits | None = None,
        on_error: Callable[[Peer, str, NinepError], None] | None = None,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.tree = tree
        self.limits = limits or Limits()
        self.trace: Callable[[str, Buffer], None] | None = None
        if trace is not None:
            from ninep.server.trace import tell  # noqa: PLC0415  messages are slow to import, and few servers tell

            self.trace = partial(tell, trace)
        self.loop: asyncio.AbstractEventLoop
        self._attach = attach
        self._auth = auth
        self._on_error = on_error
        self._acceptor: Acceptor | None = None  # once it listens
        self._said: dict[str, float] = {}
        self.connections: set[Connection] = set()
        self.input = memoryview(bytearray(INPUT_BYTES))
        self.handling = False  # messages are being handled; what is `ready` after that is settled
        self.ready: deque[Callable[[], None]] = deque()
        self._settling = False
        self.waiters: list[tuple[Callable[[Statistics], bool], asyncio.Future[Statistics]]] = []

    # Listening

    async def listen(self, address: str) -> str:
        """Accept connections at a dial string; a stale unix socket is replaced.

        Returns:
            The address, with the port filled in where it was 0.

        Raises:
            dial.AddressError: it is no dial string.
            OSError: `address already in use` when somebody listens there, and whatever else the system says.
        """
        self.loop = asyncio.get_running_loop()
        where = dial.parse(address)
        if isinstance(where, dial.Unix):
            sockets = [_unix_socket(where.path)]
        else:
            sockets = await self._tcp_sockets(where)
            where = dial.Tcp(where.host, where.port or sockets[0].getsockname()[1])
        if self._acceptor is None:
            self._acceptor = Acceptor(self)
        for sock in sockets:
            self._acceptor.listen(sock, where)
        return str(where)

    async def _tcp_sockets(self, where: dial.Tcp) -> list[socket.socket]:
        """Bound sockets; asyncio finds the addresses and binds them."""
        host = None if where.host == "*" else where.host
        bound = await self.loop.create_server(asyncio.Protocol, host, where.port, start_serving=False)
        sockets = [sock.dup() for sock in bound.sockets]
        bound.close()
        return sockets

    async def adopt(self, sock: socket.socket) -> None:
        """Serve a socket that is connected already; it belongs to the server from now on."""
        self.loop = asyncio.get_running_loop()
        sock.setblocking(False)
        await self.loop.connect_accepted_socket(lambda: Connection(self, None), sock)

    async def close(self) -> None:
        """Stop listening, end all connections, and wait until nothing of them runs; bounded by `cleanup_s`."""
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None:
            await acceptor.close()
        for connection in list(self.connections):
            connection.abort()
        await self.until(lambda now: now.connections == 0)

    # Statistics

    def statistics(self) -> Statistics:
        """What is in use now."""
        sessions = [connection.session for connection in self.connections]
        return Statistics(
            len(sessions),
            sum(len(session.fids) for session in sessions),
            sum(session.outstanding for session in sessions),
        )

    async def until(self, condition: Callable[[Statistics], bool]) -> Statistics:
        """Wait until the statistics fulfil `condition`, and give them; for tests, which then need not sleep."""
        now = self.statistics()
        if condition(now):
            return now
        future: asyncio.Future[Statistics] = asyncio.get_running_loop().create_future()
        self.waiters.append((condition, future))
        try:
            return await future
        finally:
            self.waiters.remove((condition, future))

    def notice(self) -> None:
        """The statistics may have changed; `waiters` are told."""
        if not self.waiters:
            return
        now = self.statistics()
        for condition, future in self.waiters:
            if not future.done() and condition(now):
                future.set_result(now)

    # For connections

    def soon(self, callback: Callable[[], None]) -> None:
        """Call it when the message being handled has been, before its reply is written, or in the next loop step."""
        if not self.ready and not self.handling:
            self.loop.call_soon(self.settle)
        self.ready.append(callback)

    def settle(self) -> None:
        """Call what is to be called soon; what does not come to an end goes on in the next loop step."""
        if self._settling:
            return
        ready = self.ready
        self._settling = True
        for _ in range(min(len(ready), SETTLE_AT_ONCE)):
            ready.popleft()()
        self._settling = False
        if ready:
            self.loop.call_soon(self.settle)

    def connected(self, connection: Connection) -> None:
        """A connection begins."""
        self.connections.add(connection)
        self.notice()

    def disconnected(self, connection: Connection) -> None:
        """Everything of a connection has ended."""
        self.connections.discard(connection)
        if self._acceptor is not None:
            self._acceptor.ended(connection)
        self.notice()

    def say(self, text: str, *values: object) -> None:
        """Log a line, each text once a minute at most: strangers decide how often there is something to say."""
        now = self.loop.time()
        if now >= self._said.get(text, now):
            self._said[text] = now + SILENT_S
            _log.warning(text, *values)

    async def authenticate(self, conn: Conn, uname: str, aname: str) -> AfidConversation:
        """Begin a conversation."""
        if self._auth is None:
            raise NinepError(errors.NO_AUTHENTICATION)
        return await self._auth.begin(conn, uname, aname)

    async def attach(
        self, conn: Conn, uname: str, aname: str, auth: AfidConversation | None, *, held: trees.Held
    ) -> Place:
        """The root as this client sees it; `held` is what all files of its connection hold."""
        name, options = Options.split(aname)
        peer = await self._attach(conn, uname, name, auth)
        return self.tree.root(peer, options, self.failed, held)

    def failed(self, place: Place, error: NinepError) -> None:
        """Pass it on to whoever keeps errors."""
        if self._on_error is not None and isinstance(place, trees.Place):
            self._on_error(place.peer, place.path(), error)


def _unix_socket(path: str) -> socket.socket:
    """A bound socket; one that nobody listens on is replaced."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if _is_stale(path):
            unlink(path)
        os.fchmod(sock.fileno(), 0o600)  # what is bound has the mode of the socket, without a moment of another one
        sock.bind(path)
    except BaseException:
        sock.close()
        raise
    return sock


def _is_stale(path: str) -> bool:
    """Whether it is a socket that nobody listens on."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return False
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
    return False
