"""A 9P2000 client on asyncio, and the modes of `open` and `create`."""

from ninep._wire import DMDIR, ORDWR, OREAD, OTRUNC, OWRITE
from ninep.client.client import Client
from ninep.client.file import File

__all__ = ["DMDIR", "ORDWR", "OREAD", "OTRUNC", "OWRITE", "Client", "File"]
