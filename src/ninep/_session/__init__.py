"""The server's side of 9P2000 without I/O.

interface.py   what a tree below and a driver around it have to offer
request.py     a message that could not be answered at once, and the limits of a connection
fids.py        the states of a fid, as a table
output.py      replies on their way to the driver
session.py     input, tags, flush, version
walk.py io.py ending.py attach.py    what each message does
dialect.py     the table of them
"""

from ninep._session.dialect import DIALECT
from ninep._session.interface import (
    AfidConversation,
    Driver,
    OpenFile,
    Place,
    Running,
    Timer,
    Walked,
    awaitable,
    check_name,
)
from ninep._session.request import Limits
from ninep._session.session import OUTPUT_BYTES, Session

__all__ = [
    "DIALECT",
    "OUTPUT_BYTES",
    "AfidConversation",
    "Driver",
    "Limits",
    "OpenFile",
    "Place",
    "Running",
    "Session",
    "Timer",
    "Walked",
    "awaitable",
    "check_name",
]
