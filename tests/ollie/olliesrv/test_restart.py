"""What a server finds of what an earlier one did, and what is in memory of it."""

import asyncio
import gc
import sqlite3
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from served import command, content, values, write

from ninep.errors import NinepError
from ollie.engine.blocks import parse
from ollie.engine.cut import NOTE
from ollie.engine.events import Streamed
from ollie.engine.history import problem
from ollie.engine.messages import Message, ReasoningDelta, TextDelta
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions import subagents
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.turns.states import State
from ollie.protocol import paths

Make = Callable[..., Any]


async def the_agent(ollie: Ollie, name: str = "coding") -> Agent:
    session = await ollie.sessions.find("myproj", by=None)
    assert session is not None
    agent = session.find_agent(name)
    assert agent is not None
    return agent


async def said(agent: Agent) -> str:
    await agent.wait_state()
    return (await agent.chat.read(0, 1 << 20)).decode()


async def running(agent: Agent, words: bytes) -> None:
    """Return when `chat.raw` has these words."""
    while words not in await agent.chat_raw.read(0, 1 << 20):
        await agent.chat_raw.more(agent.chat_raw.length)


async def history(agent: Agent) -> list[Message]:
    records = await agent._store.records(agent.id)
    return [msgspec.json.decode(record, type=Message) for record in records]


async def test_everything_is_as_before(ollie: Ollie, agent: Agent, serve: Make, crash: Make) -> None:
    """Ids, numbers, names, settings, plan, chat, history, counts, ceiling."""
    await agent.prompt(b"hello", by=None)
    await said(agent)
    await agent.plan.write(0, b"do it")
    await write(agent, "cfg", "max_steps=7")
    await agent.rename("renamed", by=None)
    await agent.session.rename("myproj2", by=None)
    await agent.session.pause(paused=True, by=None)
    other = await ollie.sessions.create(name="other", by=None)
    await other.kill(by=None)
    await crash()
    later = await serve()
    session = await later.sessions.find("myproj2", by=None)
    again = session.find_agent("renamed")
    assert (session.row, again.row) == (agent.session.row, agent.row)
    for what in ("cfg", "stats", "id"):
        assert await content(again, what) == await content(agent, what)
    assert (again.plan.text, again.ceiling, again.state) == ("do it", agent.ceiling, State.PAUSED)
    for log in ("chat", "chat_raw"):
        assert await getattr(again, log).read(0, 1000) == await getattr(agent, log).read(0, 1000)
    assert await history(again) == await history(agent)
    for what in ("session/idx", "aliases"):
        assert await content(later, what) == await content(ollie, what)
    assert (await later.sessions.create(name="third", by=None)).number == other.number + 1


async def test_the_conversation_goes_on(ollie: Ollie, agent: Agent, serve: Make, crash: Make) -> None:
    """The chat has a gap between the turns, and the counts go on."""
    await agent.prompt(b"one", by=None)
    await said(agent)
    await crash()
    again = await the_agent(await serve())
    await again.prompt(b"two", by=None)
    assert await said(again) == "> one\n\nyou said: one\n\n> two\n\nyou said: two\n"
    assert len(await history(again)) == 4
    assert values(again, "stats")["turns"] == "2"
    parse(await again.chat_raw.read(0, 1 << 20))


async def test_a_turn_that_was_cut_is_closed(ollie: Ollie, agent: Agent, serve: Make, crash: Make) -> None:
    """With a note; what the model had said is kept, and the next turn works."""
    await agent.prompt(b"slow", by=None)
    await running(agent, b"slow")
    driver = await agent.runner.load()
    for delta in (ReasoningDelta("hm"), TextDelta("I begin"), TextDelta(" and\n")):
        driver.feed(Streamed(driver.state.request, delta))
    await crash()
    later = await serve()
    again = await the_agent(later)
    assert again.state is State.IDLE
    assert await said(again) == f"> slow\n\nI begin and\n\n! {NOTE}\n"
    messages = await history(again)
    assert problem(messages) == ""
    assert messages[-1].text == "I begin and"  # type: ignore[union-attr]  # it is the model's
    blocks = parse(await again.chat_raw.read(0, 1 << 20))
    assert [(block.kind, block.text) for block in blocks] == [
        ("user", "slow"),
        ("reasoning", "hm"),
        ("assistant", "I begin and\n"),
        ("end", NOTE),
    ]
    assert await again.watch_state("glenda").next() == b"idle\n"
    await again.prompt(b"next", by=None)
    assert (await said(again)).endswith(f"! {NOTE}\n\n> next\n\nyou said: next\n")
    assert values(again, "stats")["turns"] == "2"


