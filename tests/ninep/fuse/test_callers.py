"""Who may use a mount, as the kernel says who they are."""

import asyncio
import os
import subprocess
import sys
import threading
from functools import partial

import pytest
from mountns import needs_mount

from ninep.fuse.callers import Caller, outside_of, process_of, same_user


@pytest.mark.parametrize(
    ("pid", "uid", "admitted"),
    [
        (os.getpid(), os.getuid(), True),
        (os.getpid(), os.getuid() + 1, False),
        (0, os.getuid(), False),
        (2**22 + 1, os.getuid(), False),
    ],
    ids=["we", "another user", "another namespace", "nobody"],
)
async def test_same_user(pid: int, uid: int, *, admitted: bool) -> None:
    """Only a process of this user that can be looked at."""
    assert await same_user()(Caller(pid, uid, os.getgid())) == admitted


def test_no_new_privs() -> None:
    """A process that cannot gain privileges is under other rules than we are, and we than it."""
    code = """
import asyncio, ctypes, os
from ninep.fuse.callers import Caller, same_user
before = same_user()
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
me = Caller(os.getpid(), os.getuid(), os.getgid())
print(asyncio.run(before(me)), asyncio.run(same_user()(me)))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False True\n"


def test_threads() -> None:
    """The kernel tells a thread; what counts is its process."""
    found: list[int | None] = []
    thread = threading.Thread(target=lambda: found.append(process_of(threading.get_native_id())))
    thread.start()
    thread.join()
    assert found == [os.getpid()]
    assert process_of(2**22 + 1) is None


async def test_below_a_process() -> None:
    """Children and their children are below, other processes are not; who has gone is nobody."""
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", "exec 3<&0; cat <&3 & echo $!; wait"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    grandchild = int(await process.stdout.readline())
    for pid in (process.pid, grandchild):
        caller = Caller(pid, os.getuid(), os.getgid())
        for ancestor, admitted in ((os.getpid(), False), (process.pid, False), (0, True), (2**22 + 1, True)):
            assert await outside_of(partial(int, ancestor), same_user())(caller) == admitted
    assert not await outside_of(int, same_user())(Caller(grandchild, os.getuid() + 1, os.getgid()))
    await process.communicate(b"")
    assert not await outside_of(int, same_user())(Caller(grandchild, os.getuid(), os.getgid()))


@needs_mount
def test_proc_of_another_namespace() -> None:
    """Where /proc tells of other processes than the kernel means, nobody can be judged."""
    code = "from ninep.fuse import same_user; same_user()"
    done = subprocess.run(
        ["unshare", "--pid", "--fork", sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "/proc is not that of this PID namespace" in done.stderr
