"""The conversations in `scripts/`, one test each."""

import socket
from pathlib import Path

import pytest

from ninep.server import Server
from ninep.testing import Line, Sample, run_script, sample_actions

SCRIPTS = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "scripts").glob("*.9p"))}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_script(name: str, sample: Sample, server: Server) -> None:
    """The conversation goes as the file says."""

    async def connect() -> Line:
        ours, theirs = socket.socketpair()
        await server.adopt(theirs)
        return await Line.adopt(ours)

    await run_script(SCRIPTS[name], connect, sample_actions(sample))
