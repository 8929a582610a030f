"""file_read: whole files, parts of them, and what cannot be read."""

import io
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ollie.tools.file_read import LIMIT_BYTES, _Window, read

Call = Callable[..., subprocess.CompletedProcess[str]]


_TEN = "".join(f"line {n}\n" for n in range(1, 11))


@pytest.mark.parametrize(
    ("content", "arguments", "text"),
    [
        (b"hello\n", {}, "hello\n"),
        (b"no newline", {}, "no newline"),
        ("é 😀\n".encode(), {}, "é 😀\n"),
        (b"a\r\nb\r\n", {}, "a\r\nb\r\n"),
        (b"", {}, "[{path} is empty]\n"),
        (b"\n", {}, "\n"),
        (_TEN.encode(), {"offset": 9}, "line 9\nline 10\n[lines 9-10 of 10]\n"),
        (_TEN.encode(), {"offset": 2, "limit": 1}, "line 2\n[lines 2-2 of 10; go on with offset 3]\n"),
        (_TEN.encode(), {"limit": 1}, "line 1\n[lines 1-1 of 10; go on with offset 2]\n"),
        (_TEN.encode(), {"limit": 10}, _TEN),
        (_TEN.encode(), {"limit": 11}, _TEN),
        (b"a\nb", {"offset": 2}, "b\n[lines 2-2 of 2]\n"),
        (b"caf\xe9\n", {}, "caf\ufffd\n[not UTF-8: \ufffd stands for what is not]\n"),
        ("\ufffd\n".encode(), {}, "\ufffd\n"),
        (b"x" * LIMIT_BYTES, {}, "x" * LIMIT_BYTES),
        (
            b"x" * LIMIT_BYTES + b"yz\nnext\n",
            {},
            "x" * LIMIT_BYTES
            + "\n[line 1 is too long: 3 more bytes of it are not shown]\n[lines 1-1 of 2; go on with offset 2]\n",
        ),
        (
            b"x" + "é".encode() * LIMIT_BYTES,
            {},
            "x"
            + "é" * (LIMIT_BYTES // 2 - 1)
            + f"\n[line 1 is too long: {LIMIT_BYTES + 1} more bytes of it are not shown]\n",
        ),
    ],
)
def test_read(content: bytes, arguments: dict[str, object], text: str, tmp_path: Path) -> None:
    """What is asked for is shown as it is, and lines in brackets say what is not."""
    path = tmp_path / "file"
    path.write_bytes(content)
    assert read({"path": str(path), **arguments}) == text.replace("{path}", str(path))


@pytest.mark.parametrize("size", [LIMIT_BYTES - 1, LIMIT_BYTES, LIMIT_BYTES + 1, 10 * LIMIT_BYTES])
def test_reading_on_gives_the_whole_file(size: int, tmp_path: Path) -> None:
    """Reading on where it says, until it says nothing, gives every line once."""
    path = tmp_path / "file"
    lines = "".join(f"{n} {'x' * (n % 97)}\n" for n in range(size))[: size - 1] + "\n"
    path.write_text(lines)
    got, offset = "", 1
    while True:
        text = read({"path": str(path), "offset": offset})
        assert len(text) <= LIMIT_BYTES + 100
        body, _, note = text.rpartition("[lines ")
        got += body or text
        if "go on with offset" not in note:
            break
        offset = int(note.split()[-1].rstrip("]"))
    assert got == lines


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("missing.txt", "missing.txt: no such file"),
        ("main.pyy", "main.pyy: no such file; did you mean main.py?"),
        ("sub/mian.py", "sub/mian.py: no such file; did you mean sub/main.py?"),
        ("none/main.py", "none/main.py: no such file; nor is there a directory none"),
        ("main.py/x", "main.py/x: no such file; nor is there a directory main.py"),
        ("sub", "sub: is a directory; list it with glob"),
        ("fifo", "fifo: not a regular file"),
        ("image", "image: is binary, 9 bytes"),
        ("", "path is empty"),
        ("a\0b", "path contains a NUL"),
        ("\ud800", "path is not unicode"),
        ("-", "-: no such file"),
        ("-rf", "-rf: no such file"),
    ],
)
def test_what_cannot_be_read(path: str, error: str, call: Call, work: Path) -> None:
    """Each reason is told, with the nearest name where there is one."""
    (work / "sub").mkdir()
    for file in (work / "main.py", work / "sub/main.py"):
        file.write_text("x\n")
    (work / "image").write_bytes(b"\x89PNG\0\0\0\0\n")
    os.mkfifo(work / "fifo")
    found = call("file_read", path=path)
    assert (found.returncode, found.stdout, found.stderr) == (1, "", error + "\n")


def test_past_the_end(call: Call, work: Path) -> None:
    """A first line past the end is an error that says how many there are."""
    (work / "a").write_text("one\ntwo\n")
    assert call("file_read", path="a", offset=3).stderr == "a: has 2 lines, so there is no line 3\n"


def test_paths(call: Call, work: Path, tmp_path: Path) -> None:
    """Relative paths start at the working directory, `~/` at the home directory; odd names are names."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home/a").write_text("home")
    (work / "~b").write_text("tilde")
    (work / "-n $(x) 'y'\n").write_text("odd")
    assert call("file_read", path="~/a").stdout == "home"
    assert call("file_read", path="~b").stdout == "tilde"
    assert call("file_read", path="-n $(x) 'y'\n").stdout == "odd"
    assert call("file_read", path=str(work / "~b")).stdout == "tilde"


def test_refused_by_the_system(call: Call, work: Path) -> None:
    """The system's refusal is told in its words and with the whole path, so that the sandbox can explain it."""
    (work / "loop").symlink_to("loop")
    found = call("file_read", path="loop")
    assert found.returncode == 1
    assert found.stderr == f"{work}/loop: Too many levels of symbolic links\n"


@pytest.mark.parametrize(
    ("first", "shown"),
    [
        (1, "1\n[lines 1-1 of more than 278; go on with offset 2]\n"),
        (900, "900\n[lines 900-900 of more than 901; go on with offset 901]\n"),
        (1000, "1000\n[lines 1000-1000 of 1000]\n"),
    ],
)
def test_a_huge_file(first: int, shown: str) -> None:
    """Not all of its lines are counted, and that is told; those that are asked for are found all the same."""
    window = _Window(first, limit=1, counted_bytes=1000)
    window.read(io.BytesIO("".join(f"{n}\n" for n in range(1, 1001)).encode()))
    assert window.text() == shown
