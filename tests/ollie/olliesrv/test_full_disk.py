"""What agents do while the store cannot write."""

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from served import values, write

from ninep.errors import NinepError
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions import subagents
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.turns.states import State

sys.path.append(str(Path(__file__).parent.parent / "store"))

from stocked import Disk

FULL = "not on disk yet, kept in memory: the store cannot be written: database or disk is full"
LONG = b"x" * 100_000


@pytest.fixture
async def ollie(serve: Callable[..., Any]) -> Ollie:
    server: Ollie = await serve(store_retry_s=0.02)
    return server


@pytest.fixture
async def disk(ollie: Ollie) -> AsyncIterator[Disk]:
    disk = Disk(ollie.store)
    yield disk
    disk.full = False


def activity(agent: Agent) -> str:
    return values(agent, "stats")["activity"]


async def test_a_prompt_is_answered_with_the_reason_and_runs(agent: Agent, disk: Disk) -> None:
    """The turn waits for the disk before it counts as over, says so, and ends when there is room."""
    disk.full = True
    with pytest.raises(NinepError, match=f"^{FULL}$"):
        await agent.prompt(LONG, by=None)
    while activity(agent) != FULL:
        await disk.refused()
    assert agent.state is State.RUNNING
    assert (await agent.chat.read(0, 1 << 20)).endswith(b"x\n")
    disk.full = False
    assert await agent.wait_state() is State.IDLE
    assert activity(agent) == ""
    await agent.prompt(b"next", by=None)
    await agent.wait_state()
    chat = await agent.chat.read(0, 1 << 20)
    assert chat == b"> %b\n\nyou said: %b\n\n> next\n\nyou said: next\n" % (LONG, LONG)


async def test_every_write_is_answered_with_the_reason(ollie: Ollie, agent: Agent, disk: Disk) -> None:
    """And is seen at once; what is killed is gone."""
    other = await subagents.start(agent.session, {"name": "other"}, by=None)
    disk.full = True
    writes: list[Callable[[], Any]] = [
        lambda: agent.plan.write(0, LONG),
        lambda: write(agent, "cfg", "max_steps=3"),
        lambda: agent.rename("again", by=None),
        lambda: agent.session.rename("mine", by=None),
        lambda: subagents.start(agent.session, {"name": "more"}, by=None),
        lambda: ollie.sessions.create(name="two", by=None),
        lambda: other.kill(by=None),
    ]
    for change in writes:
        with pytest.raises(NinepError, match=f"^{FULL}$"):
            await change()
    found = await ollie.sessions.find("mine", by=None)
    assert found is agent.session
    assert [made.name for made in found.agents()] == ["again", "more"]
    assert values(agent, "cfg")["max_steps"] == "3"
    with pytest.raises(NinepError, match=f"^{FULL}$"):
        await agent.session.kill(by=None)
    assert [row.name for row in ollie.sessions.visible(None)] == ["two"]


async def test_after_a_restart_everything_is_there(
    ollie: Ollie, agent: Agent, disk: Disk, serve: Callable[..., Any]
) -> None:
    """What was refused on a full disk included, when there was room before the end."""
    disk.full = True
    with pytest.raises(NinepError, match=f"^{FULL}$"):
        await agent.plan.write(0, LONG)
    disk.full = False
    await ollie.close()
    again = (await (await serve()).sessions.find("myproj", by=None)).find_agent("coding")
    assert again.plan.text == LONG.decode()


async def test_a_sub_agent_that_cannot_be_stored(agent: Agent, disk: Disk) -> None:
    """Its maker gets the reason as the result, and none is left."""
    disk.full = True
    given = await subagents.call(agent.session, {"prompt": "x" * 100_000}, by=agent)
    assert given.is_error
    assert FULL in repr(given.content)
    assert agent.session.agents() == [agent]
