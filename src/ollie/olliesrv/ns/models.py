"""`models`: the models of every backend."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.server import Ollie


async def render(ollie: Ollie, _peer: OlliePeer) -> bytes:
    """`backend<tab>model` lines."""
    return "".join(f"{backend}\t{model}\n" for backend, model in await ollie.services.models.known()).encode()
