"""`errors`: the last errors of the reader's own that no reply could carry."""

import time

from ninep.errors import NinepError
from ninep.tree import Peer
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.lost import Lost
from ollie.olliesrv.server import Ollie
from ollie.protocol.words import moment


def render(ollie: Ollie, peer: OlliePeer) -> bytes:
    """`time<tab>path<tab>error` lines, oldest first."""
    lines = (
        f"{moment(lost.at_s)}\t{lost.path}\t{' '.join(lost.error.split())}\n" for lost in ollie.lost.of(peer.reader)
    )
    return "".join(lines).encode()


def keep(ollie: Ollie, peer: Peer, path: str, error: NinepError) -> None:
    """Note an error that the peer could not be told."""
    assert isinstance(peer, OlliePeer)
    ollie.lost.add(peer.reader, Lost(time.time(), path, str(error)))
    session = peer.agent.session.id if peer.agent is not None else ""
    ollie.services.events.tell("error", session=session, path=path, error=str(error))
