"""The tree of olliesrv: tables of files, and what their reads and writes call.

Nothing is decided here: what is read is printed from what the objects give, what is written becomes calls on them. A
file with behaviour of its own has a module at its served path, without the `{…}` elements.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ninep.files import Control, Request, Text, Watch
from ninep.server import statistics_file
from ninep.tree import Dir, Entry, Tree
from ollie.olliesrv.door import access
from ollie.olliesrv.ns import aliases, bypass, ctl, errors, eventwait, models, session, tools
from ollie.olliesrv.ns import help as reference
from ollie.olliesrv.server import Ollie


def _lines(words: Iterable[str]) -> bytes:
    """A line for each word."""
    return "".join(f"{word}\n" for word in words).encode()


ENTRIES: Final[Sequence[Entry[Ollie]]] = (
    Text("backends", 0o440, "Backends, one a line.", render=lambda ollie, _peer: _lines(ollie.backends.names)),
    Text("models", 0o440, "Models: backend, model.", render=models.render),
    Text(
        "agents",
        0o440,
        "Profiles of agents, one a line.",
        render=lambda ollie, _peer: _lines(ollie.services.profiles.names()),
    ),
    Text("tools", 0o440, "Tools: name, description.", render=tools.render),
    Text("help", 0o440, "This reference.", render=lambda _ollie, _peer: reference.text(ENTRIES)),
    Text("aliases", 0o440, "What each id stands for: id, path.", render=aliases.render),
    Text("errors", 0o440, "Errors of yours that no reply could carry, the last 64.", render=errors.render),
    Watch(
        "eventwait",
        0o440,
        "What happens, a JSON object a read: sessions, agents, states, turns, approvals, processes, errors.",
        watch=eventwait.watch,
    ),
    statistics_file(lambda ollie: ollie.listener, mode=0o400),
    Control(
        "ctl",
        0o600,
        "Commands to the server: write one, read its answer.",
        commands=ctl.COMMANDS,
    ),
    Request(
        "generate",
        0o660,
        "Ask a model once: write a prompt, read the answer.",
        run=lambda ollie, peer, data: ollie.generate(data, by=peer.agent),
    ),
    Dir("bypass", "What waits for the owner's approval.", bypass.ENTRIES),
    Dir("session", "The sessions.", session.ENTRIES),
)


def tree(ollie: Ollie) -> Tree:
    """The tree of a server."""
    return Tree(ENTRIES, ollie, permit=access.permit)
