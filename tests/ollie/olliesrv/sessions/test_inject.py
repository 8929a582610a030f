"""Words given to an agent in the middle of its turn: that the model has them once, whatever happens meanwhile."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from served import command, values

from ninep.errors import NinepError
from ollie.engine.history import problem
from ollie.engine.messages import Message, ToolResult, User
from ollie.olliesrv.sessions import subagents
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.turns.states import State

SCRIPT = """
turns:
  - prompt: go
    replies:
      - calls: [{name: agent_spawn, arguments: {prompt: slow}}]
      - text: I went
  - match: ^slow
    replies: [{text: [I begin, " and never end"], pace_s: 1000}]
  - match: .
    replies: [{text: "you said: {prompt}"}]
"""


@pytest.fixture
async def agent(serve: Callable[..., Any], place: Path) -> Agent:
    """An agent that may have sub-agents, and whose server runs what waited."""
    ollie = await serve(SCRIPT, tools=("agent_spawn",))
    session = await ollie.sessions.create(name="s", by=None)
    made: Agent = await subagents.start(session, {"name": "a", "cwd": str(place / "project")}, by=None)
    return made


async def said(agent: Agent) -> str:
    await agent.wait_state()
    return (await agent.chat.read(0, 1 << 20)).decode()


async def history(agent: Agent) -> list[Message]:
    return [msgspec.json.decode(record, type=Message) for record in await agent._store.records(agent.id)]


async def calling(agent: Agent) -> Agent:
    """The sub-agent, once the agent waits for it, the prompt `go`."""
    await agent.prompt(b"go", by=None)
    while len(agent.session.agents()) < 2 or agent.session.agents()[1].state is not State.RUNNING:  # noqa: ASYNC110
        await asyncio.sleep(0)  # a few steps of the loop, no time
    return agent.session.agents()[1]


@pytest.mark.parametrize("word", ["inject", "i"])
async def test_words_come_with_the_next_result(agent: Agent, word: str) -> None:
    """Right behind it; until then they are stored, and no part of the queue."""
    sub = await calling(agent)
    assert await command(agent, f"{word} not so fast\nplease\n") == "injected\n"
    assert values(agent, "stats")["queue"] == "0"
    assert agent.next_prompt(by=None) is None
    await sub.stop(by=None)
    assert "you said: not so fast\nplease\n" in await said(agent)
    first, _, result, words, _ = await history(agent)
    assert (first, words) == (User("go"), User("not so fast\nplease"))
    assert isinstance(result, ToolResult)
    assert agent._store.queue(agent.id) == []


async def test_when_idle_words_are_a_prompt(agent: Agent) -> None:
    """At once."""
    assert await command(agent, "inject hello") == "prompted\n"
    assert await said(agent) == "> hello\n\nyou said: hello\n"


async def test_words_for_a_turn_that_is_being_made_ready_wait_for_it(agent: Agent) -> None:
    """They come after its prompt, and belong to its turn."""
    agent.runner.enqueue("hello")
    assert await command(agent, "inject and more") == "injected\n"
    await said(agent)
    assert [one.text for one in await history(agent) if isinstance(one, User)] == ["hello", "and more"]
    assert values(agent, "stats")["turns"] == "1"


async def test_prompts_that_wait_come_after_words(agent: Agent) -> None:
    """Each in its place."""
    sub = await calling(agent)
    await agent.prompt(b"later", by=None)
    await command(agent, "inject now")
    assert values(agent, "stats")["queue"] == "1"
    await sub.stop(by=None)
    await said(agent)
    assert [one.text for one in await history(agent) if isinstance(one, User)] == ["go", "now", "later"]


async def test_a_stop_keeps_the_words(agent: Agent) -> None:
    """The next turn has them."""
    await calling(agent)
    await command(agent, "inject remember")
    assert await command(agent, "stop") == "stopped\n"
    assert User("remember") in await history(agent)
    assert agent._store.queue(agent.id) == []


async def test_what_cannot_be_injected_is_refused(agent: Agent) -> None:
    """As a prompt is, and without a word."""
    with pytest.raises(NinepError, match=r"^inject takes TEXT…$"):
        await command(agent, "inject ")
    agent._services.config = msgspec.structs.replace(agent._services.config, max_prompt_bytes=4)
    with pytest.raises(NinepError, match=r"^prompt is longer than 4 bytes"):
        await command(agent, "inject 12345")


async def test_an_agent_injects_within_its_ceiling(agent: Agent, place: Path) -> None:
    """Into itself and narrower ones."""
    (place / "project/sub").mkdir()
    narrow = await subagents.start(agent.session, {"cwd": str(place / "project/sub")}, by=None)
    await command(narrow, "inject hello", by=agent)
    with pytest.raises(NinepError, match=r"^permission denied$"):
        await command(agent, "inject hello", by=narrow)


async def test_a_crash_between_any_two_steps_loses_no_words_and_doubles_none(
    agent: Agent, place: Path, serve: Callable[..., Any], crash: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the server ends: a later one has a valid history, in which they are once, given or as a prompt."""
    store, copies, seen = agent._store, [], -1
    sub = await calling(agent)
    injecting = asyncio.ensure_future(command(agent, "inject words"))
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(sub.stop(by=None))
    while seen != store._writer.changed or agent.state is State.RUNNING:
        seen = store._writer.changed
        await crash()
        copies.append(os.environ["OLLIE_DATA_PATH"])
        monkeypatch.setenv("OLLIE_DATA_PATH", str(place / "data"))
        for _ in range(3):  # steps of the loop
            await asyncio.sleep(0)
    await asyncio.gather(injecting, stopping)
    assert len(copies) >= 3
    for copy in copies:
        monkeypatch.setenv("OLLIE_DATA_PATH", copy)
        later = await serve(SCRIPT, tools=("agent_spawn",))
        again = (await later.sessions.find("s", by=None)).find_agent("a")
        assert "words" in await said(again)
        past = await history(again)
        assert problem(past) == ""
        assert past.count(User("words")) == 1
        assert again._store.queue(again.id) == []
        await later.close()
