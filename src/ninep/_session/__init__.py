"""The server's side of 9P2000 without I/O: what a tree and a driver have to offer, fids, and the session itself."""

from ninep._session.interface import AfidConversation, Driver, OpenFile, Place, Running, Timer, awaitable, check_name
from ninep._session.session import Limits, Session

__all__ = [
    "AfidConversation",
    "Driver",
    "Limits",
    "OpenFile",
    "Place",
    "Running",
    "Session",
    "Timer",
    "awaitable",
    "check_name",
]
