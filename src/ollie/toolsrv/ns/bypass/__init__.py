"""`bypass/`: what waits to be allowed to run without the sandbox."""

from ninep.files import Entry, Sink, Text, Watch
from ollie.toolsrv.json_line import json_line
from ollie.toolsrv.ns.bypass import resolve
from ollie.toolsrv.server import Toolsrv

ENTRIES: tuple[Entry[Toolsrv], ...] = (
    Watch(
        "pending",
        0o440,
        "Requests to run without the sandbox, those still open first; a JSON object a read.",
        lambda toolsrv, peer: toolsrv.broker.watch(peer),
    ),
    Text(
        "list",
        0o440,
        "The same, all that are open, without waiting.",
        lambda toolsrv, peer: b"".join(json_line(request.public()) for request in toolsrv.broker.open(peer)),
    ),
    Sink(
        "resolve",
        0o220,
        'Answers one: {"id":"…","approved":true} or {"id":"…","error":"why not"}.',
        resolve.take,
    ),
)
