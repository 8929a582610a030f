"""`ctl`: the commands to the server. The owner's alone."""

from collections.abc import Sequence
from typing import Final

from ninep.files import Command, done
from ollie.olliesrv.server import Ollie

COMMANDS: Final[Sequence[Command[Ollie]]] = (
    Command(
        "invalidate",
        "",
        "forget lists of models and tools, and read them again",
        lambda ollie, peer, _: done(ollie.invalidate(by=peer.agent), "invalidated"),
    ),
    Command("kill", "", "end the server", lambda ollie, peer, _: done(ollie.stop(by=peer.agent), "stopping")),
)
