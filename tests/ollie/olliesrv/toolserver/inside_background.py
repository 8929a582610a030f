"""Runs in the background and what asks for approval, seen by agents: run in a PID namespace of its own."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from served import values, written

from ollie.olliesrv.events import EventWatch
from ollie.olliesrv.process.procfs import process
from ollie.olliesrv.sessions import requests, subagents
from ollie.olliesrv.sessions.agent import Agent

SCRIPT = """
turns:
  - match: "^<system-proc-complete"
    replies: [{text: "told: {prompt}"}]
  - match: "^background "
    replies:
      - calls: [{name: shell, arguments: {cmd: "{prompt}", background: true}}]
      - text: "it said: {result}"
  - match: "^bypass "
    replies:
      - calls: [{name: shell, arguments: {cmd: "{prompt}", bypass: true}}]
      - text: "it said: {result}"
"""
# What a prompt begins with is no command, and must not be one.
NOTHING = "background () {{ {}; }}; background"


async def make(serve: Callable[..., Any], place: Path, **config: Any) -> Agent:
    ollie = await serve(SCRIPT, tools=("shell",), **config)
    session = await ollie.sessions.create(name="s", by=None)
    agent: Agent = await subagents.start(session, {"name": "a", "cwd": str(place / "project")}, by=None)
    return agent


async def chat(agent: Agent, words: str) -> str:
    """Its chat, once the words are in it and it is idle."""
    length = 0
    while words not in (await agent.chat.read(0, length)).decode():
        while agent.chat.length == length:
            await agent.chat._grown.wait()
        length = agent.chat.length
    await agent.wait_state()
    return (await agent.chat.read(0, 1 << 20)).decode()


def go(place: Path) -> None:
    """Let go on what waits in the background."""
    (place / "project/go").touch()


def kept(place: Path) -> list[str]:
    """What tool servers keep."""
    return [path.name for path in (place / "data/toolsrv").iterdir()]


async def waits(agent: Agent) -> None:
    """Return when the agent waits for approval."""
    asked = agent._services.asked
    while values(agent, "stats")["activity"] != "waiting for approval":
        await asked.beyond(asked.count)


async def gone(agent: Agent) -> None:
    """Return when the tool server is not followed any more."""
    connection = agent.session.toolsrv._connection
    if connection._client is not None:
        await connection._client.calls.gone()
    assert connection._client is None


async def test_an_agent_is_told_once_when_something_has_ended(serve: Callable[..., Any], place: Path) -> None:
    """The call gives a pid at once; the message begins a turn of its own; then nobody is connected."""
    agent = await make(serve, place)
    await agent.prompt(
        NOTHING.format('echo "\\"a\\" <b>"; until [ -e go ]; do sleep 0.01; done; exit 3').encode(), by=None
    )
    said = await chat(agent, "it said: ")
    assert "it said: runs in the background as process 1; a message comes when it has ended" in said
    assert agent.session.toolsrv._connection._client is not None
    go(place)
    said = await chat(agent, "told: ")
    assert said.count("told: ") == 1
    head, _, output = said.partition("told: ")[2].strip().partition("\n")
    assert head.startswith('<system-proc-complete id="1" cmd="background () { echo &quot;\\&quot;a\\&quot; &lt;b&gt;')
    assert head.endswith('" exit="3">')
    assert output == '"a" <b>\n</system-proc-complete>'
    await gone(agent)
    assert agent.session.toolsrv.process is not None


async def test_a_message_waits_for_the_turn_that_runs(serve: Callable[..., Any], place: Path) -> None:
    """And is a queue entry like any other: a paused session holds it."""
    agent = await make(serve, place)
    await agent.prompt(NOTHING.format("until [ -e go ]; do sleep 0.01; done").encode(), by=None)
    await chat(agent, "it said: ")
    await agent.session.pause(paused=True, by=None)
    go(place)
    await gone(agent)
    assert agent.queued == 1
    await agent.session.pause(paused=False, by=None)
    assert (await chat(agent, "told: ")).count("told: ") == 1


async def test_it_is_told_by_a_server_that_comes_later(
    serve: Callable[..., Any], place: Path, crash: Callable[..., Any]
) -> None:
    """The run goes on while there is no server, and the next one hears of its end without being asked."""
    agent = await make(serve, place)
    await agent.prompt(NOTHING.format("until [ -e go ]; do sleep 0.01; done").encode(), by=None)
    await chat(agent, "it said: ")
    await crash()
    agent.session.toolsrv._connection._disconnect()
    go(place)
    later = await serve(SCRIPT, tools=("shell",))
    again = (await later.sessions.find("s", by=None)).find_agent("a")
    assert (await chat(again, "told: ")).count("told: ") == 1


async def test_a_message_that_was_taken_is_not_taken_again(
    serve: Callable[..., Any], place: Path, crash: Callable[..., Any]
) -> None:
    """The server ends after the message is stored and before that is acknowledged: once all the same."""
    agent = await make(serve, place)
    taken = asyncio.Event()
    never = asyncio.Event()
    complete = agent.session.toolsrv._connection._ended

    async def interrupted(ended: Any) -> None:
        await complete(ended)
        taken.set()
        await never.wait()

    agent.session.toolsrv._connection._ended = interrupted
    await agent.prompt(NOTHING.format("true").encode(), by=None)
    await taken.wait()
    await chat(agent, "told: ")
    await crash()
    agent.session.toolsrv._connection._disconnect()
    later = await serve(SCRIPT, tools=("shell",))
    again = (await later.sessions.find("s", by=None)).find_agent("a")
    await gone(again)
    await again.wait_state()
    assert (await again.chat.read(0, 1 << 20)).decode().count("told: ") == 1
    assert again.queued == 0


async def test_it_is_told_that_the_tool_server_ended(serve: Callable[..., Any], place: Path) -> None:
    """What ran in the background when the tool server was killed is told when the next one starts."""
    os.mkfifo(place / "project/begun")
    agent = await make(serve, place)
    await agent.prompt(NOTHING.format("echo > begun; exec sleep 1000").encode(), by=None)
    await chat(agent, "it said: ")
    await written(place / "project/begun")
    await agent.session.toolsrv.end()
    await agent.tools(by=None)
    said = await chat(agent, "told: ")
    assert 'exit="143"' in said
    assert said.count("told: ") == 1


async def test_waiting_for_approval_is_shown(serve: Callable[..., Any], place: Path) -> None:
    """While a call waits for its answer that is the agent's activity; a stop withdraws the request."""
    agent = await make(serve, place)
    toolsrv = agent.session.toolsrv
    await agent.prompt(b"bypass () { echo yes; }; bypass", by=None)
    await waits(agent)
    async with toolsrv.running() as client:
        (request,) = map(json.loads, (await client.read("bypass/list")).splitlines())
        assert request["agent"] == agent.id
        await client.write("bypass/resolve", json.dumps({"id": request["id"], "approved": True}).encode())
    assert "it said: yes" in await chat(agent, "it said: ")
    await agent.prompt(b"bypass () { touch ran; }; bypass", by=None)
    await waits(agent)
    assert await agent.stop(by=None)
    async with toolsrv.running() as client:
        assert await client.read("bypass/list") == b""
    assert not (place / "project/ran").exists()


