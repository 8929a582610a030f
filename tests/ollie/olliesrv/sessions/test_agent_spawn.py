"""The tool `agent_spawn`: a model has a sub-agent do a task, in every way that this can end."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ollie.engine.cut import NOTE, RESULT
from ollie.engine.history import problem
from ollie.engine.messages import Assistant, Message, TextContent, ToolResult
from ollie.olliesrv.sessions import subagents
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.turns.states import State

Make = Callable[..., Any]

SCRIPT = """
turns:
  - match: ^spawn
    replies:
      - {text: I ask., calls: [SPAWNED], usage: {cost_usd: 0.25}}
      - {text: "it said: {result}", usage: {cost_usd: 0.25}}
  - match: ^deeper
    replies:
      - {calls: [{name: agent_spawn, arguments: {prompt: deeper}}]}
      - {text: "below: {result}"}
  - match: ^hang
    replies: [{text: [I begin], calls: [{name: nope}]}, {text: [x], pace_s: 1000}]
  - match: ^fail
    replies: [{text: half, error: {kind: refused, message: no more, after: 1}}]
  - match: ^dear
    replies: [{text: one, calls: [{name: nope}], usage: {cost_usd: 0.5}}, {text: two, usage: {cost_usd: 0.5}}]
  - match: .
    replies: [{text: "you said: {prompt}", usage: {cost_usd: 0.125}}]
"""


def script(*spawned: dict[str, Any]) -> str:
    """A script in which `spawn` has these sub-agents made."""
    calls = (json.dumps({"name": "agent_spawn", "arguments": arguments}) for arguments in spawned)
    return SCRIPT.replace("SPAWNED", ", ".join(calls))


@pytest.fixture
def begin(serve: Make, place: Path) -> Callable[..., Any]:
    """Makes a server with one agent, whose prompt `spawn` has sub-agents made."""

    async def make(*spawned: dict[str, Any], cfg: dict[str, str] | None = None, **config: Any) -> Agent:
        ollie = await serve(script(*spawned), tools=("agent_spawn", "plan"), **config)
        session = await ollie.sessions.create(name="myproj", by=None)
        agent = await subagents.start(session, {"name": "coding", "cwd": str(place / "project")}, by=None)
        if cfg:
            await agent.change(cfg, by=None)
        return agent

    return make


async def history(agent: Agent) -> list[Message]:
    await agent.session.save(by=None)
    return [msgspec.json.decode(one, type=Message) for one in await agent._store.records(agent.id)]


async def results(agent: Agent) -> list[tuple[str, bool]]:
    """The results in an agent's history, which is valid: their text, and whether they are errors."""
    messages = await history(agent)
    assert problem(messages) == ""
    found = [one for one in messages if isinstance(one, ToolResult)]
    texts = ["".join(part.text for part in one.content if isinstance(part, TextContent)) for one in found]
    return [(text, one.is_error) for text, one in zip(texts, found, strict=True)]


async def spawned(agent: Agent, prompt: str = "spawn") -> list[tuple[str, bool]]:
    """The results of one turn of an agent, behind which it is the only one."""
    await agent.prompt(prompt.encode(), by=None)
    await agent.wait_state()
    assert agent.session.agents() == [agent]
    return await results(agent)


async def hanging(agent: Agent, count: int = 1) -> list[Agent]:
    """The sub-agents of a turn, once each has said something and says no more."""
    await agent.prompt(b"spawn", by=None)
    while len(agent.session.agents()) <= count:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0)  # a few steps of the loop
    made = agent.session.agents()[1 : count + 1]
    for one in made:
        while b"I begin" not in await one.chat.read(0, 1000):
            await one.chat.more(one.chat.length)
    return made


def cost(agent: Agent) -> float:
    return agent.account.counts.totals.cost_usd


async def test_the_reply_is_the_result(begin: Make) -> None:
    """And the sub-agent is gone; the chat does not show it, `chat.raw` shows the call."""
    agent = await begin({"prompt": "count"})
    assert await spawned(agent) == [("you said: count", False)]
    assert (await agent.chat.read(0, 1000)).decode() == "> spawn\n\nI ask.\n\nit said: you said: count\n"
    raw = (await agent.chat_raw.read(0, 10_000)).decode()
    assert '[[[tool id=call_1 name=agent_spawn]]]\n{"prompt":"count"}\n' in raw


async def test_several_work_side_by_side(begin: Make) -> None:
    """Their results have the order of the calls; while they run they are listed, and the activity says so."""
    agent = await begin({"prompt": "hang 1"}, {"prompt": "hang 2"}, {"prompt": "three"})
    made = await hanging(agent, 2)
    assert agent.runner.activity == "calling agent_spawn"
    assert [one.state for one in agent.session.agents()[:3]] == [State.RUNNING] * 3
    await asyncio.gather(*(one.stop(by=None) for one in reversed(made[:2])))
    await agent.wait_state()
    early = "I begin\nthe sub-agent ended early: stopped"
    assert await results(agent) == [(early, True), (early, True), ("you said: three", False)]


