"""grep: lines with their places, the same ones whichever program searches."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.protocol.discovery import Catalog
from ollie.protocol.metadata import Command, Host, Python, ToolInfo
from ollie.tools import grep

Done = subprocess.CompletedProcess[str]
SHIPPED = str(Path(grep.__file__).parent)
MIB = 1024 * 1024


def tool(*programs: str, where: Path) -> ToolInfo:
    """The tool of a host that has only these programs."""
    for name in programs:
        (where / name).symlink_to(shutil.which(name) or "/bin/false")
    found = Catalog([SHIPPED], SHIPPED, Host("linux", "x86_64", str(where))).tools()["grep"]
    assert isinstance(found, ToolInfo)
    return found


@pytest.fixture(params=["python", "rg"])
def search(request: pytest.FixtureRequest, tmp_path: Path, work: Path) -> Callable[..., Done]:
    """Calls the tool of a host with ripgrep, and of one without, in the directory `work`."""
    if request.param == "rg" and shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    (tmp_path / "bin").mkdir()
    chosen = tool("sh", *["rg"] * (request.param == "rg"), where=tmp_path / "bin")
    assert isinstance(chosen.run, Command if request.param == "rg" else Python)

    def run(*before: str, **arguments: object) -> Done:
        invocation = chosen.invocation(chosen.arguments(arguments, {}))
        argv = [*before, *invocation.argv]
        done = subprocess.run(argv, input=invocation.stdin, capture_output=True, check=False, cwd=work)
        return Done(done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())

    return run


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A directory with everything that a search may meet."""
    work = tmp_path / "work"
    for name in ("sub dir", ".git", ".github", "ignored/deep", "empty"):
        (work / name).mkdir(parents=True)
    files = {
        "a.py": b"import os\nprint('x-y')\n",
        "sub dir/b.txt": b"Import this\n-e dash\n$(touch ran)\nlast line, import, without an end",
        ".git/c": b"import hidden\n",
        ".github/ci.yml": b"- import: ci\n",
        ".gitignore": b"ignored\n*.log\n",
        "ignored/deep/d.py": b"import ignored\n",
        "e.log": b"import 12 logs\n",
        "bin": b"import\0binary\n",
        "latin": b"import caf\xe9\n",
        "utf16": "import sixteen\n".encode("utf-16"),
        "crlf.txt": b"import it\r\nnot it\r\nit\r\n",
        "-dash.md": b"import dash\n",
        "mixed.TS": "IMPORT \N{LATIN SMALL LETTER E WITH ACUTE}\n\n\n\timport\n".encode(),
    }
    for name, data in files.items():
        (work / name).write_bytes(data)
    (work / "link.py").symlink_to("a.py")
    (work / "loop").symlink_to(".")
    (work / "gone").symlink_to("nowhere")
    os.mkfifo(work / "fifo")
    return work


