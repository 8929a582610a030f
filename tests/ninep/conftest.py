"""A sample server for every test that wants one."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ninep.server import Server
from ninep.testing import Sample, sample_server

sys.path.append(str(Path(__file__).parent))  # for `strategies`, beside this file


@pytest.fixture
def sample() -> Sample:
    """A sample with the thing `a`."""
    sample = Sample()
    sample.add("a")
    return sample


@pytest.fixture
async def server(sample: Sample) -> AsyncIterator[Server]:
    """Its server; a test that leaves a task, a fid or a request behind fails."""
    server = sample_server(sample)
    before = asyncio.all_tasks()
    yield server
    await server.close()
    assert server.statistics().outstanding == 0
    assert not asyncio.all_tasks() - before - {asyncio.current_task()}
