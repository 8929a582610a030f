"""A 9P2000 server on asyncio."""

from ninep._session import AfidConversation, Limits
from ninep.server.connection import Conn
from ninep.server.server import Auth, Server, Statistics
from ninep.server.statistics import statistics_file

__all__ = ["AfidConversation", "Auth", "Conn", "Limits", "Server", "Statistics", "statistics_file"]
