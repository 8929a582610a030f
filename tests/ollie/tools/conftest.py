"""The shipped tools as the server finds them, run as plain processes."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ollie.protocol import paths
from ollie.protocol.discovery import Catalog
from ollie.protocol.metadata import ToolInfo

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def catalog() -> dict[str, ToolInfo]:
    shipped = paths.shipped("tools")
    found = Catalog([shipped], shipped).tools()
    return {name: tool for name, tool in found.items() if isinstance(tool, ToolInfo)}


@pytest.fixture
def call(catalog: dict[str, ToolInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Calls a tool in the directory `tmp_path/work`, with arguments checked as the server checks them."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def run(name: str, **arguments: object) -> Done:
        tool = catalog[name]
        invocation = tool.invocation(tool.arguments(arguments, {}))
        done = subprocess.run(
            invocation.argv, input=invocation.stdin, capture_output=True, check=False, cwd=work, env=dict(os.environ)
        )
        return Done(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"
