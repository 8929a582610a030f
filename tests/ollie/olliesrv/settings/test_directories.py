"""Which directory an agent may work in."""

from pathlib import Path

import pytest

from ninep.errors import NinepError
from ollie.olliesrv.settings.directories import Scratch, check_unmoved, scratch_base, sweep_scratch, working_directory

SESSION = "01a22cd4-1ac6-71cd-ba72-735018c225f4"
OTHER = "01a22cd4-1aed-71c6-8c63-6834ee8fae5d"


def test_a_directory_is_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links and `..` are gone from it; `~` is the home."""
    (tmp_path / "real/sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in (f"{tmp_path}/link/sub", f"{tmp_path}/real/../real/sub/", "~/link/sub"):
        assert working_directory(given, ()) == str(tmp_path / "real/sub")


@pytest.mark.parametrize("path", ["", ".", "relative", "~nobody-of-this-name/x"])
def test_what_is_no_absolute_path_is_refused(path: str) -> None:
    """The server's own directory means nothing to a client."""
    with pytest.raises(NinepError, match=r"^cwd (is not an absolute path|does not exist): "):
        working_directory(path, ())


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\x7fb", "a\x85b"])
def test_a_control_character_is_refused(tmp_path: Path, name: str) -> None:
    """In the name that is given, and in what a link leads to."""
    (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / name)
    for path in (name, "link"):
        with pytest.raises(NinepError, match=r"^cwd has a control character: '/.*a\\.*b'$"):
            working_directory(str(tmp_path / path), ())
    with pytest.raises(NinepError, match=r"^cwd has a control character: '/tmp\\x00'$"):
        working_directory("/tmp\0", ())


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    """As a directory that does not exist."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(NinepError, match=r"^cwd does not exist: "):
        working_directory(str(tmp_path / "loop"), ())


@pytest.mark.parametrize(("path", "allowed"), [(".", False), ("own", False), ("own/sub", False), ("owner", True)])
def test_ollies_own_directories_are_refused(tmp_path: Path, path: str, allowed: bool) -> None:
    """Also one that does not exist yet would be inside."""
    for name in ("own/sub", "owner"):
        (tmp_path / name).mkdir(parents=True)
    private = (str(tmp_path / "own"), str(tmp_path / "missing/deep"))
    if allowed:
        assert working_directory(str(tmp_path / path), private) == str(tmp_path / path)
    else:
        with pytest.raises(NinepError, match=r"ollie's own directory .* \(choose "):
            working_directory(str(tmp_path / path), private)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("tmp", "holds"),
        (".", "holds"),
        ("tmp/ollie-tools.0.ab/tmp", "lies in"),
        ("tmp/.ollie-tools.0.ab", "lies in"),
        ("tmp/ollie-work.0.ab", "lies in"),
        ("tmp/ollie-work.0.ab/session/sub", ""),
        ("tmp/mine/ollie-tools.0.ab", ""),
    ],
)
def test_directories_of_temporary_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, said: str
) -> None:
    """But for the scratch directory of a session, and what is somebody else's."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / path).mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    if said:
        with pytest.raises(NinepError, match=rf"^cwd {said} ollie's own directories in .*/tmp: .* \(choose "):
            working_directory(str(tmp_path / path), ())
    else:
        assert working_directory(str(tmp_path / path), ()) == str(tmp_path / path)


def test_a_directory_that_became_a_link_is_noticed(tmp_path: Path) -> None:
    """Also when it is one further up."""
    path = working_directory(str(tmp_path), ())
    (tmp_path / "a/b").mkdir(parents=True)
    check_unmoved(f"{path}/a/b")
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "a").symlink_to(tmp_path / "c")
    with pytest.raises(NinepError, match="is not what it was any more"):
        check_unmoved(f"{path}/a/b")


def test_a_scratch_directory_is_made_when_asked_for_and_removed_with_what_it_holds(tmp_path: Path) -> None:
    """Private, and found again by its session."""
    base = str(tmp_path / "base")
    scratch = Scratch(base, SESSION)
    assert not Path(base).exists()
    path = Path(scratch.path())
    assert path.stat().st_mode & 0o777 == 0o700
    assert scratch.is_at(str(path))
    (path / "deep/er").mkdir(parents=True)
    scratch.release()
    assert Scratch(base, SESSION).path() == str(path)
    assert (path / "deep/er").exists()
    scratch.remove()
    scratch.remove()
    assert not Path(base).exists()


def test_an_empty_scratch_directory_goes_with_the_server(tmp_path: Path) -> None:
    """And is made again by the next."""
    scratch = Scratch(str(tmp_path / "base"), SESSION)
    scratch.path()
    scratch.release()
    assert list(tmp_path.iterdir()) == []


def test_scratch_directories_of_lost_sessions_are_swept(tmp_path: Path) -> None:
    """Those of sessions that live are kept."""
    base = str(tmp_path / "base")
    sweep_scratch(base, [])
    kept, lost = Scratch(base, SESSION), Scratch(base, OTHER)
    for scratch in (kept, lost):
        (Path(scratch.path()) / "file").touch()
    sweep_scratch(base, [SESSION])
    assert [path.name for path in Path(base).iterdir()] == [SESSION[-12:]]
    sweep_scratch(base, [])
    assert list(tmp_path.iterdir()) == []


def test_a_scratch_directory_that_is_not_private_is_refused(tmp_path: Path) -> None:
    """Another user may have put it there."""
    (tmp_path / "base").mkdir(mode=0o755)
    with pytest.raises(NinepError, match="others may enter it"):
        Scratch(str(tmp_path / "base"), SESSION).path()


def test_servers_at_different_addresses_do_not_share_scratch_directories() -> None:
    """One sweeps, the other's stay."""
    assert scratch_base("unix!/a") == scratch_base("unix!/a")
    assert scratch_base("unix!/a") != scratch_base("unix!/b")
