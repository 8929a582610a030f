"""file_edit: exact replacement, and clear words where there is none."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ollie.tools.file_edit import LIMIT_BYTES, edit
from ollie.tools.program import ToolError

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a b c\n", "b", "x", b"a x c\n"),
        (b"a b c", "c", "d", b"a b d"),
        (b"one\ntwo\nthree\n", "one\ntwo\n", "", b"three\n"),
        (b"x = '$1' \\ `y`\n", "'$1' \\ `y`", '"\\1"', b'x = "\\1"\n'),
        ("é\n".encode(), "é", "ö", "ö\n".encode()),
        (b"\xff\xfe a\n", "a", "b", b"\xff\xfe b\n"),
        (b"a\r\nb\r\n", "a\nb", "c\nd\ne", b"c\r\nd\r\ne\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "c\r\nd", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", b"x\r\ny\nc\n"),
        (b"-v --help\n", "-v", "--", b"-- --help\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"caf\xe9 a\n", "a\n", "b", b"caf\xe9 b"),
        (b"a\rb\rc", "b", "x\ny", b"a\rx\ny\rc"),
        (b"a\0b", "b", "c", b"a\0c"),
        (b"$(x) `y`", "$(x)", "\\1&", b"\\1& `y`"),
        (b"a\n\n", "\n\n", "\n", b"a\n"),
    ],
)
def test_edit(before: bytes, old: str, new: str, after: bytes, tmp_path: Path) -> None:
    """The one occurrence is replaced; every other byte, and the kind of line ends, stays."""
    path = tmp_path / "f"
    path.write_bytes(before)
    assert edit({"path": str(path), "old": old, "new": new}).startswith(f"replaced 1 occurrence in {path}, on line")
    assert path.read_bytes() == after


def test_replace_all(call: Call, work: Path) -> None:
    """With replace_all every occurrence goes, and the lines are told."""
    (work / "f").write_text("aaa\nb\na\n")
    found = call("file_edit", path="f", old="a", new="aa", replace_all=True)
    assert found.stdout == "replaced 4 occurrences in f, on lines 1, 1, 1, 3\n"
    assert (work / "f").read_text() == "aaaaaa\nb\naa\n"


_LINES = "".join(f"value_{n} = {n}\n" for n in range(30))


@pytest.mark.parametrize(
    ("content", "old", "new", "error"),
    [
        ("a\nb\na\n", "a", "x", "old occurs 2 times, on lines 1, 3; give more of the text, or set replace_all"),
        ("a\n" * 12, "a", "x", "old occurs 12 times, on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more; give more"),
        ("    if x:\n        y()\n", "if x:\n    y()\n", "z", "does not occur in it; line 1 differs from it in white"),
        ("\n\tx =  1\n", "x = 1", "z", "does not occur in it; line 2 differs from it in white space only"),
        (
            _LINES,
            "valve_12 = 12\nmore",
            "z",
            "old does not occur in it; the line most like its first is 13: value_12 = 12",
        ),
        ("abc\n", "xyz", "z", "old does not occur in it\n"),
        ("", "xyz", "z", "old does not occur in it\n"),
        ("abc\n", "   ", "z", "old does not occur in it\n"),
        ("abc\n", "", "z", "old is empty; to add to the file use file_write with append, or: echo TEXT >> "),
        ("abc\n", "abc", "abc", "old and new are the same"),
        ("aaa\n", "aa", "b", "old occurs twice, overlapping, on line 1; give more of the text, or set replace_all"),
        ("x\n\n\ny", "\n\n", "\n", "old occurs twice, overlapping, on line 1; give more of the text"),
        ("abc\n", "\ud800", "abc", "old is not unicode"),
        ("abc\n", "abc", "\ud800", "new is not unicode"),
    ],
)
def test_refused(content: str, old: str, new: str, error: str, tmp_path: Path) -> None:
    """What is not exact is refused, with the places, and the file stays."""
    path = tmp_path / "f"
    path.write_text(content)
    with pytest.raises(ToolError) as caught:
        edit({"path": str(path), "old": old, "new": new})
    assert error in f"{caught.value}\n"
    assert path.read_text() == content


def test_missing_file(call: Call, work: Path) -> None:
    """A file that is not there is an error with the nearest name."""
    (work / "main.py").write_text("x")
    found = call("file_edit", path="mian.py", old="x", new="y")
    assert (found.returncode, found.stderr) == (1, "mian.py: no such file; did you mean main.py?\n")


def test_mode_and_links_stay(call: Call, work: Path) -> None:
    """An edit through a link changes its target, and keeps its mode."""
    (work / "target").write_text("x")
    (work / "target").chmod(0o750)
    (work / "link").symlink_to("target")
    assert call("file_edit", path="link", old="x", new="y").returncode == 0
    assert (work / "link").is_symlink()
    assert (work / "target").read_text() == "y"
    assert (work / "target").stat().st_mode & 0o777 == 0o750


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    content=st.text("ab\n", max_size=30),
    old=st.text("ab\n", min_size=1, max_size=3),
    new=st.text("abc\n", max_size=3),
)
def test_agrees_with_str_replace(content: str, old: str, new: str, tmp_path: Path) -> None:
    """With replace_all, the result is what str.replace gives, or an error that says why not."""
    path = tmp_path / "f"
    path.write_text(content)
    try:
        edit({"path": str(path), "old": old, "new": new, "replace_all": True})
    except ToolError:
        assert old not in content or old == new
    else:
        assert path.read_text() == content.replace(old, new)


def test_what_is_no_file(call: Call, work: Path) -> None:
    """Directories, devices, pipes and links that lead nowhere or in a circle are refused, and nothing waits."""
    (work / "d").mkdir()
    os.mkfifo(work / "fifo")
    (work / "gone").symlink_to("nowhere")
    (work / "loop").symlink_to("loop")
    for path, error in {
        "d": "d: is a directory; list it with glob",
        "fifo": "fifo: not a regular file",
        "/dev/null": "/dev/null: not a regular file",
        "gone": "gone: is a link to nowhere, which does not exist",
        "loop": f"{work}/loop: Too many levels of symbolic links",
        "x" * 300: f"{work}/{'x' * 300}: File name too long",
    }.items():
        found = call("file_edit", path=path, old="x", new="y")
        assert (found.returncode, found.stderr) == (1, f"{error}\n")


def test_a_huge_file(tmp_path: Path) -> None:
    """It is not read."""
    with (tmp_path / "f").open("wb") as file:
        file.truncate(LIMIT_BYTES + 1)
    with pytest.raises(ToolError, match="more than 67108864; change it with sed"):
        edit({"path": str(tmp_path / "f"), "old": "x", "new": "y"})


def test_a_read_only_file(tmp_path: Path) -> None:
    """It stays, though its directory would let it be replaced; root without its capabilities is nobody special."""
    path = tmp_path / "f"
    path.write_text("x")
    path.chmod(0o444)
    as_anybody = ["setpriv", "--bounding-set", "-all"] if os.geteuid() == 0 else []
    command = [*as_anybody, sys.executable, "-m", "ollie.tools.file_edit"]
    asked = json.dumps({"path": str(path), "old": "x", "new": "y"})
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert done.stderr == f"{path}: is read-only; to change it all the same make it writable first: chmod u+w\n"
    assert path.read_text() == "x"


def test_attributes_stay(tmp_path: Path) -> None:
    """Those that a user gave the file, its owner, and its set-id bits; its other names go on naming it."""
    path = tmp_path / "f"
    path.write_text("x")
    os.setxattr(path, "user.origin", b"here")
    if os.geteuid() == 0:
        os.chown(path, 4242, 4243)
    path.chmod(0o6755)
    before = path.stat()
    edit({"path": str(path), "old": "x", "new": "y"})
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.getxattr(path, "user.origin") == b"here"
    os.link(path, tmp_path / "g")
    edit({"path": str(path), "old": "y", "new": "longer"})
    assert (tmp_path / "g").read_text() == "longer"
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["f", "g"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    """Where it may be written but not given away it is written in place: its owner stays."""
    path = tmp_path / "f"
    path.write_text("x")
    path.chmod(0o666)
    os.chown(path, 4242, 4242)
    command = ["setpriv", "--bounding-set", "-all", sys.executable, "-m", "ollie.tools.file_edit"]
    asked = json.dumps({"path": str(path), "old": "x", "new": "y"})
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (path.read_text(), path.stat().st_uid) == ("y", 4242)
    assert [one.name for one in tmp_path.iterdir()] == ["f"]
