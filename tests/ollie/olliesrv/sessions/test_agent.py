"""Agents: prompts and their turns, settings, commands, and what an agent may do to another."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from served import command, content, values, write

from ninep.errors import NinepError
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions import subagents
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.session import Session
from ollie.olliesrv.turns.states import State
from ollie.protocol import payload


async def said(agent: Agent) -> str:
    await agent.wait_state()
    return (await agent.chat.read(0, 1 << 20)).decode()


async def running(agent: Agent, words: str) -> None:
    """Return when the agent has said these words."""
    offset = 0
    while words.encode() not in await agent.chat.read(0, 1 << 20):
        assert await agent.chat.more(offset)
        offset = agent.chat.length


async def made(session: Session, number: int) -> Agent:
    """The agent that another task is making, once it runs."""
    while not (session.agents()[number:] and session.agents()[number].state is State.RUNNING):  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0)  # a few steps of the loop, no time
    return session.agents()[number]


def stat(agent: Agent, key: str) -> str:
    return values(agent, "stats")[key]


async def test_a_prompt_is_answered_in_the_chat(agent: Agent) -> None:
    """When the prompt is answered the agent runs; the chat has prompt and answer, and ends."""
    await agent.prompt(b"hello\n", by=None)
    assert agent.state is State.RUNNING
    assert await said(agent) == "> hello\n\nyou said: hello\n"
    assert not await agent.chat.more(agent.chat.length)


async def test_prompts_are_run_in_order_and_none_is_mixed(agent: Agent) -> None:
    """Agents and models 9: two writers at once are two prompts."""
    await asyncio.gather(*(agent.prompt(f"word{n}".encode(), by=None) for n in range(5)))
    expected = "\n".join(f"> word{n}\n\nyou said: word{n}\n" for n in range(5))
    assert await said(agent) == expected
    assert stat(agent, "turns") == "5"


async def test_the_state_does_not_rest_between_two_queued_turns(agent: Agent) -> None:
    """A reader of `statewait` sees one change to `running` and one to `idle`."""
    watch = agent.watch_state("glenda")
    reading = asyncio.ensure_future(watch.next())
    await asyncio.gather(*(agent.prompt(b"word", by=None) for _ in range(3)))
    assert await reading == b"running\n"
    watch.delivered()
    assert await watch.next() == b"idle\n"
    assert stat(agent, "turns") == "3"


@pytest.mark.parametrize(
    ("prompt", "error"),
    [(b"", "prompt is empty"), (b" \n", "prompt is empty"), (b"\xff", "prompt is not UTF-8")],
)
async def test_a_prompt_that_cannot_be_is_refused(agent: Agent, prompt: bytes, error: str) -> None:
    """Nothing is queued."""
    with pytest.raises(NinepError, match=error):
        await agent.prompt(prompt, by=None)
    assert agent.state is State.IDLE


async def test_a_prompt_that_is_too_long_is_refused_while_it_is_written(serve: Callable[..., Any]) -> None:
    """The limit is a setting."""
    ollie = await serve(max_prompt_bytes=10)
    session = await ollie.sessions.create(name="s", by=None)
    agent = await subagents.start(session, {}, by=None)
    with pytest.raises(NinepError, match=r"^prompt is longer than 10 bytes \(max_prompt_bytes\)$"):
        agent.check_prompt(11, by=None)


async def test_a_stop_ends_the_turn_and_keeps_what_was_said(agent: Agent) -> None:
    """The history is valid afterwards: the next turn works."""
    await agent.prompt(b"slow", by=None)
    await asyncio.sleep(0)
    assert await command(agent, "stop") == "stopped\n"
    assert agent.state is State.IDLE
    await agent.prompt(b"next", by=None)
    assert await said(agent) == "> slow\n\n! stopped\n\n> next\n\nyou said: next\n"


async def test_a_stop_without_a_turn_says_so(agent: Agent) -> None:
    """It is no error."""
    assert await command(agent, "stop") == "nothing to stop\n"


async def test_after_a_stop_the_queue_goes_on(agent: Agent) -> None:
    """The response says how much is left of it."""
    await agent.prompt(b"slow", by=None)
    await agent.prompt(b"after", by=None)
    assert await command(agent, "stop") == "stopped; 1 queued\n"
    assert (await said(agent)).endswith("> after\n\nyou said: after\n")


async def test_a_stop_that_is_cancelled_stops_all_the_same(agent: Agent) -> None:
    """Agents and models 11: the caller goes away, the turn ends."""
    await agent.prompt(b"slow", by=None)
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(agent.stop(by=None))
    await asyncio.sleep(0)
    stopping.cancel()
    assert await agent.wait_state() is State.IDLE


async def test_fifty_agents_prompted_at_once_have_their_own_words_only(ollie: Ollie) -> None:
    """All of them finish."""
    session = await ollie.sessions.create(name="s", by=None)
    agents = await asyncio.gather(
        *(subagents.start(session, {"name": f"a{n}", "prompt": f"word{n}"}, by=None) for n in range(50))
    )
    for n, agent in enumerate(agents):
        assert await said(agent) == f"> word{n}\n\nyou said: word{n}\n"


async def test_a_model_that_fails_ends_the_turn_with_the_reason(serve: Callable[..., Any]) -> None:
    """Agents and models 4: and the agent is idle again."""
    ollie = await serve("turns: [{replies: [{text: so, error: {kind: auth, message: the key is wrong, after: 1}}]}]")
    session = await ollie.sessions.create(name="s", by=None)
    agent = await subagents.start(session, {"prompt": "x"}, by=None)
    assert await said(agent) == "> x\n\nso\n\n! the key is wrong\n"
    assert "[[[error kind=auth]]]\nthe key is wrong\n" in await content(agent, "log")
    assert (stat(agent, "errors"), stat(agent, "state")) == ("1", "idle")


async def test_a_retry_is_shown_as_activity(serve: Callable[..., Any]) -> None:
    """Agents and models 4: it can be stopped while it waits."""
    ollie = await serve("turns: [{replies: [{error: {kind: rate_limited, message: slow down, retry_after_s: 100}}]}]")
    session = await ollie.sessions.create(name="s", by=None)
    agent = await subagents.start(session, {"prompt": "x"}, by=None)
    while not stat(agent, "activity").startswith("retrying in 1"):
        assert await agent.chat_raw.more(agent.chat_raw.length)
    assert await agent.stop(by=None)
    assert agent.state is State.IDLE


async def test_a_model_that_never_stops_asking_is_bounded(serve: Callable[..., Any]) -> None:
    """Agents and models 6: calls of tools that are not loaded are answered, up to max_steps."""
    calls = "calls: [{name: nope}, {name: ''}]"
    ollie = await serve(f"turns: [{{replies: [{', '.join([f'{{{calls}}}'] * 9)}]}}]", max_steps=3)
    session = await ollie.sessions.create(name="s", by=None)
    agent = await subagents.start(session, {"prompt": "x"}, by=None)
    assert "max_steps" in await said(agent)
    raw = (await agent.chat_raw.read(0, 1 << 20)).decode()
    assert raw.count("[[[tool ") == raw.count("[[[result ") == 6
    assert raw.count(" error=true]]]") == 6


# Settings.


async def test_settings_are_shown_as_they_can_be_written(agent: Agent, place: Path) -> None:
    """What was read can be written back."""
    await write(agent, "cfg", "system=\"be 'brief', and kind\" max_steps=3 seed=7\ntemperature=0.5")
    text = await content(agent, "cfg")
    lines = text.splitlines()
    assert f"cwd={place}/project" in lines
    assert {"max_steps=3", "seed=7", "temperature=0.5", "top_p=", "backend=replay", "model=replay"} <= set(lines)
    await write(agent, "cfg", text)
    assert await content(agent, "cfg") == text


async def test_settings_are_changed_all_or_none(agent: Agent) -> None:
    """One that cannot be keeps the others from being changed."""
    before = await content(agent, "cfg")
    for pairs in (b"seed=1 seeed=2", b"seed=1 max_steps=x", b"seed=1 backend=nope", b"seed=1 cwd=/nope"):
        with pytest.raises(NinepError):
            await write(agent, "cfg", pairs.decode())
        assert await content(agent, "cfg") == before


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        (b"max_step=3", r"^unknown key: max_step \((did you mean max_steps\? )?known: backend model "),
        (b"max_steps=-1", r"^max_steps must be a whole number from 0: -1$"),
        (b"max_cost_usd=nan", r"^max_cost_usd must be a number from 0: nan$"),
        (b"seed=x", r"^seed must be a whole number: x$"),
        (b"agent=nope", r"^unknown profile: nope \(known: default\)$"),
        (b"backend=nope", r"^unknown backend: nope "),
        (b"sandbox=nope", r"^unknown sandbox: nope"),
        (b"cwd=work", r"^cwd is not an absolute path: work$"),
        (b"cwd=/nope", r"^cwd does not exist: /nope$"),
        (b"cwd=/dev/null", r"^cwd is not a directory: /dev/null$"),
        (b"cwd=/", r"^cwd holds ollie's own directory .*: / \(choose a directory below it\)$"),
    ],
)
async def test_a_setting_that_cannot_be_says_why(agent: Agent, pairs: bytes, error: str) -> None:
    """One short phrase."""
    with pytest.raises(NinepError, match=error):
        await write(agent, "cfg", pairs.decode())


async def test_an_empty_value_takes_a_setting_back(agent: Agent) -> None:
    """What the server has counts again."""
    await write(agent, "cfg", "max_steps=3 seed=1")
    await write(agent, "cfg", "max_steps= seed=")
    assert {"max_steps": "100", "seed": ""}.items() <= values(agent, "cfg").items()


async def test_a_directory_of_ollie_is_no_working_directory(agent: Agent, place: Path) -> None:
    """Neither what holds one nor what lies in one, however it is written."""
    (place / "cfg/tools").mkdir(parents=True)
    (place / "project/link").symlink_to(place / "cfg")
    for path in (place, place / "cfg", place / "cfg/tools", place / "project/link", place / "project/../data"):
        with pytest.raises(NinepError, match="ollie's own directory"):
            await agent.change({"cwd": str(path)}, by=None)


# Commands.


async def test_help_lists_every_command(agent: Agent) -> None:
    """Those of the seed that there are."""
    listed = [line.split()[0] for line in (await command(agent, "help")).splitlines()]
    assert {"stop", "kill", "clear", "model", "name", "cwd", "tools", "help"} <= set(listed)
    assert await content(agent, "ctl") == await command(agent, "help")


async def test_an_unknown_command_lists_those_there_are(agent: Agent) -> None:
    """So does an empty one."""
    with pytest.raises(NinepError, match=r"^unknown command: stopp \(did you mean stop\? known: stop clear kill "):
        await command(agent, "stopp")
    with pytest.raises(NinepError, match=r"^unknown command:  \(known: "):
        await command(agent, "\n")
    with pytest.raises(NinepError, match=r"^stop takes no argument: now$"):
        await command(agent, "stop now")


async def test_model_name_and_cwd_are_shown_and_changed(agent: Agent, place: Path) -> None:
    """A command without its argument shows what counts."""
    (place / "project/sub").mkdir()
    assert await command(agent, "model") == "replay\n"
    assert await command(agent, "model other") == "other\n"
    assert await command(agent, "name second") == "second\n"
    assert await command(agent, f"cwd {place}/project/sub") == f"{place}/project/sub\n"
    assert agent.session.find_agent("second") is agent
    assert agent.session.find_agent("coding") is None


async def test_a_name_that_is_taken_is_refused(agent: Agent) -> None:
    """Its own is not."""
    await subagents.start(agent.session, {"name": "other"}, by=None)
    await agent.rename("coding", by=None)
    with pytest.raises(NinepError, match=r"^agent exists: other$"):
        await agent.rename("other", by=None)
    with pytest.raises(NinepError, match=r"^bad name: idx "):
        await agent.rename("idx", by=None)


async def test_clearing_forgets_the_history_and_keeps_the_chat(serve: Callable[..., Any]) -> None:
    """The second time the same words are said, the script takes them for the first."""
    ollie = await serve("turns: [{prompt: x, replies: [{text: first}]}, {prompt: x, replies: [{text: second}]}]")
    session = await ollie.sessions.create(name="s", by=None)
    agent = await subagents.start(session, {"prompt": "x"}, by=None)
    await said(agent)
    assert await command(agent, "clear") == "cleared\n"
    await agent.prompt(b"x", by=None)
    assert await said(agent) == "> x\n\nfirst\n\n! the history was cleared\n\n> x\n\nfirst\n"


async def test_a_running_agent_is_not_cleared(agent: Agent) -> None:
    """The error says what to do."""
    await agent.prompt(b"slow", by=None)
    with pytest.raises(NinepError, match=r"^agent is running: coding \(stop it first\)$"):
        await command(agent, "clear")


async def test_kill_frees_everybody_who_waits(agent: Agent) -> None:
    """Readers of logs get the end of file, the others `file does not exist`, and so does whoever comes later."""
    await agent.prompt(b"slow", by=None)
    await asyncio.sleep(0)
    watch = agent.watch_state("glenda")
    waiting = [asyncio.ensure_future(agent.wait_state()), asyncio.ensure_future(watch.next())]
    following = asyncio.ensure_future(agent.chat.more(1 << 20))
    await asyncio.sleep(0)
    assert await command(agent, "kill") == "killed\n"
    assert not await following
    for future in waiting:
        with pytest.raises(NinepError, match="file does not exist"):
            await future
    for call in (command(agent, "stop"), agent.prompt(b"x", by=None), agent.kill(by=None)):
        with pytest.raises(NinepError, match="file does not exist"):
            await call
    assert agent.gone
    assert agent.session.agents() == []


# The plan, the log.


async def test_the_plan_is_read_and_written_by_range(agent: Agent) -> None:
    """As a file is; the model knows it, too."""
    await agent.plan.write(0, b"one two")
    await agent.plan.write(4, b"2")
    await agent.plan.write(9, b"!")
    assert agent.plan.read(0, 100) == b"one 2wo\0\0!"
    assert agent.plan.length == 10
    await agent.plan.truncate(3)
    assert (agent.plan.read(1, 100), agent.plan.length) == (b"ne", 3)
    version = agent.plan.version
    await agent.plan.truncate(0)
    assert agent.plan.version != version
    with pytest.raises(NinepError, match="plan is longer than"):
        await agent.plan.write(1 << 30, b"x")


async def test_stats_have_a_line_each(agent: Agent) -> None:
    """Also where a value has lines."""
    await agent.change({"model": "one\ntwo\\"}, by=None)
    assert payload.parse((await content(agent, "stats")).encode())["model"] == "one\ntwo\\"


async def test_the_log_is_the_end_of_the_raw_chat_cut_at_a_block(serve: Callable[..., Any]) -> None:
    """At most 64 KiB, beginning with a marker."""
    ollie = await serve("turns: [{replies: [{text: ['" + "x" * 50_000 + "']}]}]")
    session = await ollie.sessions.create(name="s", by=None)
    agent = await subagents.start(session, {"prompt": "one"}, by=None)
    await said(agent)
    assert (await content(agent, "log")).encode() == await agent.chat_raw.read(0, 1 << 20)
    await agent.prompt(b"two", by=None)
    await said(agent)
    log = await content(agent, "log")
    assert len(log) <= 64 * 1024 < agent.chat_raw.length
    assert log.startswith("[[[end turn=1 ")


# What one agent may do to another.


async def test_an_agent_commands_those_within_its_bound_only(agent: Agent, place: Path) -> None:
    """Its own and narrower ones; not wider ones, and none of another session."""
    (place / "project/sub").mkdir()
    (place / "other").mkdir()
    session = agent.session
    narrow = await subagents.start(session, {"cwd": str(place / "project/sub")}, by=None)
    beside = await subagents.start(session, {"cwd": str(place / "other")}, by=None)
    assert agent.may(agent)
    assert agent.may(narrow)
    assert not narrow.may(agent)
    assert not agent.may(beside)
    await command(narrow, "stop", by=agent)
    for call in (
        command(agent, "stop", by=narrow),
        agent.prompt(b"x", by=beside),
        agent.kill(by=narrow),
        agent.rename("x", by=beside),
        agent.rename("x", by=agent),
        narrow.rename("x", by=agent),
        agent.change({"seed": "1"}, by=agent),
        session.kill(by=agent),
        command(session, "pause", by=agent),
        session.rename("x", by=agent),
    ):
        with pytest.raises(NinepError, match=r"^permission denied$"):
            await call


async def test_an_agent_of_another_session_is_out_of_reach(agent: Agent, ollie: Ollie, place: Path) -> None:
    """However narrow it is."""
    other = await ollie.sessions.create(name="other", by=None)
    stranger = await subagents.start(other, {"cwd": str(place / "project")}, by=None)
    assert not agent.may(stranger)
    for call in (
        stranger.prompt(b"x", by=agent),
        subagents.start(other, {}, by=agent),
        command(ollie, "kill", by=agent),
    ):
        with pytest.raises(NinepError, match=r"^permission denied$"):
            await call


async def test_an_agent_moves_within_its_bound_only(agent: Agent, place: Path) -> None:
    """And learns nothing of what is outside."""
    (place / "project/sub").mkdir()
    (place / "project/out").symlink_to("/")
    assert await command(agent, f"cwd {place}/project/sub", by=agent) == f"{place}/project/sub\n"
    assert await command(agent, f"cwd {place}/project", by=agent) == f"{place}/project\n"
    for path in ("/", str(place), "/nope", f"{place}/project/out/etc", "relative"):
        with pytest.raises(NinepError, match=r"^permission denied$"):
            await command(agent, f"cwd {path}", by=agent)
    assert agent.cwd == f"{place}/project"


async def test_what_an_agent_makes_has_at_most_its_own_bound(agent: Agent, place: Path) -> None:
    """It works in its maker's directory, and has its maker's sandbox and budget."""
    await write(agent, "cfg", "sandbox=strict max_cost_usd=1.5")
    child = await subagents.start(agent.session, {"name": "child"}, by=agent)
    assert child.cwd == agent.cwd
    assert {"sandbox": "strict", "max_cost_usd": "1.5"}.items() <= values(child, "cfg").items()
    assert agent.may(child)
    (place / "other").mkdir()
    for fields in ({"cwd": str(place / "other")}, {"cwd": "/nope"}, {"cwd": "/"}):
        with pytest.raises(NinepError, match=r"^permission denied$"):
            await subagents.start(agent.session, fields, by=agent)


# Sub-agents.


async def test_a_sub_agent_gives_its_reply_and_is_gone(agent: Agent) -> None:
    """Without a name it is killed afterwards, with one it stays."""
    session = agent.session
    assert [piece async for piece in subagents.request(session, {"prompt": "count"}, by=None)] == [b"you said: count\n"]
    assert session.agents() == [agent]
    pieces = [piece async for piece in subagents.request(session, {"prompt": "count", "name": "kept"}, by=None)]
    assert pieces == [b"you said: count\n"]
    assert session.find_agent("kept") is not None


async def test_without_a_prompt_the_id_is_given(agent: Agent) -> None:
    """Whoever reads it finds the agent by it."""
    (text,) = [piece async for piece in subagents.request(agent.session, {"name": "x"}, by=None)]
    found = agent.session.find_agent(text.decode().rstrip("\n"))
    assert found is not None
    assert found.name == "x"


async def test_a_sub_agent_that_fails_gives_what_it_had_and_the_reason(serve: Callable[..., Any]) -> None:
    """The reason is the error of the read that follows."""
    ollie = await serve("turns: [{replies: [{text: half, error: {kind: refused, message: no more, after: 1}}]}]")
    session = await ollie.sessions.create(name="s", by=None)
    request = subagents.request(session, {"prompt": "x"}, by=None)
    assert await anext(request) == b"half\n"
    with pytest.raises(NinepError, match=r"^no more$"):
        await anext(request)
    assert session.agents() == []


async def test_a_sub_agent_that_hangs_is_stopped_with_its_request(serve: Callable[..., Any]) -> None:
    """Agents and models 10: and what it had said is not lost to the agent that asked."""
    ollie = await serve(
        "turns: [{match: ^hang, replies: [{text: [I begin], calls: [{name: nope}]}, {text: [x], pace_s: 1000}]}]"
    )
    session = await ollie.sessions.create(name="s", by=None)
    parent = await subagents.start(session, {"name": "parent"}, by=None)
    request = subagents.request(session, {"prompt": "hang"}, by=parent)
    reading = asyncio.ensure_future(anext(request))
    await running(await made(session, 1), "I begin")
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    assert session.agents() == [parent]
    assert "it had said: I begin" in await said(parent)


async def test_a_sub_agent_that_is_killed_answers_its_request(agent: Agent) -> None:
    """With an error, not with silence."""
    request = subagents.request(agent.session, {"prompt": "slow", "name": "sub"}, by=None)
    reading = asyncio.ensure_future(anext(request))
    await (await made(agent.session, 1)).kill(by=None)
    with pytest.raises(NinepError, match="file does not exist"):
        await reading


async def test_a_detached_sub_agent_runs_by_itself(agent: Agent) -> None:
    """It stays."""
    made = await subagents.start(agent.session, {"prompt": "go"}, by=None)
    assert await said(made) == "> go\n\nyou said: go\n"