PLAIN = [
    "-dash.md:1:import dash",
    ".github/ci.yml:1:- import: ci",
    "a.py:1:import os",
    "crlf.txt:1:import it",
    "e.log:1:import 12 logs",
    "ignored/deep/d.py:1:import ignored",
    "latin:1:import caf\N{REPLACEMENT CHARACTER}",
    "mixed.TS:4:\timport",
    "sub dir/b.txt:4:last line, import, without an end",
]
FOUND: list[tuple[dict[str, object], list[str]]] = [
    ({"pattern": "import"}, PLAIN),
    ({"pattern": "IMPORT \u00c9", "ignore_case": True}, ["mixed.TS:1:IMPORT \u00e9"]),
    ({"pattern": "import", "glob": "*.txt"}, ["crlf.txt:1:import it", PLAIN[-1]]),
    ({"pattern": "import", "glob": "*.{py,log}"}, [PLAIN[2], PLAIN[4], PLAIN[5]]),
    ({"pattern": "import", "glob": "**/*.py"}, [PLAIN[2], PLAIN[5]]),
    ({"pattern": "import", "glob": "ignored/**/*.py"}, [PLAIN[5]]),
    ({"pattern": "import", "glob": "sub dir/*"}, [PLAIN[-1]]),
    ({"pattern": "import", "glob": "/[ab].p?"}, [PLAIN[2]]),
    ({"pattern": "import", "glob": "[!a-z.-]*"}, ["[nothing matches]"]),
    ({"pattern": "import", "glob": "[^b-z.-]*"}, [PLAIN[2]]),
    ({"pattern": "import", "glob": "!*.{py,md,log,txt}"}, [PLAIN[1], PLAIN[6], PLAIN[7]]),
    ({"pattern": "x-y", "path": "a.py"}, ["a.py:2:print('x-y')"]),
    ({"pattern": "import", "path": "-dash.md"}, ["-dash.md:1:import dash"]),
    ({"pattern": "import", "path": "link.py"}, ["link.py:1:import os"]),
    ({"pattern": "Import", "path": "sub dir"}, ["sub dir/b.txt:1:Import this"]),
    ({"pattern": "Import", "path": "sub dir/"}, ["sub dir/b.txt:1:Import this"]),
    ({"pattern": "hidden", "path": ".git"}, [".git/c:1:import hidden"]),
    ({"pattern": "-e d"}, ["sub dir/b.txt:2:-e dash"]),
    ({"pattern": r"\$\(touch ran\)"}, ["sub dir/b.txt:3:$(touch ran)"]),
    ({"pattern": "^(im|pr)[a-z]+", "path": "a.py"}, ["a.py:1:import os", "a.py:2:print('x-y')"]),
    ({"pattern": r"import\s\d{2}\b"}, [PLAIN[4]]),
    ({"pattern": r"^\s+\w+$"}, ["mixed.TS:4:\timport"]),
    ({"pattern": "it$"}, ["crlf.txt:1:import it", "crlf.txt:2:not it", "crlf.txt:3:it"]),
    ({"pattern": "[[:upper:]]mport"}, ["sub dir/b.txt:1:Import this"]),
    ({"pattern": "^$"}, ["mixed.TS:2:", "mixed.TS:3:"]),
    ({"pattern": "import", "path": "empty"}, ["[nothing matches]"]),
    ({"pattern": "nowhere"}, ["[nothing matches]"]),
    ({"pattern": "'; touch ran; '"}, ["[nothing matches]"]),
    ({"pattern": "$(touch ran)`touch ran`"}, ["[nothing matches]"]),
]


@pytest.mark.parametrize(("arguments", "lines"), FOUND)
def test_search(arguments: dict[str, object], lines: list[str], search: Callable[..., Done], work: Path) -> None:
    """Every text is searched, hidden and ignored ones too, but for `.git` and links; a pattern is only a pattern."""
    found = search(**arguments)
    assert (found.returncode, found.stderr) == (0, "")
    assert [line.removeprefix("./").rstrip("\r") for line in found.stdout.splitlines()] == lines
    assert not (work / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "["}, ""),
        ({"pattern": "(a"}, ""),
        ({"pattern": "a", "glob": "[z-a]"}, "glob"),
        ({"pattern": "(os error 1)("}, "unclosed|unterminated"),
        ({"pattern": "a\nb"}, "has a newline"),
        ({"pattern": "x", "path": "missing"}, "missing: No such file|no such file"),
    ],
)
def test_errors(arguments: dict[str, object], said: str, search: Callable[..., Done]) -> None:
    """A pattern that is none, and a path that is not there, are errors with the program's words."""
    found = search(**arguments)
    assert found.returncode in {1, 2}
    assert any(word in found.stderr for word in said.split("|"))
    assert found.stderr.strip()


def test_a_long_line_is_cut(search: Callable[..., Done], work: Path) -> None:
    """One line of a program that was made smaller does not hide all others."""
    (work / "min.js").write_text("x" * 100_000 + "needle")
    found = search(pattern="needle")
    assert found.stdout.startswith("./min.js:1:" + "x" * 500)
    assert len(found.stdout) < 700


