"""file_write: what was said is in the file, and everything else of it stays."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ollie.tools.file_write import write

Call = Callable[..., subprocess.CompletedProcess[str]]


def test_new_file(call: Call, work: Path) -> None:
    """A new file is made, with the directories above it, under the process's umask."""
    found = call("file_write", path="a/b/c.txt", content="hé\r\n")
    assert (found.returncode, found.stdout) == (0, "wrote 5 bytes to a/b/c.txt; a new file\n")
    assert (work / "a/b/c.txt").read_bytes() == b"h\xc3\xa9\r\n"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((work / "a/b/c.txt").stat().st_mode) == 0o666 & ~umask
    assert [path.name for path in (work / "a/b").iterdir()] == ["c.txt"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_content(content: str, tmp_path: Path) -> None:
    """Whatever the text is, the file has it in UTF-8."""
    write({"path": str(tmp_path / "f"), "content": content, "overwrite": True})
    assert (tmp_path / "f").read_bytes() == content.encode()


def test_a_megabyte(call: Call, work: Path) -> None:
    """A megabyte of quotes and backslashes arrives as it is."""
    content = "'\"\\$`\n" * (2**20 // 6)
    assert call("file_write", path="big", content=content).returncode == 0
    assert (work / "big").read_text() == content


def test_mode_and_owner_stay(work: Path, call: Call) -> None:
    """Replacing keeps mode, set-id bits and owner."""
    path = work / "f"
    path.write_text("old")
    if os.geteuid() == 0:
        os.chown(path, 4242, 4243)
    path.chmod(0o2751)
    before = path.stat()
    assert call("file_write", path="f", content="new!", overwrite=True).stdout == "wrote 4 bytes to f; it had 3\n"
    after = path.stat()
    assert path.read_text() == "new!"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\n", "b\n", b"a\nb\n"),
        (b"a", "b", b"a\nb"),
        (b"a\r\nb\r\n", "c\n", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb", "c\r\n", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb\n", "c\n", b"a\r\nb\nc\n"),
        (b"\xff\0", "\N{SNOWMAN}", b"\xff\0\n\xe2\x98\x83"),
        (b"a", "", b"a"),
        (b"", "b", b"b"),
        (None, "b", b"b"),
    ],
)
def test_append(before: bytes | None, content: str, after: bytes, call: Call, work: Path) -> None:
    """What is added begins on a line of its own and has the file's line ends; what was there stays, its inode too."""
    path = work / "f"
    if before is not None:
        path.write_bytes(before)
        path.chmod(0o640)
        inode = path.stat().st_ino
    found = call("file_write", path="f", content=content, append=True)
    assert (found.returncode, found.stderr) == (0, "")
    assert path.read_bytes() == after
    if before:
        assert found.stdout == f"added {len(after) - len(before)} bytes to f; it had {len(before)}\n"
        assert (path.stat().st_ino, stat.S_IMODE(path.stat().st_mode)) == (inode, 0o640)


def test_an_empty_file_is_written(call: Call, work: Path) -> None:
    """Nothing is lost by it."""
    (work / "f").touch()
    assert call("file_write", path="f", content="x").stdout == "wrote 1 bytes to f; it had 0\n"


def test_append_and_overwrite_exclude_one_another(call: Call, work: Path) -> None:
    """Nothing is done."""
    found = call("file_write", path="f", content="x", append=True, overwrite=True)
    assert (found.returncode, found.stderr) == (1, "append and overwrite exclude one another\n")
    assert not (work / "f").exists()


def test_replaced_in_one_step(work: Path, call: Call) -> None:
    """Who has the old file open still sees the old content: it was replaced, not written over."""
    (work / "f").write_text("old")
    with (work / "f").open() as reader:
        call("file_write", path="f", content="n", overwrite=True)
        assert reader.read() == "old"
    assert [path.name for path in work.iterdir()] == ["f"]


def test_links_stay(work: Path, call: Call) -> None:
    """A symbolic link stays one and its target is written, even a new one; hard links go on naming it."""
    (work / "d").mkdir()
    (work / "link").symlink_to("d/target")
    assert call("file_write", path="link", content="1").returncode == 0
    assert call("file_write", path="link", content="22", overwrite=True).returncode == 0
    assert (work / "link").is_symlink()
    assert (work / "d/target").read_text() == "22"
    os.link(work / "d/target", work / "hard")
    assert call("file_write", path="hard", content="3", overwrite=True).returncode == 0
    assert (work / "d/target").read_text() == "3"


def test_directory_without_room_for_another_file(tmp_path: Path) -> None:
    """Where no second file can be made beside it, the file is written in place; a new one cannot be."""
    (tmp_path / "f").write_text("a long text")
    tmp_path.chmod(0o500)
    # Root may do as it likes in a directory, but not without its capabilities: capabilities(7).
    as_anybody = ["setpriv", "--bounding-set", "-all"] if os.geteuid() == 0 else []
    code = (
        "import sys; from ollie.tools.file_write import write;"
        "write({'path': sys.argv[1], 'content': 'short', 'overwrite': True})"
    )

    def written(name: str) -> str:
        command = [*as_anybody, sys.executable, "-c", code, str(tmp_path / name)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr

    assert written("f") == ""
    assert (tmp_path / "f").read_text() == "short"
    assert written("g").endswith(f"PermissionError: [Errno 13] Permission denied: '{tmp_path}/g'\n")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the last step fails, the old file stays and the new one goes."""
    (tmp_path / "f").write_text("old")

    def fail(source: str, target: str) -> None:
        raise OSError(28, "No space left on device", source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="No space left"):
        write({"path": str(tmp_path / "f"), "content": "new", "overwrite": True})
    assert (tmp_path / "f").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_names_of_any_length(tmp_path: Path) -> None:
    """A name as long as names can be is written, beside what an earlier run left."""
    name = "x" * 255
    (tmp_path / f".ollie-{os.getpid()}-0").write_text("left by somebody")
    write({"path": str(tmp_path / name), "content": "1"})
    write({"path": str(tmp_path / name), "content": "2", "overwrite": True})
    assert (tmp_path / name).read_text() == "2"


@pytest.mark.parametrize(
    ("path", "content", "error"),
    [
        ("d", "x", "d: is a directory; list it with glob"),
        ("d/", "x", "d/: is the name of a directory; add the file's name"),
        ("new/", "x", "new/: is the name of a directory; add the file's name"),
        ("/dev/null", "x", "/dev/null: not a regular file"),
        ("f/g", "x", "{work}/f: "),
        ("", "x", "path is empty"),
        ("a\0b", "x", "path contains a NUL"),
        ("f", "x", "f: nothing was written, since it has 3 bytes already; to add to it use append"),
        ("f", "", "f: nothing was written, since it has 3 bytes already; to add to it use append"),
        ("link", "x", "link: nothing was written, since it has 3 bytes already; to add to it use append"),
        ("f", "\ud800", "content is not unicode"),
    ],
)
def test_refused(path: str, content: str, error: str, call: Call, work: Path) -> None:
    """What cannot be written is refused with the reason, and nothing changes."""
    (work / "d").mkdir()
    (work / "f").write_text("old")
    (work / "link").symlink_to("f")
    found = call("file_write", path=path, content=content)
    assert found.returncode == 1
    assert found.stderr.startswith(error.format(work=work))
    assert (work / "f").read_text() == "old"
    assert {path.name for path in work.iterdir()} == {"d", "f", "link"}
