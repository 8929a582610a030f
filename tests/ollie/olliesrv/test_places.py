"""Which directory an agent may work in."""

from pathlib import Path

import pytest

from ninep.errors import NinepError
from ollie.olliesrv.places import Scratch, unmoved, working_directory


def test_a_directory_is_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links and `..` are gone from it; `~` is the home."""
    (tmp_path / "real/sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in (f"{tmp_path}/link/sub", f"{tmp_path}/real/../real/sub/", "~/link/sub"):
        assert working_directory(given, ()) == str(tmp_path / "real/sub")


@pytest.mark.parametrize("path", ["", ".", "relative", "/tmp\0", "~nobody-of-this-name/x"])
def test_what_is_no_absolute_path_is_refused(path: str) -> None:
    """The server's own directory means nothing to a client."""
    with pytest.raises(NinepError, match=r"^cwd (is not an absolute path|does not exist): "):
        working_directory(path, ())


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    """As a directory that does not exist."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(NinepError, match=r"^cwd does not exist: "):
        working_directory(str(tmp_path / "loop"), ())


@pytest.mark.parametrize(("path", "allowed"), [(".", False), ("own", False), ("own/sub", False), ("owner", True)])
def test_ollies_own_directories_are_refused(tmp_path: Path, path: str, allowed: bool) -> None:  # noqa: FBT001
    """Also one that does not exist yet would be inside."""
    for name in ("own/sub", "owner"):
        (tmp_path / name).mkdir(parents=True)
    private = (str(tmp_path / "own"), str(tmp_path / "missing/deep"))
    if allowed:
        assert working_directory(str(tmp_path / path), private) == str(tmp_path / path)
    else:
        with pytest.raises(NinepError, match=r"ollie's own directory .* \(choose "):
            working_directory(str(tmp_path / path), private)


def test_a_directory_that_became_a_link_is_noticed(tmp_path: Path) -> None:
    """Also when it is one further up."""
    path = working_directory(str(tmp_path), ())
    (tmp_path / "a/b").mkdir(parents=True)
    assert unmoved(f"{path}/a/b")
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "a").symlink_to(tmp_path / "c")
    assert not unmoved(f"{path}/a/b")


def test_a_scratch_directory_is_made_once_and_removed() -> None:
    """Private, and with whatever was put into it."""
    scratch = Scratch()
    path = Path(scratch.path())
    assert scratch.path() == str(path)
    assert path.stat().st_mode & 0o777 == 0o700
    (path / "deep/er").mkdir(parents=True)
    scratch.remove()
    scratch.remove()
    assert not path.exists()