async def test_a_turn_is_closed_once(ollie: Ollie, agent: Agent, serve: Make, crash: Make) -> None:
    """However often the server ends."""
    await agent.prompt(b"slow", by=None)
    await running(agent, b"slow")
    for _ in range(3):
        await crash()
        ollie = await serve()
    assert (await said(await the_agent(ollie))).count(NOTE) == 1


async def test_a_queue_goes_on(ollie: Ollie, agent: Agent, serve: Make, crash: Make) -> None:
    """Behind the turn that was cut, in order; the prompt of that turn is not run again."""
    for prompt in (b"slow", b"one", b"two"):
        await agent.prompt(prompt, by=None)
    await running(agent, b"slow")
    await crash()
    again = await the_agent(await serve())
    assert await said(again) == (f"> slow\n\n! {NOTE}\n\n> one\n\nyou said: one\n\n> two\n\nyou said: two\n")


@pytest.mark.parametrize("by", ["prompt", "resume"])
async def test_a_queue_waits(ollie: Ollie, agent: Agent, serve: Make, crash: Make, by: str) -> None:
    """With `resume: off`, until the next prompt or the session's command `resume`."""
    for prompt in (b"slow", b"one"):
        await agent.prompt(prompt, by=None)
    await running(agent, b"slow")
    await crash()
    later = await serve(resume="off", open_sessions=0)
    again = await the_agent(later)
    assert (again.state, again.queued) == (State.IDLE, 1)
    assert "> one" not in await said(again)
    again = None  # type: ignore[assignment]
    gc.collect()
    assert later.sessions.live() == []
    again = await the_agent(later)
    if by == "prompt":
        await again.prompt(b"two", by=None)
    else:
        await command(again.session, "resume")
    assert "> one\n\nyou said: one\n" in await said(again)


async def test_a_paused_queue_stays_paused(ollie: Ollie, agent: Agent, serve: Make, crash: Make) -> None:
    """It goes on when the session does."""
    await agent.session.pause(paused=True, by=None)
    await agent.prompt(b"one", by=None)
    await crash()
    again = await the_agent(await serve())
    assert (again.state, again.queued) == (State.PAUSED, 1)
    await again.session.pause(paused=False, by=None)
    assert "you said: one" in await said(again)


async def test_a_sub_agent_goes_with_the_server(
    ollie: Ollie, agent: Agent, serve: Make, crash: Make, place: Path
) -> None:
    """Its request is lost with it; one that has a name stays, and its turn is closed."""
    requests = [
        asyncio.ensure_future(anext(subagents.request(agent.session, {"prompt": "slow", **fields}, by=agent)))
        for fields in ({}, {"name": "kept"})
    ]
    while len(agent.session.agents()) < 3:  # noqa: ASYNC110  a few steps of the loop
        await asyncio.sleep(0)
    for made in agent.session.agents()[1:]:
        await running(made, b"slow")
    await crash()
    later = await serve()
    session = await later.sessions.find("myproj", by=None)
    assert [made.name for made in session.agents()] == ["coding", "kept"]
    assert NOTE in await said(session.find_agent("kept"))
    for request in requests:
        request.cancel()
    await asyncio.wait(requests)