async def told(watch: EventWatch, last: tuple[str, str]) -> list[Any]:
    """What is told of runs and requests, up to an event."""
    found: list[Any] = []
    while not found or (found[-1]["event"], found[-1].get("state")) != last:
        found.append(json.loads(await watch.next()))
        watch.delivered()
    return [event for event in found if event["event"] in {"proc", "bypass"}]


async def test_runs_and_requests_are_told(serve: Callable[..., Any], place: Path) -> None:
    """Each begins and ends, of the agent that it is of, with its exit code or answer."""
    agent = await make(serve, place)
    watch = agent._services.events.watch("glenda")
    await agent.prompt(b"bypass () { exit 3; }; bypass", by=None)
    (asked,) = await told(watch, ("bypass", "pending"))
    assert (asked["agent"], asked["path"]) == (agent.id, "session/s/agent/a")
    assert "exit 3" in asked["command"]
    async with agent.session.toolsrv.running() as client:
        await client.write("bypass/resolve", json.dumps({"id": asked["id"], "approved": True}).encode())
    resolved, started, exited = await told(watch, ("state", "idle"))
    assert (resolved["state"], resolved["answer"], resolved["id"]) == ("resolved", "approved", asked["id"])
    assert (started["state"], started["tool"], started["background"]) == ("started", "shell", False)
    assert (exited["state"], exited["pid"], exited["exit"]) == ("exited", started["pid"], 3)


