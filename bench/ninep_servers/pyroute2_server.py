"""The files of the benchmark in pyroute2's 9P server: python pyroute2_server.py SOCKET."""

import asyncio
import sys

from files import BIG, K4, SMALL
from pyroute2.plan9 import Marshal9P
from pyroute2.plan9.filesystem import Filesystem
from pyroute2.plan9.server import Plan9ServerProtocol


async def main() -> None:
    """Serve for ever."""
    files = Filesystem()
    for name, data in (("status", SMALL), ("k4", K4), ("big", BIG)):
        files.create(name).data.write(data)
    files.create("d", qtype=0x80)
    files.create("d/e", qtype=0x80)
    files.create("d/e/small").data.write(SMALL)
    loop = asyncio.get_running_loop()
    await loop.create_unix_server(lambda: Plan9ServerProtocol(None, Marshal9P(), files), sys.argv[1])
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
