"""A 9P2000 client on asyncio."""

from ninep.client.client import Client
from ninep.client.file import File

__all__ = ["Client", "File"]
