"""A server of a small tree in a thread of its own, for clients that block."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ninep.errors import NinepError
from ninep.files import Peer, Role, Tree
from ninep.server import Server


class Threaded(ABC):
    """The server.

    Args:
        address: where it listens.
        secret: what a client has to prove; empty for nothing.

    Attributes:
        attached: uname and aname of each attach.
    """

    def __init__(self, address: str, secret: bytes = b"") -> None:
        self.attached: list[tuple[str, str]] = []
        self._secret = secret
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.server = Server(Tree(self.entries(), self), self._attach, auth=self if secret else None)
        self.address = self.run(self.server.listen(address))

    @abstractmethod
    def entries(self) -> Sequence[Any]:
        """The table of its root."""

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of something that runs in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def soon(self, call: Callable[[], object]) -> None:
        """Have something called in the server's loop."""
        self._loop.call_soon_threadsafe(call)

    def until_idle(self) -> None:
        """Wait until the server has no connection any more."""
        self.run(self.server.until(lambda now: now.connections == 0))

    def close(self) -> None:
        """End the server and its thread."""
        self.run(self.server.close())
        self.soon(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def begin(self, _conn: object, _uname: str, _aname: str) -> "Conversation":
        """Answers Tauth."""
        return Conversation(self._secret)

    async def _attach(self, _conn: object, uname: str, aname: str, auth: object) -> Peer:
        if self._secret and auth is None:
            raise NinepError("a secret is needed")
        self.attached.append((uname, aname))
        return Peer(uname, aname, Role.GROUP)


class Conversation:
    """An authentication by secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._token = b""

    @property
    def done(self) -> bool:
        """Whether the secret was right."""
        return bool(self._token)

    async def read(self, count: int) -> bytes:
        """The token."""
        return self._token[:count]

    async def write(self, data: bytes) -> None:
        """Takes the secret."""
        if data != self._secret:
            raise NinepError("wrong secret")
        self._token = b"token"
