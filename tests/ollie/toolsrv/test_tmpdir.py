"""The private directory of a server."""

import os
from pathlib import Path

from ollie.toolsrv.tmpdir import TemporaryDirectory, sweep


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
