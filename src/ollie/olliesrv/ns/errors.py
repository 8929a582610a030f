"""`errors`: the last errors of the reader's own that no reply could carry."""

from datetime import UTC, datetime

from ninep.errors import NinepError
from ninep.tree import Peer
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.server import Ollie


def render(ollie: Ollie, peer: OlliePeer) -> bytes:
    """`time<tab>path<tab>error` lines, oldest first."""
    return ollie.lost.text(peer.reader)


def keep(ollie: Ollie, peer: Peer, path: str, error: NinepError) -> None:
    """Note an error that the peer could not be told."""
    assert isinstance(peer, OlliePeer)
    ollie.lost.add(peer.reader, path, str(error), datetime.now(UTC))
