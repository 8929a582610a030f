"""`olliesrv` without a server: usage, and asking for one that is not there."""

import subprocess
import sys
from pathlib import Path

import pytest

from ollie.cli.olliesrv import main


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NAMESPACE", str(tmp_path / "ns"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OLLIE_ADDRESS", raising=False)
    return tmp_path


def test_no_server(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a server `status` says so with status 3, and `stop` has nothing to do."""
    assert main(["status"]) == 3
    assert main(["stop"]) == 0
    line = f"no olliesrv is running on unix!{place}/ns/ollie\n"
    assert capsys.readouterr().out == line * 2


def test_which_server(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The server meant is that of `-a`, else of the environment."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("OLLIE_ADDRESS", "unix!there")
    main(["status"])
    main(["status", "-a", "unix!/elsewhere/sock"])
    assert capsys.readouterr().out.splitlines() == [
        f"no olliesrv is running on unix!{place}/there",
        "no olliesrv is running on unix!/elsewhere/sock",
    ]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["stop", "-a", "tcp!localhost!5640"], "no unix socket"),
        (["stop", "-a", "nonsense"], "not an address"),
        (["start", "--listen", "nonsense"], "not an address"),
        (["serve", "--listen", "tcp!x!99999"], "bad port"),
    ],
)
def test_wrong_addresses(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An address that cannot be is refused in one line."""
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith("olliesrv: ")
    assert line in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["sing"], ["start", "--loud"]])
def test_usage(arguments: list[str]) -> None:
    """Wrong usage has status 2."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_quick_commands_import_no_server() -> None:
    """`status` and `stop` import neither asyncio nor what the server needs."""
    code = (
        "import sys, ollie.cli.olliesrv; print({'asyncio', 'msgspec', 'aiohttp', 'yaml', 'pathlib'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
