"""glob: which names a pattern finds."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ollie.tools.glob import LIMIT, find
from ollie.tools.program import ToolError

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ["a.py", "b.txt", "src/c.py", "src/deep/er/d.py", "src/[x].py", ".env", ".git/config", "src/.hid/e.py"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "turn").symlink_to("turn")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "src/[x].py", "src/c.py", "src/deep/er/d.py"]),
        ("src/**", ["src/[x].py", "src/c.py", "src/deep/", "src/deep/er/", "src/deep/er/d.py"]),
        ("src/**/", ["src/deep/", "src/deep/er/"]),
        ("**/**/d.py", ["src/deep/er/d.py"]),
        ("src/**/er/*", ["src/deep/er/d.py"]),
        ("*", ["a.py", "b.txt", "gone", "loop/", "src/", "turn"]),
        ("*/", ["loop/", "src/"]),
        ("s*/c.p?", ["src/c.py"]),
        ("src/[[]x].py", ["src/[x].py"]),
        ("src/[!c].py", []),
        (".*", [".env", ".git/"]),
        ("**/.env", [".env"]),
        ("src/.hid/*", ["src/.hid/e.py"]),
        ("{a,b}.{py,txt}", ["a.py", "b.txt"]),
        ("src/{c.py,deep/**}", ["src/c.py", "src/deep/er/", "src/deep/er/d.py"]),
        ("{a}.py", []),
        ("a.py", ["a.py"]),
        ("./a.py", ["a.py"]),
        ("src", ["src/"]),
        ("src/../a.py", ["src/../a.py"]),
        (".", ["./"]),
        ("none/*.py", []),
        ("a.py/*", []),
        ("**/none", []),
        ("-n", []),
        ("$(x)", []),
    ],
)
def test_find(pattern: str, found: list[str], tree: Path) -> None:
    """Patterns find what a shell with globstar finds, sorted; links to directories are entered only by name."""
    assert find({"pattern": pattern}).splitlines() == (found or ["[nothing matches]"])
    absolute = [f"{tree}/{name}" for name in found]
    if not pattern.startswith("."):
        assert find({"pattern": f"{tree}/{pattern}"}).splitlines() == (absolute or ["[nothing matches]"])
        assert find({"pattern": pattern, "path": str(tree)}).splitlines() == (absolute or ["[nothing matches]"])


def test_path(tree: Path) -> None:
    """Names found below a path begin with it."""
    assert find({"pattern": "*.py", "path": "src/"}) == "src/[x].py\nsrc/c.py\n"
    assert find({"pattern": "*.py", "path": "loop/loop"}) == "loop/loop/a.py\n"


def test_more_links_than_a_path_may_have(tree: Path) -> None:
    """A pattern that goes round and round finds nothing there, and ends."""
    assert find({"pattern": "loop/" * 30 + "a.py"}) == "loop/" * 30 + "a.py\n"
    assert find({"pattern": "loop/" * 60 + "*.py"}) == "[nothing matches]\n"
    assert find({"pattern": "x" * 300 + "/*"}) == "[nothing matches]\n"
    assert find({"pattern": "x" * 2**20}) == "[nothing matches]\n"


def test_many(tmp_path: Path) -> None:
    """At most a thousand names are shown, and the rest is counted."""
    for n in range(LIMIT + 5):
        (tmp_path / f"{n:05}").touch()
    lines = find({"pattern": "*", "path": str(tmp_path)}).splitlines()
    assert lines[:1] == [f"{tmp_path}/00000"]
    assert len(lines) == LIMIT + 1
    assert lines[-1] == f"[{LIMIT} of {LIMIT + 5} shown; use a narrower pattern]"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pattern": ""}, "pattern is empty"),
        ({"pattern": "a\0b"}, "pattern is empty, or contains a NUL"),
        ({"pattern": "*", "path": "none"}, "none: no such directory"),
        ({"pattern": "*", "path": "a.py"}, "a.py: no such directory"),
        ({"pattern": "*", "path": "x" * 300}, "no such directory"),
        ({"pattern": "{a,b}" * 7}, "pattern stands for more than 100 patterns"),
    ],
)
def test_refused(arguments: dict[str, object], error: str, tree: Path) -> None:
    """What cannot be searched is refused with the reason."""
    with pytest.raises(ToolError, match=error):
        find(arguments)


def test_names_that_are_no_text(tree: Path) -> None:
    """A name that is no UTF-8 is shown as well as it can be."""
    (tree / os.fsdecode(b"caf\xe9.md")).touch()
    assert find({"pattern": "*.md"}) == "caf\ufffd.md\n"


def test_unreadable_directories(tree: Path) -> None:
    """Directories that may not be read are named; root without its capabilities is nobody special."""
    (tree / "src").chmod(0)
    as_anybody = ["setpriv", "--bounding-set", "-all"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_anybody, sys.executable, "-m", "ollie.tools.glob"],
        input='{"pattern": "**/*.py"}',
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "a.py\n[not searched, permission denied: src/]\n"
    (tree / "src").chmod(0o700)


def test_as_a_process(call: Call, work: Path) -> None:
    """The tool runs in the working directory of its call."""
    (work / "x").touch()
    assert call("glob", pattern="*").stdout == "x\n"


def test_however_deep(tree: Path) -> None:
    """As deep as paths may be long."""
    deep = "deep" + "/d" * 1200
    subprocess.run(["mkdir", "-p", deep], check=True)
    try:
        Path(deep, "needle").touch()
        assert find({"pattern": "**/needle"}) == f"{deep}/needle\n"
    finally:
        subprocess.run(["rm", "-rf", "deep"], check=True)  # pytest removes nothing so deep
