"""grep: lines with their places, for whichever program searches."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ollie.protocol.discovery import Catalog
from ollie.protocol.metadata import Command, Host, ToolInfo

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def tree(call: Call, work: Path) -> None:  # `call` makes the directory
    (work / "a.py").write_text("import os\nprint('x-y')\n")
    (work / "sub dir").mkdir()
    (work / "sub dir" / "b.txt").write_text("Import this\n-e dash\n$(touch ran)\n")
    (work / ".git").mkdir()
    (work / ".git" / "c").write_text("import hidden\n")
    (work / "bin").write_bytes(b"import\0binary\n")


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "import"}, ["a.py:1:import os"]),
        ({"pattern": "import", "ignore_case": True}, ["a.py:1:import os", "sub dir/b.txt:1:Import this"]),
        ({"pattern": "import", "ignore_case": True, "glob": "*.txt"}, ["sub dir/b.txt:1:Import this"]),
        ({"pattern": "x-y", "path": "a.py"}, ["a.py:2:print('x-y')"]),
        ({"pattern": "Import", "path": "sub dir"}, ["sub dir/b.txt:1:Import this"]),
        ({"pattern": "-e d"}, ["sub dir/b.txt:2:-e dash"]),
        ({"pattern": r"\$\(touch ran\)"}, ["sub dir/b.txt:3:$(touch ran)"]),
        ({"pattern": "^(im|pr)[a-z]+", "path": "a.py"}, ["a.py:1:import os", "a.py:2:print('x-y')"]),
        ({"pattern": "nowhere"}, ["[nothing matches]"]),
        ({"pattern": "'; touch ran; '"}, ["[nothing matches]"]),
        ({"pattern": "$(touch ran)`touch ran`"}, ["[nothing matches]"]),
    ],
)
def test_search(arguments: dict[str, object], lines: list[str], call: Call, work: Path) -> None:
    """Text files are searched, hidden repositories and binary files are not, and a pattern is only a pattern."""
    found = call("grep", **arguments)
    assert found.returncode == 0
    assert sorted(line.removeprefix("./") for line in found.stdout.splitlines()) == lines
    assert not (work / "ran").exists()


@pytest.mark.parametrize("arguments", [{"pattern": "["}, {"pattern": "x", "path": "missing"}])
def test_errors(arguments: dict[str, object], call: Call) -> None:
    """A pattern that is none, and a path that is not there, are errors with the program's words."""
    found = call("grep", **arguments)
    assert found.returncode == 2
    assert found.stderr


def test_long_pattern(call: Call) -> None:
    """A pattern longer than an argument can be is an error, not a crash."""
    found = call("grep", pattern="x" * 2**20)
    assert found.returncode not in {0, 1}
    assert "Argument list too long" in found.stderr


def test_ripgrep_is_taken_where_it_is(tmp_path: Path) -> None:
    """Where rg is on PATH, its variant counts."""
    for name in ("sh", "grep"):
        (tmp_path / name).symlink_to(shutil.which(name) or "/bin/false")
    rg = tmp_path / "rg"
    rg.write_text('#!/bin/sh\necho "$@"\nexit 1\n')
    rg.chmod(0o755)
    shipped = str(Path(__file__).parents[3] / "src/ollie/tools")
    tool = Catalog([shipped], shipped, Host("linux", "x86_64", str(tmp_path))).tools()["grep"]
    assert isinstance(tool, ToolInfo)
    assert isinstance(tool.run, Command)
    command = tool.invocation(tool.arguments({"pattern": "a b", "glob": "*.py", "ignore_case": True}, {})).command
    assert "-i --glob='*.py' -e 'a b' -- ." in command
