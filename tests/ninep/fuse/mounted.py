"""Mount a server on a directory and serve it until SIGTERM: `mounted.py ADDRESS DIRECTORY [no-reconnect]`.

Its process id is a line of standard output once the mount can be used.
"""

import asyncio
import os
import signal
import sys
from functools import partial

from ninep.client import Client
from ninep.errors import ConnectionLostError, NinepError
from ninep.fuse import Mount, MountError


async def _main(address: str, directory: str, *options: str) -> None:
    connect = partial(Client.connect, address, uname="me")
    mount = await Mount.start(directory, connect, source=address, reconnect="no-reconnect" not in options)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    waiting = asyncio.create_task(mount.wait())
    stop = asyncio.create_task(stopping.wait())
    await asyncio.wait({waiting, stop}, return_when=asyncio.FIRST_COMPLETED)
    if stop.done():
        await mount.unmount()
    stop.cancel()
    await waiting


if __name__ == "__main__":
    try:
        asyncio.run(_main(*sys.argv[1:]))
    except ConnectionLostError:
        sys.exit("the server hung up")
    except (MountError, NinepError, OSError) as error:
        sys.exit(str(error))
