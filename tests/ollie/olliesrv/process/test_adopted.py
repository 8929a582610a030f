"""Inherited processes, in a server process of their own."""

import subprocess
import sys

SERVER = """
import asyncio, os
from ollie.olliesrv.process import procfs
from ollie.olliesrv.process.adopted import Adopted
from ollie.sandbox.processes import children
from ollie.sandbox.syscalls import become_subreaper

async def main():
    become_subreaper()
    adopted = Adopted(patience_s=0.05)
    adopted.start()
    # Three processes that outlive their parent, and are ended when it has gone; and one of our own.
    parent = await asyncio.create_subprocess_exec(
        "sh", "-c", "for i in 1 2 3; do sleep 1000 >/dev/null & echo $!; done", stdout=asyncio.subprocess.PIPE)
    out, _ = await parent.communicate()
    orphans = [int(pid) for pid in out.split()]
    print("adopted", all(procfs.process(pid).parent == os.getpid() for pid in orphans))
    own = await asyncio.create_subprocess_exec("sh", "-c", "exit 7")
    for pid in orphans:
        os.kill(pid, 15)
    print("own status", await own.wait())
    while adopted.collected < 3:
        await asyncio.sleep(0.01)
    print("left", children(os.getpid()))
    adopted.close()

asyncio.run(main())
"""


def test_orphans_are_collected() -> None:
    """Orphans come to a subreaper and are collected; its own children are left to who started them."""
    done = subprocess.run([sys.executable, "-c", SERVER], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["adopted True", "own status 7", "left []"], done.stderr
