"""Sessions: their names, their pause, their end; and the root of the server."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from served import command, content, values

from ninep.errors import NinepError
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions import subagents
from ollie.olliesrv.sessions.session import Session
from ollie.olliesrv.turns.states import State


@pytest.fixture
async def session(ollie: Ollie, place: Path) -> Session:
    return await ollie.sessions.create(name="myproj", cwd=str(place / "project"), by=None)


async def test_a_session_is_found_by_name_and_by_id(ollie: Ollie, session: Session) -> None:
    """And by nothing else."""
    assert await ollie.sessions.find("myproj", by=None) is session
    assert await ollie.sessions.find(session.id, by=None) is session
    assert await ollie.sessions.find("nope", by=None) is None
    assert ollie.sessions.visible(None) == [session.row]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "myproj"}, r"^session exists: myproj$"),
        ({}, r"^name missing: name=X "),
        ({"name": "new"}, r"^bad name: new "),
        ({"name": "x", "cwd": "/nope"}, r"^cwd does not exist: /nope$"),
        ({"name": "x", "remote": "host"}, r"^remote sessions are not built yet: host$"),
    ],
)
async def test_a_session_that_cannot_be_is_refused(
    ollie: Ollie, session: Session, fields: dict[str, str], error: str
) -> None:
    """And nothing is made."""
    with pytest.raises(NinepError, match=error):
        await ollie.sessions.create(**fields, by=None)
    assert ollie.sessions.live() == [session]


async def test_numbers_are_shared_and_never_used_again(ollie: Ollie, session: Session) -> None:
    """By sessions and agents alike, whatever is killed in between."""
    one = await subagents.start(session, {}, by=None)
    await one.kill(by=None)
    two = await subagents.start(session, {}, by=None)
    other = await ollie.sessions.create(name="other", by=None)
    assert [session.number, one.number, two.number, other.number] == [1, 2, 3, 4]


async def test_a_renamed_session_keeps_everything_but_its_name(ollie: Ollie, session: Session) -> None:
    """The old name is free again."""
    agent = await subagents.start(session, {"name": "a"}, by=None)
    await session.rename("other", by=None)
    assert await ollie.sessions.find("other", by=None) is session
    assert (await content(session, "name"), session.find_agent("a")) == ("other\n", agent)
    again = await ollie.sessions.create(name="myproj", by=None)
    with pytest.raises(NinepError, match=r"^session exists: other$"):
        await again.rename("other", by=None)


async def test_a_pause_holds_the_queue_and_lets_the_turn_end(session: Session) -> None:
    """The state of an agent that runs changes when its turn is over."""
    agent = await subagents.start(session, {"name": "a"}, by=None)
    watch = agent.watch_state("glenda")
    await agent.prompt(b"slow", by=None)
    await asyncio.sleep(0)
    assert await command(session, "pause") == "paused\n"
    await agent.prompt(b"later", by=None)
    assert (agent.state, await content(session, "paused")) == (State.RUNNING, "true\n")
    await agent.stop(by=None)
    assert agent.state is State.PAUSED
    assert await watch.next() == b"paused\n"
    watch.delivered()
    assert await agent.wait_state() is State.PAUSED
    assert not await agent.chat.more(agent.chat.length)
    assert await command(session, "resume") == "resumed\n"
    assert await agent.wait_state() is State.IDLE
    assert (await agent.chat.read(0, 1000)).endswith(b"> later\n\nyou said: later\n")


async def test_a_pause_shows_in_agents_that_rest(session: Session) -> None:
    """And is gone with `resume`; said twice it changes nothing."""
    agent = await subagents.start(session, {}, by=None)
    for _ in range(2):
        await command(session, "pause")
        assert agent.state is State.PAUSED
    made = await subagents.start(session, {}, by=None)
    assert made.state is State.PAUSED
    await command(session, "resume")
    assert (agent.state, made.state) == (State.IDLE, State.IDLE)


async def test_a_killed_session_takes_its_agents_along(ollie: Ollie, session: Session) -> None:
    """Those who wait are freed; the name is free again."""
    agent = await subagents.start(session, {"prompt": "slow"}, by=None)
    waiting = asyncio.ensure_future(agent.wait_state())
    await asyncio.sleep(0)
    assert await command(session, "kill") == "killed\n"
    with pytest.raises(NinepError, match=r"^file does not exist$"):
        await waiting
    assert (session.gone, agent.gone, ollie.sessions.live()) == (True, True, [])
    with pytest.raises(NinepError, match=r"^file does not exist$"):
        await subagents.start(session, {}, by=None)
    await ollie.sessions.create(name="myproj", by=None)


async def test_an_unknown_command_lists_those_there_are(session: Session) -> None:
    """In the order of the table."""
    with pytest.raises(
        NinepError, match=r"^unknown command: stop \(.*known: kill save invalidate pause resume help\)$"
    ):
        await command(session, "stop")


async def test_a_session_has_at_most_so_many_agents(serve: Callable[..., Any]) -> None:
    """An agent that makes agents without end is stopped by a setting."""
    ollie = await serve(max_agents=2)
    session = await ollie.sessions.create(name="s", by=None)
    agent = await subagents.start(session, {}, by=None)
    await subagents.start(session, {}, by=agent)
    with pytest.raises(NinepError, match=r"^session has 2 agents already \(max_agents\): s$"):
        await subagents.start(session, {}, by=agent)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "coding"}, r"^agent exists: coding$"),
        ({"name": "idx"}, r"^bad name: idx "),
        ({"agent": "nope"}, r"^unknown profile: nope "),
        ({"backend": "nope"}, r"^unknown backend: nope "),
        ({"cwd": "/nope"}, r"^cwd does not exist: /nope$"),
    ],
)
async def test_an_agent_that_cannot_be_is_refused(session: Session, fields: dict[str, str], error: str) -> None:
    """And nothing is made."""
    agent = await subagents.start(session, {"name": "coding"}, by=None)
    with pytest.raises(NinepError, match=error):
        await subagents.start(session, fields, by=None)
    assert session.agents() == [agent]


# ruff: noqa: ASYNC240  a test may look at a directory


async def test_an_agent_works_where_its_session_does_unless_told(ollie: Ollie, session: Session, place: Path) -> None:
    """In a session without a directory, in a private one that goes with the session."""
    assert (await subagents.start(session, {}, by=None)).cwd == str(place / "project")
    other = await ollie.sessions.create(name="other", by=None)
    one, two = [await subagents.start(other, {}, by=None) for _ in range(2)]
    scratch = Path(one.cwd)
    assert (one.cwd, scratch.stat().st_mode & 0o777, scratch.parent.parent) == (two.cwd, 0o700, place / "tmp")
    (scratch / "left").touch()
    await other.kill(by=None)
    assert not scratch.parent.exists()


async def test_indexes_have_a_line_for_each(ollie: Ollie, session: Session, place: Path) -> None:
    """Fields are separated by tabs."""
    agent = await subagents.start(session, {"name": "a", "model": "m"}, by=None)
    work = place / "project"
    assert await content(ollie, "session/idx") == f"{session.id}\tmyproj\t1\tfalse\t\t{work}\n"
    assert await content(session, "agent/idx") == f"{agent.id}\ta\tidle\tdefault\treplay\tm\t{work}\n"
    aliases = f"{session.id}\tsession/myproj\n{agent.id}\tsession/myproj/agent/a\n"
    assert await content(ollie, "aliases") == aliases
    assert ollie.sessions.agent(agent.id) is agent
    assert ollie.sessions.agent(session.id) is None
    assert ollie.sessions.agent("a") is None


async def test_the_environment_names_the_session(session: Session, place: Path) -> None:
    """And no key of a provider."""
    lines = values(session, "env")
    assert lines["OLLIE_SESSION_ID"] == session.id
    assert lines["OLLIE_ADDRESS"] == f"unix!{place}/ns/ollie"
    assert not [name for name in lines if not name.startswith("OLLIE_")]


async def test_the_roots_lists_have_a_line_for_each(ollie: Ollie) -> None:
    """Backends, models, profiles and tools."""
    assert await content(ollie, "backends") == "replay\nlocal\n"
    assert await content(ollie, "agents") == "default\n"
    assert "replay\treplay\n" in await content(ollie, "models")
    tools = (await content(ollie, "tools")).splitlines()
    assert {"shell", "file_read"} <= {line.split()[0] for line in tools}


async def test_the_list_of_models_is_kept_until_it_is_invalidated(ollie: Ollie) -> None:
    """Those who ask at the same time share one answer."""
    one, two = await asyncio.gather(ollie.services.models.known(), ollie.services.models.known())
    assert one == two
    assert await ollie.services.models.known() is await ollie.services.models.known()
    assert await command(ollie, "invalidate") == "invalidated\n"
    assert await ollie.services.models.known() is not one


async def test_kill_asks_the_server_to_end(ollie: Ollie) -> None:
    """Whoever runs it closes it."""
    assert await command(ollie, "kill") == "stopping\n"
    assert ollie.stopping.is_set()


async def test_the_end_of_the_server_ends_turns_in_order(serve: Callable[..., Any], place: Path) -> None:
    """What was said is kept, and what is queued is not begun."""
    ollie: Ollie = await serve(close_s=1)
    session = await ollie.sessions.create(name="s", cwd=str(place / "project"), by=None)
    agent = await subagents.start(session, {"prompt": "slow"}, by=None)
    await agent.prompt(b"later", by=None)
    await ollie.close()
    await ollie.close()
    chat = await agent.chat.read(0, 1000)
    assert chat == b"> slow\n\n! the server was stopped\n"
    assert agent.queued == 1


async def test_fifty_sessions_at_once_are_made_once_each(ollie: Ollie) -> None:
    """Of two with one name the second is refused."""
    names = [f"s{n % 40}" for n in range(50)]
    made = await asyncio.gather(*(ollie.sessions.create(name=n, by=None) for n in names), return_exceptions=True)
    assert sum(isinstance(result, Session) for result in made) == 40
    assert {str(result) for result in made if not isinstance(result, Session)} == {
        f"session exists: s{n}" for n in range(10)
    }
