"""`errors`: the last errors of the reader's own that no reply could carry."""

from ollie.olliesrv.peer import OlliePeer
from ollie.olliesrv.server import Ollie


def render(ollie: Ollie, peer: OlliePeer) -> bytes:
    """`time<tab>path<tab>error` lines, oldest first."""
    return ollie.lost.text(peer.reader)