async def test_forty_of_one_reply(begin: Make) -> None:
    """All of them work, a few at a time, and the results have the order of the calls."""
    agent = await begin(*({"prompt": f"number {n}"} for n in range(40)))
    assert await spawned(agent) == [(f"you said: number {n}", False) for n in range(40)]


async def test_a_named_one_stays(begin: Make) -> None:
    """It can be prompted afterwards."""
    agent = await begin({"prompt": "count", "name": "helper"})
    await agent.prompt(b"spawn", by=None)
    await agent.wait_state()
    helper = agent.session.find_agent("helper")
    assert helper is not None
    await helper.prompt(b"again", by=agent)
    await helper.wait_state()
    assert (await helper.chat.read(0, 1000)).decode().endswith("> again\n\nyou said: again\n")
    await agent.prompt(b"spawn again", by=None)
    await agent.wait_state()
    assert (await results(agent))[-1] == ("no sub-agent was made: agent exists: helper", True)


WRONG = [
    ({}, "bad arguments: Object missing required field `prompt`"),
    ({"prompt": " "}, "the prompt is empty"),
    ({"prompt": 1}, "bad arguments: Expected `str`, got `int` - at `$.prompt`"),
    ({"prompt": "x", "color": "red"}, "bad arguments: Object contains unknown field `color`"),
    ({"prompt": "x", "name": "../x"}, "name"),
    ({"prompt": "x", "agent": "nope"}, "unknown profile: nope (known: default)"),
    ({"prompt": "x", "backend": "nope"}, "nope"),
    ({"prompt": "x", "cwd": ".."}, "permission denied; its directory, tools and sandbox must lie within yours"),
    ({"prompt": "x", "cwd": "/"}, "permission denied"),
    ({"prompt": "x", "cwd": "missing"}, "permission denied"),
    ({"prompt": "x", "cwd": "out"}, "permission denied"),
    ({"prompt": "x", "cwd": "a\0b"}, "permission denied"),
]


@pytest.mark.parametrize(("arguments", "error"), WRONG)
async def test_what_cannot_be_is_refused(begin: Make, place: Path, arguments: dict[str, Any], error: str) -> None:
    """With a reason, and nothing is made."""
    (place / "project/out").symlink_to("/")
    ((said, is_error),) = await spawned(await begin(arguments))
    assert said.startswith("no sub-agent was made: ")
    assert error in said
    assert is_error


ODD = ["-x", "--", "$(touch ran)", "'\"`\\", "a\nb\r\nc", "nul\0here", "\N{SNOWMAN}", "x" * 2**20, "prompt=y name=z"]


@pytest.mark.parametrize("prompt", ODD)
async def test_any_prompt_arrives(begin: Make, prompt: str) -> None:
    """Word for word."""
    agent = await begin({"prompt": prompt})
    heard: list[str] = []
    made = agent.session.make_agent

    def listening(*args: Any, **kwargs: Any) -> Any:
        sub, seq = made(*args, **kwargs)
        enqueue = sub.runner.enqueue
        sub.runner.enqueue = lambda text, **options: (heard.append(text), enqueue(text, **options))[1]
        return sub, seq

    agent.session.make_agent = listening
    await spawned(agent)
    assert heard == [prompt]


async def test_it_is_as_its_maker_is(begin: Make, place: Path) -> None:
    """Profile, backend, model, sandbox, budget and directory, as far as nothing else is asked for."""
    (place / "project/below").mkdir()
    agent = await begin(
        {"prompt": "hang"},
        {"prompt": "hang", "cwd": "below"},
        cfg={"model": "m", "sandbox": "strict", "max_cost_usd": "9"},
    )
    one, two = await hanging(agent, 2)
    for made, cwd in ((one, agent.cwd), (two, f"{agent.cwd}/below")):
        wanted = {"agent": "default", "backend": "replay", "model": "m", "sandbox": "strict", "max_cost_usd": "9.0"}
        assert (wanted | {"cwd": cwd}).items() <= made.outfit.shown().items()
        assert agent.may(made)
    await agent.stop(by=None)


async def test_one_that_fails(begin: Make) -> None:
    """What it had said, and why; the turn goes on."""
    agent = await begin({"prompt": "fail"})
    assert await spawned(agent) == [("half\nthe sub-agent ended early: no more", True)]
    assert (await agent.chat.read(0, 1000)).decode().endswith("it said: half\nthe sub-agent ended early: no more\n")


@pytest.mark.parametrize("how", ["stop", "max_turn_s"])
async def test_one_that_hangs_is_stopped_with_its_maker(begin: Make, how: str) -> None:
    """Agents and models 10: its partial reply is in the history, which is valid, and nothing of it is alive."""
    agent = await begin(
        {"prompt": "hang"}, {"prompt": "hang"}, cfg={"max_turn_s": "1"} if how == "max_turn_s" else None
    )
    made = await hanging(agent, 2)
    if how == "stop":
        assert await agent.stop(by=None)
    else:
        await agent.wait_state()
    assert all(one.gone for one in made)
    assert agent.session.agents() == [agent]
    for text, is_error in await results(agent):
        assert text.startswith("I begin\ninterrupted: ")
        assert is_error
    await agent.prompt(b"next", by=None)
    await agent.wait_state()
    assert (await agent.chat.read(0, 1000)).decode().endswith("> next\n\nyou said: next\n")


