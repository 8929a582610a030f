"""Peers that other people wrote, each in a virtual environment of its own: two packages are both imported as py9p."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ninep.testing import Sample, sample_server

PEERS = Path(__file__).parent / "peers"

Run = Callable[[str, str, str], Awaitable[str]]


@pytest.fixture
def sample() -> Sample:
    """A sample with the thing `a`."""
    sample = Sample()
    sample.add("a")
    return sample


@pytest.fixture
async def address(sample: Sample, tmp_path: Path) -> AsyncIterator[str]:
    """Where a server of it listens: the path of a unix socket."""
    server = sample_server(sample)
    await server.listen(f"unix!{tmp_path}/socket")
    yield f"{tmp_path}/socket"
    await server.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`(package, script, argument)` runs a script of `peers/` where the package is, and gives what it printed.

    The test is skipped when the package cannot be installed.
    """

    async def run_in(package: str, script: str, argument: str) -> str:
        python = await asyncio.to_thread(installed, package, tmp_path / "venv")
        process = await asyncio.create_subprocess_exec(
            python,
            str(PEERS / script),
            argument,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return output.decode()

    return run_in


def installed(package: str, directory: Path) -> str:
    """The interpreter of a new environment with the package; skips the test when that fails."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    python = str(directory / "bin/python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--only-binary", ":all:", package], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{package} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return python
