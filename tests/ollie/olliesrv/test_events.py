"""What happens, as readers of `eventwait` get it: from where, in which order, and how much of it is kept."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import command

from ninep.errors import NinepError
from ollie.olliesrv.events import RING, Events, EventWatch
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions import subagents
from ollie.olliesrv.sessions.agent import Agent


async def read(watch: EventWatch) -> Any:
    """The next event; it was delivered."""
    line = await watch.next()
    assert line.endswith(b"\n")
    watch.delivered()
    return json.loads(line)


async def everything(watch: EventWatch) -> list[Any]:
    """What is there for a reader."""
    found = []
    while True:
        reading = asyncio.ensure_future(watch.next())
        await asyncio.sleep(0)
        if not reading.done():
            reading.cancel()
            await asyncio.wait({reading})
            return found
        watch.delivered()
        found.append(json.loads(reading.result()))


def kinds(events: list[Any]) -> list[tuple[str, str]]:
    """What happened, and how it is now."""
    return [(event["event"], event.get("state", "")) for event in events]


async def test_an_event_is_a_line_of_json() -> None:
    """Number, time, what, where, and what else is told of it."""
    events = Events()
    watch = events.watch("glenda")
    events.tell("state", session="s", agent="a", state="idle")
    event = await read(watch)
    assert list(event) == ["seq", "time", "event", "session", "agent", "state"]
    assert (event["seq"], event["event"], event["state"]) == (1, "state", "idle")
    assert len(event["time"]) == len("2026-01-02T12:00:00Z")


async def test_a_new_uname_begins_now_and_a_known_one_where_it_was() -> None:
    """Each for itself; also one that has opened the file and was given nothing."""
    events = Events()
    events.tell("one")
    first = events.watch("glenda")
    events.tell("two")
    events.tell("three")
    assert (await read(first))["event"] == "two"
    assert [event["event"] for event in await everything(events.watch("glenda"))] == ["three"]
    assert await everything(events.watch("glenda")) == []
    events.watch("mk")
    events.tell("four")
    assert [event["event"] for event in await everything(events.watch("mk"))] == ["four"]
    assert await everything(events.watch("ken")) == []


async def test_a_read_that_is_cancelled_or_not_sent_loses_nothing() -> None:
    """The next one has the same event, on that fid or another."""
    events = Events()
    watch = events.watch("glenda")
    reading = asyncio.ensure_future(watch.next())
    await asyncio.sleep(0)
    events.tell("one")
    reading.cancel()
    await asyncio.wait({reading})
    assert json.loads(await watch.next())["event"] == "one"
    assert json.loads(await events.watch("glenda").next())["event"] == "one"
    assert (await read(watch))["event"] == "one"
    assert await everything(watch) == []


async def test_a_reader_that_does_not_keep_up_is_told() -> None:
    """How many are missing, once; then it has all that are kept."""
    events = Events()
    watch = events.watch("glenda")
    for number in range(RING + 10):
        events.tell("n", number=number)
    assert json.loads(await watch.next()) == {"event": "lost", "count": 10}
    watch.delivered()
    assert [event["number"] for event in await everything(watch)] == list(range(10, RING + 10))


@given(st.lists(st.sampled_from(["tell", "read", "fresh"]), max_size=60))
def test_a_loop_of_readers_gets_every_event_once(steps: list[str]) -> None:
    """Whether its fids are held or fresh."""

    async def go() -> None:
        events = Events()
        watch = events.watch("glenda")
        seen: list[Any] = []
        for step in steps:
            if step == "tell":
                events.tell("e")
            elif step == "fresh":
                watch = events.watch("glenda")
            elif len(seen) < events.last:
                seen.append((await read(watch))["seq"])
        seen += [event["seq"] for event in await everything(watch)]
        assert seen == list(range(1, events.last + 1))

    asyncio.run(go())


async def test_a_reader_of_one_session_sees_that_alone() -> None:
    """Nothing of others, nor what is of none."""
    events = Events()
    watch, owner = events.watch("a/x", "s"), events.watch("glenda")
    for session in ("t", "", "s", "t"):
        events.tell("e", session=session)
    assert [event["seq"] for event in await everything(watch)] == [3]
    assert len(await everything(owner)) == 4


async def test_long_texts_are_cut() -> None:
    """So that what is kept is bounded."""
    events = Events()
    watch = events.watch("glenda")
    events.tell("error", error="x" * 10_000)
    assert len((await read(watch))["error"]) == 500


# What the server tells.


async def test_sessions_and_agents_are_told(ollie: Ollie, place: Path) -> None:
    """Made, renamed, removed; with ids and paths."""
    watch = ollie.services.events.watch("glenda")
    session = await ollie.sessions.create(name="s", by=None)
    agent = await subagents.start(session, {"name": "a", "cwd": str(place / "project")}, by=None)
    await agent.rename("b", by=None)
    await session.rename("t", by=None)
    await session.kill(by=None)
    told = await everything(watch)
    assert [(event["event"], event["state"], event["path"]) for event in told] == [
        ("session", "created", "session/s"),
        ("agent", "created", "session/s/agent/a"),
        ("agent", "renamed", "session/s/agent/b"),
        ("session", "renamed", "session/t"),
        ("session", "killed", "session/t"),
        ("agent", "killed", "session/t/agent/b"),
    ]
    assert {event["session"] for event in told} == {session.id}
    assert [event.get("agent") for event in told] == [None, agent.id, agent.id, None, None, agent.id]


async def test_a_turn_is_told(agent: Agent, ollie: Ollie) -> None:
    """Its begin and end as states, and how it ended."""
    watch = ollie.services.events.watch("glenda")
    await agent.prompt(b"hello", by=None)
    await agent.wait_state()
    told = await everything(watch)
    assert kinds(told) == [("state", "running"), ("turn", "finished"), ("state", "idle")]
    assert (told[1]["turn"], told[1]["reason"], told[1]["note"]) == (1, "answered", "")
    await agent.prompt(b"slow", by=None)
    await asyncio.sleep(0)
    await command(agent, "stop")
    assert [event["reason"] for event in await everything(watch) if event["event"] == "turn"] == ["stopped"]


async def test_an_error_of_the_model_is_told(serve: Callable[..., Any]) -> None:
    """With its text."""
    ollie = await serve("turns: [{replies: [{error: {kind: auth, message: the key is wrong}}]}]")
    watch = ollie.services.events.watch("glenda")
    session = await ollie.sessions.create(name="s", by=None)
    agent = await subagents.start(session, {"prompt": "x"}, by=None)
    await agent.wait_state()
    (error,) = [event for event in await everything(watch) if event["event"] == "error"]
    assert (error["error"], error["agent"]) == ("the key is wrong", agent.id)


async def test_what_is_refused_is_not_told(agent: Agent, ollie: Ollie) -> None:
    """Nothing has happened."""
    watch = ollie.services.events.watch("glenda")
    with pytest.raises(NinepError):
        await agent.rename("idx", by=None)
    await agent.rename("coding", by=None)
    await agent.session.rename(agent.session.name, by=None)
    assert await everything(watch) == []
