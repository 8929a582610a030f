"""Accepts connections, and turns away those that there is no room for.

asyncio's own accepting goes on trying while there is no descriptor left, as often as its backlog is long and with a
traceback for each try. Here a connection that cannot be served is ended at once, and the log says so once a minute.
"""

import asyncio
import contextlib
import errno
import os
import resource
import socket
from functools import partial
from typing import TYPE_CHECKING

from ninep import dial
from ninep.server.connection import Connection

if TYPE_CHECKING:
    from ninep.server.server import Server

BACKLOG = 1024
_AT_ONCE = 64  # connections accepted before others are served
_RETRY_S = 1.0
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})


class Acceptor:
    """The listening sockets of a server.

    One descriptor is kept to be given up when no other is left: with it a connection can be accepted and ended, and its
    client knows.

    Args:
        server: whose connections they become.
    """

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._loop = server.loop
        self._sockets: dict[socket.socket, dial.Unix | dial.Tcp] = {}
        self._beginning: set[asyncio.Task[object]] = set()
        self._remote: set[Connection] = set()
        self._spare = _spare()

    def listen(self, sock: socket.socket, where: dial.Unix | dial.Tcp) -> None:
        """Accept what comes in by a bound socket, which belongs to this from now on."""
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._sockets[sock] = where
        self._loop.add_reader(sock, self._accept, sock)

    async def close(self) -> None:
        """Accept nothing more; what was accepted has begun."""
        for sock, where in self._sockets.items():
            self._loop.remove_reader(sock)
            sock.close()
            if isinstance(where, dial.Unix):
                unlink(where.path)
        self._sockets.clear()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        if self._beginning:
            await asyncio.wait(self._beginning)

    def ended(self, connection: Connection) -> None:
        """There is room for another one."""
        self._remote.discard(connection)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._cannot(sock, error)
                return
            self._begin(accepted, self._sockets[sock])

    def _begin(self, accepted: socket.socket, where: dial.Unix | dial.Tcp) -> None:
        connection = Connection(self._server, where)
        if isinstance(where, dial.Tcp):
            room = _room(self._server.limits.tcp_connections)
            if len(self._remote) >= room:
                accepted.close()
                self._server.say("closed a connection by TCP: %d are the most there may be", room)
                return
            self._remote.add(connection)
        accepted.setblocking(False)
        task = self._loop.create_task(self._loop.connect_accepted_socket(lambda: connection, accepted))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    def _cannot(self, sock: socket.socket, error: OSError) -> None:
        self._server.say("connections cannot be accepted: %s", error.strerror)
        if error.errno in _EXHAUSTED and self._spare is not None:
            os.close(self._spare)
            with contextlib.suppress(OSError):
                sock.accept()[0].close()
            self._spare = _spare()
        if self._spare is None or error.errno not in _EXHAUSTED:
            self._loop.remove_reader(sock)
            self._loop.call_later(_RETRY_S, partial(self._retry, sock))

    def _retry(self, sock: socket.socket) -> None:
        if sock not in self._sockets:
            return
        if self._spare is None:
            self._spare = _spare()
        self._loop.add_reader(sock, self._accept, sock)


def unlink(path: str) -> None:
    """Remove a socket, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _room(most: int) -> int:
    """How many connections may come from elsewhere; half of the descriptors are for the rest."""
    return min(most, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def _spare() -> int | None:
    """A descriptor to give up, None when there is none."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
