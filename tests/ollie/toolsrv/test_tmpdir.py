"""The private directory of a server."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ollie.toolsrv import tmpdir
from ollie.toolsrv.tmpdir import TemporaryDirectory, sweep

AS_ANYBODY = ["setpriv", "--bounding-set", "-all"] if os.geteuid() == 0 else []
SWEEP = "import sys; from pathlib import Path; from ollie.toolsrv import tmpdir; tmpdir.sweep(Path(sys.argv[1]))"
# Puts links in the places of directories, and back, without end; says when it has begun.
SWAP = """
import ctypes, itertools
exchange = ctypes.CDLL(None).renameat2
for number in itertools.cycle(range(3)):
    exchange(-100, b"sub%d" % number, -100, b"link%d" % number, 2)
    if number == 0:
        print(flush=True)
"""


def test_it_is_private_and_goes_with_all_it_holds(tmp_path: Path) -> None:
    """Mode 0700; locked directories and links to elsewhere do not survive, what links point to does."""
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o500)
    directory = TemporaryDirectory(tmp_path)
    inside = directory.path
    assert inside.stat().st_mode & 0o777 == 0o700
    (inside / "sub").mkdir()
    (inside / "sub" / "file").touch()
    (inside / "sub").chmod(0)
    (inside / "link").symlink_to(precious)
    directory.remove()
    assert not inside.exists()
    assert precious.stat().st_mode & 0o777 == 0o500


def test_a_sweep_takes_only_what_nobody_holds(tmp_path: Path) -> None:
    """The directory of a killed server goes, the one of a live server and strangers stay."""
    live = TemporaryDirectory(tmp_path)
    dead = TemporaryDirectory(tmp_path)
    os.close(dead._fd)
    stranger = tmp_path / "ollie-tools"
    stranger.mkdir()
    (tmp_path / f"ollie-tools.{os.getuid()}.link").symlink_to(stranger)
    assert sweep(tmp_path) == [dead.path.parent]
    assert live.path.is_dir()
    assert stranger.is_dir()
    live.remove()


@pytest.mark.parametrize("mode", [0, 0o500])
def test_a_sweep_takes_what_a_tool_took_the_rights_to_away(tmp_path: Path, mode: int) -> None:
    """Also the outer directory; nothing outside is changed for a link in its place."""
    dead = TemporaryDirectory(tmp_path)
    os.close(dead._fd)
    (dead.path / "file").touch()
    dead.path.chmod(mode)
    dead.path.parent.chmod(mode)
    stranger = tmp_path / "stranger"
    stranger.mkdir(mode=0)
    link = tmp_path / f"ollie-tools.{os.getuid()}.link"
    link.symlink_to(stranger)
    subprocess.run([*AS_ANYBODY, sys.executable, "-c", SWEEP, tmp_path], check=True)
    assert sorted(tmp_path.iterdir()) == [link, stranger]
    assert stranger.stat().st_mode & 0o777 == 0


def test_it_goes_however_deep_it_is(tmp_path: Path) -> None:
    """Deeper than paths may be long, and than calls may be nested; also at the start of the next server."""
    dead = TemporaryDirectory(tmp_path)
    at = os.open(dead.path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("sub", dir_fd=at)
        below = os.open("sub", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT, dir_fd=at))
    os.close(at)
    os.close(dead._fd)
    try:
        assert sweep(tmp_path) == [dead.path.parent]
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["rm", "-rf", dead.path], check=True)  # what fails here would fail in pytest as well


def test_no_link_is_followed_that_is_put_there_meanwhile(tmp_path: Path) -> None:
    """A tool that its server's death has not ended yet has nothing outside changed or deleted."""
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o500)
    base = tmp_path / "base"
    base.mkdir()
    for _ in range(40):
        inside = TemporaryDirectory(base).path
        for number in range(3):
            (inside / f"sub{number}").mkdir()
            (inside / f"link{number}").symlink_to(precious)
        swapping = subprocess.Popen([sys.executable, "-c", SWAP], cwd=inside, stdout=subprocess.PIPE)
        try:
            assert swapping.stdout is not None
            swapping.stdout.readline()
            tmpdir._remove(inside.parent)
        finally:
            swapping.send_signal(signal.SIGKILL)
            swapping.communicate()
        tmpdir._remove(inside.parent)
        assert list(base.iterdir()) == []
    assert precious.stat().st_mode & 0o777 == 0o500
