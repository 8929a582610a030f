"""A bridge between the sample server and a kernel in the test."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ninep.server import Server
from ninep.testing import PlainServer

sys.path.append(str(Path(__file__).parent))  # for `kernel` and `mountns`, beside this file

from kernel import Judgement, Served, serving
from mountns import House


@pytest.fixture
def judge() -> Judgement:
    """It admits everybody."""
    return Judgement()


@pytest.fixture
async def address(server: Server, tmp_path: Path) -> str:
    """Where the sample server listens."""
    return await server.listen(f"unix!{tmp_path}/s")


@pytest.fixture
async def served(address: str, judge: Judgement) -> AsyncIterator[Served]:
    async with serving(address, judge) as served:
        yield served


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[PlainServer]:
    """A server of plain files, listening at `plain` in the test's directory."""
    server = PlainServer()
    await server.listen(f"unix!{tmp_path}/plain")
    yield server
    await server.close()
    assert server.statistics().outstanding == 0


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with House(tmp_path) as house:
        yield house


@pytest.fixture
async def mounted(house: House, address: str) -> House:
    """A mount of the sample server."""
    await house.serve(address)
    return house