def test_a_long_pattern(search: Callable[..., Done]) -> None:
    """One that no command line can hold is an error, or finds nothing; no crash."""
    found = search(pattern="x" * 2**20)
    assert found.stdout == "[nothing matches]\n" or "Argument list too long" in found.stderr


def test_a_fifo_is_not_waited_for(search: Callable[..., Done]) -> None:
    """Named itself, it is refused."""
    done = search(pattern="x", path="fifo")
    assert done.returncode != 0
    assert done.stderr == "fifo: not a regular file\n"


def test_a_file_larger_than_a_block(tmp_path: Path) -> None:
    """Lines are counted on from block to block, also where one is longer than a block, and a NUL ends the search."""
    path = tmp_path / "f"
    path.write_text("a\n" * 100 + "b" * 9 * MIB + "needle\n" + "needle\r\n" + "c\n" * 50 + "needle")
    found = grep.search({"pattern": "needle", "path": str(path)}).splitlines()
    assert [line.split(":")[1] for line in found] == ["101", "102", "153"]
    path.write_text("needle\n" * 10 + "\n" * 9 * MIB + "needle\n" * 10 + "\0needle\n")
    found = grep.search({"pattern": "needle", "path": str(path)}).splitlines()
    assert [line.split(":")[1] for line in found[9:11]] == ["10", str(9 * MIB + 11)]
    assert len(found) == 20


def test_too_much_is_not_kept(tmp_path: Path) -> None:
    """The search ends, and says so."""
    for n in range(10):
        (tmp_path / f"f{n}").write_text(("x" * 400 + "\n") * 400)
    found = grep.search({"pattern": "x", "path": str(tmp_path)})
    assert MIB < len(found) < 1.5 * MIB
    assert found.endswith("x\n[too much matches: the rest was not searched; give a path, or a narrower pattern]\n")
    assert "f9" not in found


AS_ANYBODY = ["setpriv", "--bounding-set", "-all"] if os.geteuid() == 0 else []
UNREADABLE = "".join(f"[not searched: ./a{n}: Permission denied]\n" for n in range(4))


def test_what_cannot_be_read_is_told(search: Callable[..., Done], work: Path) -> None:
    """And the rest is searched; what was named itself and cannot be read is an error."""
    for n in range(4):
        (work / f"a{n}").write_text("import\n")
        (work / f"a{n}").chmod(0)
    (work / "sub dir").chmod(0)
    found = search(*AS_ANYBODY, pattern="import os")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == f"./a.py:1:import os\n{UNREADABLE}[not searched: ./sub dir: Permission denied]\n"
    (work / "empty").chmod(0)
    (work / "ignored").chmod(0)
    found = search(*AS_ANYBODY, pattern="nowhere")
    assert (found.returncode, found.stderr) == (0, "")
    five = f"{UNREADABLE}[not searched: ./empty: Permission denied]\n"
    assert found.stdout == f"[nothing matches]\n{five}[not searched: 2 more]\n"
    for path in ("a1", "sub dir", "sub dir/"):
        found = search(*AS_ANYBODY, pattern="import", path=path)
        assert (found.returncode in {1, 2}, found.stdout) == (True, "")
        assert f"{path.rstrip('/')}" in found.stderr
        assert "Permission denied" in found.stderr
    (work / "sub dir").chmod(0o700)


@given(st.text("ab*?[]!^-/{},\\.", max_size=12))
def test_any_glob(glob: str) -> None:
    """Whatever it is, it is one, or an error of the tool's own."""
    try:
        grep._filter(glob)("a/b.py")
    except grep.ToolError:
        assert "[" in glob or glob.count("{") > 1


def test_however_deep(search: Callable[..., Done], work: Path) -> None:
    """As deep as paths may be long."""
    deep = "deep" + "/d" * 1200
    subprocess.run(["mkdir", "-p", work / deep], check=True)
    try:
        (work / deep / "file").write_text("needle\n")
        assert search(pattern="needle", path="deep").stdout == f"{deep}/file:1:needle\n"
    finally:
        subprocess.run(["rm", "-rf", work / "deep"], check=True)  # pytest removes nothing so deep
