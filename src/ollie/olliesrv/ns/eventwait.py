"""`eventwait`: what happens, one JSON object a read; to an agent what happens in its session."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.events import EventWatch
from ollie.olliesrv.server import Ollie


def watch(ollie: Ollie, peer: OlliePeer) -> EventWatch:
    """A reading by one fid."""
    return ollie.services.events.watch(peer.reader, peer.agent.session.id if peer.agent is not None else "")