async def test_a_run_that_the_owner_asks_for_is_told(serve: Callable[..., Any], place: Path) -> None:
    """While no turn runs; what it leaves in the background is followed to its end."""
    agent = await make(serve, place)
    await agent.tools(by=None)
    await gone(agent)
    watch = agent._services.events.watch("glenda")
    payload = b"tool=shell\nagent=a\ncmd=until [ -e go ]; do sleep 0.01; done"
    assert [piece async for piece in requests.run(agent.session, "proc/new.bg", payload, by=None)] == [b"1\n"]
    (started,) = await told(watch, ("proc", "started"))
    assert (started["pid"], started["background"], started["agent"]) == (1, True, agent.id)
    go(place)
    assert [event["state"] for event in await told(watch, ("turn", "finished"))] == ["exited"]
    assert "told: " in await chat(agent, "told: ")


async def test_what_ends_with_a_tool_server_is_told(serve: Callable[..., Any], place: Path) -> None:
    """At once, not when the next one starts."""
    os.mkfifo(place / "project/begun")
    agent = await make(serve, place)
    await agent.prompt(NOTHING.format("echo > begun; exec sleep 1000").encode(), by=None)
    await written(place / "project/begun")
    await chat(agent, "it said: ")
    watch = agent._services.events.watch("glenda")
    await agent.session.toolsrv.end()
    (exited,) = await told(watch, ("proc", "exited"))
    assert (exited["pid"], exited["background"]) == (1, True)


async def test_a_killed_session_leaves_nothing_of_its_tool_server(serve: Callable[..., Any], place: Path) -> None:
    """Its counters and messages go with it; those of another session stay."""
    agent = await make(serve, place)
    other = await agent.session._sessions.create(name="t", by=None)
    second = await subagents.start(other, {"name": "b", "cwd": str(place / "project")}, by=None)
    for each in (agent, second):
        await each.prompt(NOTHING.format("exec sleep 1000").encode(), by=None)
        await chat(each, "it said: ")
    assert len(kept(place)) == 6
    await agent.session.kill(by=None)
    left = kept(place)
    assert len(left) == 3
    assert all(other.id[-12:] in name for name in left)


SLEEP = NOTHING.format("echo $$ > pid; exec sleep 1000").encode()


async def sleeping(place: Path) -> int:
    """The process of a run in the background."""
    return int(await written(place / "project/pid"))


async def lose(agent: Agent) -> None:
    """Kill the tool server; the loop has heard of it when this returns."""
    toolsrv = agent.session.toolsrv
    before = toolsrv.process
    assert before is not None
    os.kill(before.pid, signal.SIGKILL)
    while toolsrv.process is before:  # noqa: ASYNC110  as below
        await asyncio.sleep(0)  # a few steps of the loop, which is told of its end


async def test_a_killed_agent_leaves_nothing_in_the_background(serve: Callable[..., Any], place: Path) -> None:
    """When that is answered it is gone, and the tool server is not held for it any more."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place)
    await agent.prompt(SLEEP, by=None)
    pid = await sleeping(place)
    await chat(agent, "it said: ")
    await agent.kill(by=None)
    assert process(pid) is None
    await gone(agent)
    assert agent.session.toolsrv.process is not None
    assert not any(name.isdigit() for name in kept(place))


async def test_an_agent_is_killed_although_its_tool_server_does_not_answer(
    serve: Callable[..., Any], place: Path
) -> None:
    """That is ended then."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place, cancel_s=0.1)
    await agent.prompt(SLEEP, by=None)
    pid = await sleeping(place)
    await chat(agent, "it said: ")
    server = agent.session.toolsrv.process
    os.kill(server.pid, signal.SIGSTOP)
    await agent.kill(by=None)
    assert agent.session.toolsrv.process != server
    while process(pid) is not None:  # noqa: ASYNC110  the reaper ends it, and tells nobody
        await asyncio.sleep(0.01)


