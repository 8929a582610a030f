"""A 9P2000 server on asyncio."""

from ninep._session import AfidConversation, Limits
from ninep.server.connection import Conn
from ninep.server.server import Auth, Server, Statistics

__all__ = ["AfidConversation", "Auth", "Conn", "Limits", "Server", "Statistics"]
