"""Locks, held by real processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from ollie.olliesrv.process.lock import Lock, LockedError, holder, lock_path

HOLD = """
import sys
from ollie.olliesrv.process.lock import Lock
lock = Lock(sys.argv[1])
print(flush=True)
sys.stdin.read()
lock.release()
print(flush=True)
sys.stdin.close()
"""


def held(path: str) -> "subprocess.Popen[bytes]":
    """A process that holds the lock until its standard input ends."""
    child = subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def test_a_lock_names_its_holder(tmp_path: Path) -> None:
    """A lock that is held is refused with the id of the process that holds it."""
    path = lock_path(str(tmp_path / "ollie"))
    with held(path) as child:
        assert holder(path) == child.pid
        with pytest.raises(LockedError) as caught:
            Lock(path)
        assert caught.value.pid == child.pid
        assert holder(path) == child.pid


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    """A process that is killed leaves no lock behind."""
    path = str(tmp_path / "lock")
    with held(path) as child:
        child.kill()
        child.wait()
        assert holder(path) is None
        Lock(path).release()


def test_nobody_holds_it(tmp_path: Path) -> None:
    """A lock that was let go, or never taken, has no holder."""
    path = str(tmp_path / "lock")
    assert holder(path) is None
    lock = Lock(path)
    assert Path(path).stat().st_mode & 0o777 == 0o600
    lock.release()
    assert holder(path) is None


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    """A link in the place of the lock file is refused."""
    path = tmp_path / "lock"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="lock"):
        Lock(str(path))