async def test_a_sub_agent_leaves_nothing_in_the_background(serve: Callable[..., Any], place: Path) -> None:
    """When it has replied it is gone, and so is that."""
    agent = await make(serve, place)
    fields = {"prompt": SLEEP.decode().replace("exec", "true; exec"), "cwd": str(place / "project")}
    async for reply in subagents.request(agent.session, fields, by=None):
        assert b"runs in the background" in reply
    async with agent.session.toolsrv.running() as client:
        assert await client.read("proc/list") == b""


async def test_what_is_of_no_agent_is_ended_in_a_tool_server_that_is_found(
    serve: Callable[..., Any], place: Path, crash: Callable[..., Any]
) -> None:
    """A sub-agent does not outlive its server, and what it ran in the background does not outlive the next."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place)
    session = agent.session
    sub, stored = session.make_agent({"cwd": str(place / "project")}, by=None, temporary=True)
    await session.stored(stored)
    await sub.prompt(SLEEP, by=None)
    pid = await sleeping(place)
    await chat(sub, "it said: ")
    await crash()
    session.toolsrv._connection._disconnect()
    later = await serve(SCRIPT, tools=("shell",))
    again = await later.sessions.find("s", by=None)
    assert [found.name for found in again.agents()] == ["a"]
    async with again.toolsrv.running():
        assert process(pid) is None


async def test_what_ended_with_a_tool_server_is_told_at_once(serve: Callable[..., Any], place: Path) -> None:
    """To an idle agent, without anything else; once."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place)
    await agent.prompt(SLEEP, by=None)
    await sleeping(place)
    await chat(agent, "it said: ")
    await lose(agent)
    said = await chat(agent, "told: ")
    assert 'exit="137"' in said
    assert "the tool server ended, and this run with it" in said
    await gone(agent)
    await agent.tools(by=None)
    await gone(agent)
    assert (await chat(agent, "told: ")).count("told: ") == 1


async def test_a_paused_session_holds_what_ended_with_its_tool_server(serve: Callable[..., Any], place: Path) -> None:
    """In the queue."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place)
    await agent.prompt(SLEEP, by=None)
    await sleeping(place)
    await chat(agent, "it said: ")
    await agent.session.pause(paused=True, by=None)
    await lose(agent)
    await agent.session.toolsrv.collect()
    await gone(agent)
    assert agent.queued == 1
    await agent.session.pause(paused=False, by=None)
    assert (await chat(agent, "told: ")).count("told: ") == 1


async def test_it_is_told_although_no_tool_server_can_be_started_at_first(
    serve: Callable[..., Any], place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried until one can."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place)
    await agent.prompt(SLEEP, by=None)
    await sleeping(place)
    await chat(agent, "it said: ")
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    await lose(agent)
    while "agents are not told yet" not in caplog.text:  # noqa: ASYNC110  the log wakes nobody
        await asyncio.sleep(0.01)
    monkeypatch.delenv("PYTHONHOME")
    assert (await chat(agent, "told: ")).count("told: ") == 1


async def test_what_ended_while_there_was_no_server_is_told_by_the_next(
    serve: Callable[..., Any], place: Path, crash: Callable[..., Any]
) -> None:
    """Both were killed; only the tool server whose agents are to be told is started."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place)
    other = await agent.session._sessions.create(name="t", by=None)
    second = await subagents.start(other, {"name": "b", "cwd": str(place / "project")}, by=None)
    await second.tools(by=None)
    await agent.prompt(SLEEP, by=None)
    await sleeping(place)
    await chat(agent, "it said: ")
    await crash()
    for each in (agent, second):
        each.session.toolsrv._connection._closed = True  # its server is gone
        await lose(each)
    later = await serve(SCRIPT, tools=("shell",))
    again = (await later.sessions.find("s", by=None)).find_agent("a")
    said = await chat(again, "told: ")
    assert said.count("told: ") == 1
    assert 'exit="137"' in said
    await gone(again)
    assert list(later.tool_servers()) == [again.session.toolsrv]
