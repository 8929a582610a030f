"""Begin to mount a server on a directory, and be stopped by something: `given_up.py ADDRESS DIRECTORY cancelled|full`.

What stopped it is a line of standard output; what is mounted on the directory in the end are the others.
"""

import asyncio
import os
import resource
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ninep.client import Client
from ninep.fuse import Mount


def _mounts(directory: str) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines(keepends=True)
    return [line for line in lines if line.split()[4] == directory]


class _Threads(ThreadPoolExecutor):
    """Calls something in the loop when the directory is mounted, before anybody is told that it is."""

    def __init__(self, directory: str, then: Callable[[], object]) -> None:
        super().__init__()
        self._directory = directory
        self._then = then
        self._loop = asyncio.get_running_loop()

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it."""
        return super().submit(self._run, work, *args, **kwargs)

    def _run(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        before = _mounts(self._directory)
        result: object = work(*args, **kwargs)
        if not before and _mounts(self._directory):
            self._loop.call_soon_threadsafe(self._then)
        return result


async def _stopped(address: str, directory: str, what: str) -> str:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def connect() -> Client:
        client = await Client.connect(address, uname="me")
        if what == "full":
            free = os.dup(0)
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, most))  # one file can be opened, and no other
        return client

    starting = asyncio.ensure_future(Mount.start(directory, connect, source=address))
    if what == "cancelled":
        asyncio.get_running_loop().set_default_executor(_Threads(directory, starting.cancel))
    try:
        await starting
    except asyncio.CancelledError:
        return "cancelled"
    except OSError as error:
        return os.strerror(error.errno)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    return "nothing"


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(_stopped(*sys.argv[1:])) + "\n")
    sys.stdout.writelines(_mounts(sys.argv[2]))