async def test_what_a_lost_sub_agent_had_said_is_told(
    ollie: Ollie, agent: Agent, serve: Make, crash: Make, place: Path
) -> None:
    """In the chat of the agent that had asked for it."""
    await agent.prompt(b"before", by=None)
    await said(agent)
    session = agent.session
    sub, _ = session.make_agent({}, by=agent, temporary=True)
    await sub.prompt(b"hello", by=None)
    await said(sub)
    await crash()
    later = await serve()
    assert [row.name for row in (await later.sessions.find("myproj", by=None)).agents()] == ["coding"]
    chat = await said(await the_agent(later))
    assert chat.endswith(f"\n\n! the sub-agent {sub.name} was interrupted; it had said: you said: hello\n")


async def test_nothing_is_in_memory_of_agents_at_rest(serve: Make, place: Path) -> None:
    """Neither objects nor what belongs to them; found again, they are as they were."""
    ollie = await serve(open_sessions=0)
    seen = []
    for name in ("one", "two"):
        session = await ollie.sessions.create(name=name, by=None)
        agent = await subagents.start(session, {"name": "a", "cwd": str(place / "project"), "prompt": "hello"}, by=None)
        await agent.wait_state()
        seen += [weakref.ref(session), weakref.ref(agent), weakref.ref(agent.runner), weakref.ref(agent.chat)]
        del session, agent
    await ollie.store.stored(ollie.store._writer.changed)
    gc.collect()
    await asyncio.sleep(0)
    await ollie.store.stored(ollie.store._writer.changed)
    assert [ref() for ref in seen] == [None] * 8
    assert (ollie.store._shelves, ollie.store._members, ollie.store._leaving) == ({}, {}, {})
    assert (await content(ollie, "session/idx")).count("\t1\tfalse\t") == 2
    assert (await content(ollie, "aliases")).count("/agent/a\n") == 2
    agent = (await ollie.sessions.find("two", by=None)).find_agent("a")
    assert await said(agent) == "> hello\n\nyou said: hello\n"
    await agent.prompt(b"again", by=None)
    assert (await said(agent)).endswith("you said: again\n")


async def test_those_used_last_are_kept(serve: Make) -> None:
    """So many as the setting says."""
    ollie = await serve(open_sessions=2)
    for name in ("one", "two", "three"):
        await ollie.sessions.create(name=name, by=None)
    await ollie.sessions.find("one", by=None)
    gc.collect()
    assert [session.name for session in ollie.sessions.live()] == ["one", "three"]


async def test_there_is_one_object_at_a_time(serve: Make) -> None:
    """However many open a session at once, and while one holds it."""
    ollie = await serve(open_sessions=0)
    await ollie.sessions.create(name="one", by=None)
    gc.collect()
    assert ollie.sessions.live() == []
    found = await asyncio.gather(*(ollie.sessions.find("one", by=None) for _ in range(10)))
    session = found.pop()
    assert set(found) == {session}
    del found
    gc.collect()
    await ollie.sessions.create(name="two", by=None)
    assert await ollie.sessions.find("one", by=None) is session


async def test_a_turn_keeps_its_session(serve: Make) -> None:
    """And whoever waits for its end is told."""
    ollie = await serve(open_sessions=0)
    session = await ollie.sessions.create(name="one", by=None)
    agent = await subagents.start(session, {"prompt": "slow"}, by=None)
    seen = weakref.ref(agent)
    del session, agent
    gc.collect()
    agent = (await ollie.sessions.find("one", by=None)).agents()[0]
    assert agent is seen()
    assert agent.state is State.RUNNING
    await agent.stop(by=None)


async def test_a_session_that_cannot_be_read_says_so(
    ollie: Ollie, agent: Agent, serve: Make, crash: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """The server starts without it, and it is there when it can be read again."""
    await agent.prompt(b"slow", by=None)
    await running(agent, b"slow")
    await crash()
    with sqlite3.connect(f"{paths.data_dir()}/ollie.db") as connection:
        connection.execute("ALTER TABLE record RENAME TO hidden")
    later = await serve()
    assert "session myproj: the store cannot be read: no such table: record" in caplog.text
    with pytest.raises(NinepError, match=r"^the store cannot be read: no such table: record$"):
        await later.sessions.find("myproj", by=None)
    connection.execute("ALTER TABLE hidden RENAME TO record")
    connection.close()
    assert NOTE in await said(await the_agent(later))
