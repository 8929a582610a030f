"""`session/new`: write a record, and a session is made; a read gives its name."""

from collections.abc import AsyncIterator

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.pairs import parse_record
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions.session import Session

_KEYS = ("name", "remote", "cwd")


async def run(ollie: Ollie, peer: OlliePeer, data: bytes) -> AsyncIterator[bytes]:
    """The name of the new session, and a newline."""
    session = await _create(ollie, peer, data)
    yield f"{session.name}\n".encode()


async def bare(ollie: Ollie, peer: OlliePeer, data: bytes) -> None:
    """Make a session that nobody reads the name of."""
    await _create(ollie, peer, data)


async def _create(ollie: Ollie, peer: OlliePeer, data: bytes) -> Session:
    return await ollie.sessions.create(**parse_record(data, _KEYS), by=peer.agent)