async def test_a_chain_is_stopped_from_its_top(begin: Make) -> None:
    """Sub-agents of sub-agents end with it."""
    agent = await begin({"prompt": "spawn"}, {"prompt": "hang"}, max_depth=2)
    await agent.prompt(b"spawn", by=None)
    while len(agent.session.agents()) < 5 or agent.session.agents()[-1].state is not State.RUNNING:
        await agent.session.agents()[-1].chat_raw.more(0)
        await asyncio.sleep(0)
    made = agent.session.agents()[1:]
    await agent.stop(by=None)
    assert agent.session.agents() == [agent]
    assert all(one.gone and not one.runner.driver.tasks for one in made)
    await results(agent)


@pytest.mark.parametrize("how", ["agent", "session", "server"])
async def test_it_ends_with_its_maker(begin: Make, how: str) -> None:
    """When the maker, the session or the server has ended, nothing of the sub-agent is alive; no task is left."""
    agent = await begin({"prompt": "hang"})
    (made,) = await hanging(agent)
    if how == "agent":
        await agent.kill(by=None)
    elif how == "session":
        await agent.session.kill(by=None)
    else:
        await agent.session.close()
    assert made.gone
    assert made.runner.driver is not None
    assert made.runner.driver.tasks == []
    assert made not in agent.session.agents()


async def test_one_that_is_killed_is_a_result(begin: Make) -> None:
    """And the turn goes on."""
    agent = await begin({"prompt": "hang"})
    (made,) = await hanging(agent)
    await made.kill(by=None)
    await agent.wait_state()
    assert await results(agent) == [(f"the sub-agent {made.name} is gone: file does not exist", True)]


async def test_there_is_a_lowest_level(begin: Make) -> None:
    """A sub-agent there is told to do its task itself."""
    agent = await begin(max_depth=2)
    ((text, is_error),) = await spawned(agent, "deeper")
    assert text.startswith("below: below: no sub-agent was made: agents are made by agents at most 2 levels deep")
    assert text.endswith("; do the task yourself")
    assert not is_error


async def test_a_budget_is_for_all_that_an_agent_makes(begin: Make) -> None:
    """What sub-agents cost counts as their maker's, and where it is used up none of them asks again."""
    agent = await begin({"prompt": "dear"}, cfg={"max_cost_usd": "0.7"})
    used_up = "the budget of $0.70 is used up (max_cost_usd); raise it to go on"
    assert await spawned(agent) == [(f"one\nthe sub-agent ended early: {used_up}", True)]
    assert cost(agent) == agent.account.counts.cost_last_turn_usd == 0.75
    assert (await agent.chat.read(0, 1000)).decode() == f"> spawn\n\nI ask.\n\n! {used_up}\n"


async def test_what_a_kept_agent_costs_counts_for_its_maker(begin: Make) -> None:
    """Also while that has no turn."""
    agent = await begin()
    kept = await subagents.start(agent.session, {"name": "kept", "prompt": "hello"}, by=agent)
    await kept.wait_state()
    assert (cost(kept), cost(agent)) == (0.125, 0.125)
    await agent.prompt(b"hello", by=None)
    await agent.wait_state()
    assert (cost(kept), cost(agent)) == (0.125, 0.25)


async def test_a_pause_lets_the_whole_turn_end(begin: Make) -> None:
    """A turn that runs when its session is paused has its sub-agents still; other prompts wait."""
    agent = await begin({"prompt": "hang"})
    (made,) = await hanging(agent)
    await agent.session.pause(paused=True, by=None)
    sub = await subagents.start(agent.session, {"name": "other", "prompt": "waits"}, by=None)
    pieces = (
        [piece async for piece in subagents.request(agent.session, {"prompt": "now"}, by=agent)]
        if agent.runner.busy
        else []
    )
    assert pieces == [b"you said: now\n"]
    await made.stop(by=None)
    assert await agent.wait_state() is State.PAUSED
    assert sub.state is State.PAUSED


async def test_the_server_is_lost_meanwhile(begin: Make, serve: Make, crash: Make) -> None:
    """The history is valid, the sub-agent is gone, and what it had said is told."""
    agent = await begin({"prompt": "hang"}, {"prompt": "hang", "name": "kept"})
    await hanging(agent, 2)
    await crash()
    later = await serve(script())
    session = await later.sessions.find("myproj", by=None)
    assert [(one.name, one.state) for one in session.agents()] == [("coding", State.IDLE), ("kept", State.IDLE)]
    again = session.find_agent("coding")
    assert await results(again) == [(RESULT, True)] * 2
    chat = (await again.chat.read(0, 1000)).decode()
    assert NOTE in chat
    assert "was interrupted; it had said: I begin" in chat
    await again.prompt(b"next", by=None)
    await again.wait_state()
    assert isinstance((await history(again))[-1], Assistant)
    await agent.stop(by=None)
