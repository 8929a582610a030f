"""How a client gets in: the conversation on the auth file, and the attach that needs it."""

from typing import Any

from ninep.errors import NinepError
from ninep.tree import Peer, Role
from ollie.sandbox.open_files import scarce
from ollie.toolsrv.auth import Auth


class Conversation:
    """One auth file: a write is the secret, a read gives the token.

    Attributes:
        done: The right secret was written.
    """

    def __init__(self, auth: Auth) -> None:
        self._auth = auth
        self._token = b""
        self.done = False

    async def write(self, data: bytes) -> None:
        """Take the secret, whole.

        Raises:
            NinepError: `wrong secret`, or `empty secret`.
        """
        self._token = self._auth.offer(data).encode()
        self.done = True

    async def read(self, count: int) -> bytes:
        """The token, then nothing.

        Raises:
            NinepError: The secret has not been written.
        """
        if not self.done:
            raise NinepError("write the secret first")
        piece, self._token = self._token[:count], self._token[count:]
        return piece


class Admission:
    """Lets clients in that know the secret, or every client.

    Args:
        auth: The secret and the token; None lets every client in, with the rights of the group.
    """

    def __init__(self, auth: Auth | None) -> None:
        self._auth = auth

    async def begin(self, _conn: Any, _uname: str, _aname: str) -> Conversation:
        """A new conversation; called where there is a secret only."""
        assert self._auth is not None
        return Conversation(self._auth)

    async def attach(self, _conn: Any, uname: str, aname: str, auth: object) -> Peer:
        """Who attached; `aname` is the id of the agent it acts for, empty for none.

        Raises:
            NinepError: `authentication required`, or an agent is refused the last descriptors.
        """
        if aname and scarce():
            raise NinepError("agents get at most what is left: the tool server has no open files to spare")
        if self._auth is None:
            return Peer(uname, aname, Role.GROUP)
        if auth is None:
            raise NinepError("authentication required")
        return Peer(uname, aname, Role.USER)
