"""`bypass/`: what waits for approval in all tool servers that run. The owner's alone."""

from collections.abc import Sequence
from typing import Final

from ninep.files import Sink, Text, Watch
from ninep.tree import Entry
from ollie.olliesrv.ns.bypass import list  # noqa: A004  named for the served file
from ollie.olliesrv.server import Ollie

ENTRIES: Final[Sequence[Entry[Ollie]]] = (
    Watch(
        "pending",
        0o400,
        "Requests to run a tool without the sandbox, those still open first; a JSON object a read.",
        watch=lambda ollie, _peer: ollie.approvals.watch(),
    ),
    Text(
        "list",
        0o400,
        "The same, all that are open, a line each, without waiting.",
        render=list.render,
    ),
    Sink(
        "resolve",
        0o200,
        'Answers one: {"id":"…","approved":true} or {"id":"…","error":"why not"}.',
        take=lambda ollie, _peer, data: ollie.approvals.resolve(data),
    ),
)
