"""Agents with tools, on a real tool server: run by `test_tool_server.py` in a PID namespace of its own."""

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from served import command, write, written

from ninep.errors import NinepError
from ollie.olliesrv.process.procfs import is_zombie, process
from ollie.olliesrv.sessions import requests, subagents
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.toolserver import life
from ollie.olliesrv.turns.states import State

SCRIPT = """
turns:
  - match: ^three
    replies:
      - calls:
          - {name: file_read, arguments: {path: one}}
          - {name: file_read, arguments: {path: two}}
          - {name: shell, arguments: {cmd: sleep 1000}}
      - {text: done}
  - match: .
    replies: [{text: "you said: {prompt}"}]
"""


def calling(*commands: str) -> str:
    """A script in which each prompt runs one command, given by its number."""
    turns = "".join(
        f"""
  - prompt: "{n}"
    replies:
      - {{text: I run it., calls: [{{name: shell, arguments: {{cmd: "{command}"}}}}]}}
      - {{text: "it said: {{result}}"}}"""
        for n, command in enumerate(commands)
    )
    return f"turns:{turns}\n  - {{match: ., replies: [{{text: ok}}]}}\n"


async def make(serve: Callable[..., Any], place: Path, script: str, **config: Any) -> Agent:
    ollie = await serve(script, tools=("shell", "file_read"), **config)
    session = await ollie.sessions.create(name="s", by=None)
    agent: Agent = await subagents.start(session, {"name": "a", "cwd": str(place / "project")}, by=None)
    return agent


async def said(agent: Agent) -> str:
    await agent.wait_state()
    return (await agent.chat.read(0, 1 << 20)).decode()


async def raw(agent: Agent) -> str:
    return (await agent.chat_raw.read(0, 1 << 20)).decode()


async def until(agent: Agent, words: str) -> None:
    """Return when `chat.raw` has these words."""
    while words not in await raw(agent):
        assert await agent.chat_raw.more(agent.chat_raw.length)


def alive(pid: int) -> bool:
    return process(pid) is not None and not is_zombie(pid)


async def test_a_tool_runs_in_the_agents_directory(serve: Callable[..., Any], place: Path) -> None:
    """Its result goes to the model, and the call into chat.raw."""
    (place / "project/here").touch()
    agent = await make(serve, place, calling("ls; pwd"))
    await agent.prompt(b"0", by=None)
    assert await said(agent) == f"> 0\n\nI run it.\n\nit said: here\n{place}/project\n"
    call = '[[[tool id=call_1 name=shell]]]\n{"cmd":"ls; pwd"}\n'
    assert call + "[[[result id=call_1 name=shell]]]\nhere\n" in await raw(agent)


async def test_a_stop_leaves_no_process_alive(serve: Callable[..., Any], place: Path) -> None:
    """Tools and processes 1: when the stop is answered nothing of the call is alive, and the state is idle."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place, calling("sleep 1000 & echo $! > pid; wait"))
    await agent.prompt(b"0", by=None)
    pid = int(await written(place / "project/pid"))
    assert alive(pid)
    assert await command(agent, "stop") == "stopped\n"
    assert not alive(pid)
    assert agent.state is State.IDLE
    await agent.prompt(b"next", by=None)
    assert (await said(agent)).endswith("! stopped\n\n> next\n\nok\n")


async def test_an_interrupt_in_parallel_calls_leaves_each_with_one_result(
    serve: Callable[..., Any], place: Path
) -> None:
    """Agents and models 1: and the next turn works."""
    for name in ("one", "two"):
        (place / "project" / name).write_text(name)
    agent = await make(serve, place, SCRIPT)
    await agent.prompt(b"three", by=None)
    await until(agent, "[[[result id=call_2")
    assert await agent.stop(by=None)
    text = await raw(agent)
    for number in (1, 2, 3):
        assert text.count(f"[[[tool id=call_{number} ") == text.count(f"[[[result id=call_{number} ") == 1
    assert "[[[result id=call_3 name=shell error=true]]]" in text
    await agent.prompt(b"next", by=None)
    assert (await said(agent)).endswith("you said: next\n")


async def test_a_tool_server_that_ends_no_call_is_ended_itself(serve: Callable[..., Any], place: Path) -> None:
    """Agents and models 11: a stop is over in bounded time, and nothing of the call is alive."""
    os.mkfifo(place / "project/pid")
    script = calling("echo $$ > pid; sleep 1000", "echo again")
    agent = await make(serve, place, script, cancel_s=0.1)
    await agent.prompt(b"0", by=None)
    pid = int(await written(place / "project/pid"))
    server = agent.session.toolsrv.process.pid
    assert server is not None
    os.kill(server, signal.SIGSTOP)
    assert await agent.stop(by=None)
    assert not alive(server)
    while alive(pid):  # noqa: ASYNC110  the reaper ends it, and tells nobody
        await asyncio.sleep(0.01)
    await agent.prompt(b"1", by=None)
    assert "it said: again" in await said(agent)


async def test_forty_calls_in_one_reply_have_forty_results(serve: Callable[..., Any], place: Path) -> None:
    """Agents and models 5 and 6: whatever is wrong with some of them, and those that are wrong do not run."""
    (place / "project/one").write_text("text of one")
    good = "{name: file_read, arguments: {path: one}}"
    cut = """{name: shell, arguments: '{"cmd": "touch ran"'}"""
    bad = """{name: shell, arguments: {command: touch ran}}"""
    calls = ", ".join([good] * 36 + [cut, bad, "{name: nope}", "{name: ''}"])
    agent = await make(serve, place, f"turns: [{{replies: [{{calls: [{calls}]}}, {{text: done}}]}}]")
    await agent.prompt(b"x", by=None)
    assert await said(agent) == "> x\n\ndone\n"
    text = await raw(agent)
    assert text.count("[[[tool ") == text.count("[[[result ") == 40
    assert text.count("error=true]]]") == 4
    assert text.count("text of one") == 36
    assert not (place / "project/ran").exists()


async def test_a_killed_agent_leaves_no_process_alive(serve: Callable[..., Any], place: Path) -> None:
    """Its tool server goes on for the others of its session."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place, calling("echo $$ > pid; sleep 1000", "echo fine"))
    other = await subagents.start(agent.session, {"cwd": str(place / "project")}, by=None)
    await agent.prompt(b"0", by=None)
    pid = int(await written(place / "project/pid"))
    await agent.kill(by=None)
    assert not alive(pid)
    await other.prompt(b"1", by=None)
    assert "it said: fine" in await said(other)


async def test_a_killed_session_leaves_no_tool_server(serve: Callable[..., Any], place: Path) -> None:
    """Nor its socket and secret."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place, calling("echo $$ > pid; sleep 1000"))
    await agent.prompt(b"0", by=None)
    pid = int(await written(place / "project/pid"))
    server = agent.session.toolsrv.process.pid
    assert server is not None
    assert (place / "data/secrets" / f"{agent.session.id}.secret").stat().st_mode & 0o777 == 0o600
    await agent.session.kill(by=None)
    assert not alive(server)
    assert not alive(pid)
    assert list((place / "ns").glob("toolsrv*")) == []
    assert list((place / "data/secrets").iterdir()) == []


async def test_agents_of_a_session_share_one_tool_server(serve: Callable[..., Any], place: Path) -> None:
    """Each has its own tools; twenty at once are served."""
    ollie = await serve(calling("echo mine"), tools=("shell",))
    session = await ollie.sessions.create(name="s", cwd=str(place / "project"), by=None)
    agents = [await subagents.start(session, {"prompt": "0"}, by=None) for _ in range(20)]
    for agent in agents:
        assert await said(agent) == "> 0\n\nI run it.\n\nit said: mine\n"
    assert [server.process.pid for server in ollie.tool_servers()] == [session.toolsrv.process.pid]


async def test_a_tool_server_that_dies_costs_one_call(serve: Callable[..., Any], place: Path) -> None:
    """The model is told, a new one is started, and the agent's tools are loaded again."""
    os.mkfifo(place / "project/began")
    agent = await make(serve, place, calling("echo > began; sleep 1000", "echo again"))
    await agent.prompt(b"0", by=None)
    await written(place / "project/began")
    first = agent.session.toolsrv.process
    os.kill(first.pid, signal.SIGKILL)
    assert "it said: the tool server ended, and what it ran ended with it" in await said(agent)
    await agent.prompt(b"1", by=None)
    assert "it said: again" in await said(agent)
    assert agent.session.toolsrv.process not in {first, None}


async def test_a_tool_server_without_work_ends(serve: Callable[..., Any], place: Path) -> None:
    """After toolsrv_idle_s; the next turn starts another."""
    agent = await make(serve, place, calling("echo one", "echo two"), toolsrv_idle_s=0)
    await agent.prompt(b"0", by=None)
    await said(agent)
    server = agent.session.toolsrv.process.pid
    assert server is not None
    while alive(server):  # noqa: ASYNC110  it ends by itself, and tells nobody
        await asyncio.sleep(0.01)
    await agent.prompt(b"1", by=None)
    assert "it said: two" in await said(agent)


async def test_a_tool_server_that_cannot_start_ends_the_turn(
    serve: Callable[..., Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason; the agent is idle and can be prompted again."""
    agent = await make(serve, place, calling("echo none", "echo one"))
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    await agent.prompt(b"0", by=None)
    assert "! the tool server does not start" in await said(agent)
    monkeypatch.delenv("PYTHONHOME")
    await agent.prompt(b"1", by=None)
    assert "it said: one" in await said(agent)


async def test_a_living_tool_server_is_found_and_used_again(
    serve: Callable[..., Any], place: Path, crash: Callable[..., Any]
) -> None:
    """By a later server with the same session, by its socket and its secret."""
    agent = await make(serve, place, calling("echo one", "echo one"))
    await agent.prompt(b"0", by=None)
    await said(agent)
    await crash()
    later = await serve(calling("echo one", "echo one"), tools=("shell", "file_read"))
    again = (await later.sessions.find("s", by=None)).find_agent("a")
    assert again.session.toolsrv.process.pid == agent.session.toolsrv.process.pid
    await again.prompt(b"1", by=None)
    assert (await said(again)).count("it said: one") == 2
    assert again.session.toolsrv.process.pid == agent.session.toolsrv.process.pid


async def test_a_tool_server_whose_session_is_gone_is_ended(
    serve: Callable[..., Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the next server starts."""
    agent = await make(serve, place, calling("echo one"))
    await agent.prompt(b"0", by=None)
    await said(agent)
    pid = agent.session.toolsrv.process.pid
    assert pid is not None
    monkeypatch.setenv("OLLIE_DATA_PATH", str(place / "empty"))
    await serve(calling("echo one"))
    assert not alive(pid)
    while agent.session.toolsrv.process is not None:  # noqa: ASYNC110  a few steps of the loop, which is told of its end
        await asyncio.sleep(0)


async def test_a_session_with_a_living_tool_server_stays_in_memory(serve: Callable[..., Any], place: Path) -> None:
    """Until that has ended."""
    agent = await make(serve, place, calling("echo one"), open_sessions=0)
    await agent.prompt(b"0", by=None)
    await said(agent)
    sessions, toolsrv = agent.session._sessions, agent.session.toolsrv
    process = toolsrv.process
    assert process is not None
    del agent
    gc.collect()
    assert [session.toolsrv for session in sessions.live()] == [toolsrv]
    await life.end(process, 10)
    while toolsrv.process is not None:  # noqa: ASYNC110  a few steps of the loop, which is told of its end
        await asyncio.sleep(0)
    del toolsrv
    gc.collect()
    assert sessions.live() == []


async def test_a_process_below_a_tool_server_is_known_by_its_agent(serve: Callable[..., Any], place: Path) -> None:
    """And no other process is."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place, calling("echo $$ > pid; sleep 1000"))
    assert await agent.session.toolsrv.whose(os.getpid()) is None
    await agent.prompt(b"0", by=None)
    pid = int(await written(place / "project/pid"))
    assert await agent.session.toolsrv.whose(pid) == agent.id
    assert await agent.session.toolsrv.whose(os.getpid()) is None
    await agent.stop(by=None)


async def test_a_moved_directory_is_not_worked_in(serve: Callable[..., Any], place: Path) -> None:
    """A tool cannot lead its agent elsewhere by putting a link where its directory was."""
    (place / "project/sub").mkdir()
    agent = await make(serve, place, calling("pwd"))
    await agent.change({"cwd": str(place / "project/sub")}, by=None)
    (place / "project/sub").rmdir()
    (place / "project/sub").symlink_to("/etc")
    await agent.prompt(b"0", by=None)
    assert "it said: cwd is not what it was any more" in await said(agent)


async def test_a_request_for_a_sub_agent_that_is_given_up_leaves_nothing(
    serve: Callable[..., Any], place: Path
) -> None:
    """Its tool is gone when the request is."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place, calling("echo $$ > pid; sleep 1000"))
    request = subagents.request(agent.session, {"prompt": "0", "cwd": str(place / "project")}, by=None)
    reading = asyncio.ensure_future(anext(request))
    pid = int(await written(place / "project/pid"))
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    assert not alive(pid)
    assert agent.session.agents() == [agent]


async def test_a_request_for_a_run_that_is_given_up_leaves_nothing(serve: Callable[..., Any], place: Path) -> None:
    """The run is gone when the request is, and so is the connection."""
    os.mkfifo(place / "project/pid")
    agent = await make(serve, place, calling("echo"))
    await agent.tools(by=None)
    payload = b"tool=shell\nagent=a\ncmd=echo $$ > pid; sleep 1000"
    reading = asyncio.ensure_future(anext(requests.run(agent.session, "proc/new", payload, by=None)))
    pid = int(await written(place / "project/pid"))
    reading.cancel()
    await asyncio.wait({reading})
    assert not alive(pid)
    assert agent.session.toolsrv._connection._client is None


async def names(agent: Agent) -> list[str]:
    """The tools that `tools` lists."""
    return [line.split()[0] for line in (await command(agent, "tools")).splitlines()]


GLOB = """
turns:
  - match: ^wait
    replies:
      - {text: I wait., calls: [{name: shell, arguments: {cmd: "until [ -e go ]; do sleep 0.01; done"}}]}
      - {calls: [{name: glob, arguments: {pattern: "*"}}]}
      - {text: "found: {result}"}
  - match: .
    replies:
      - {calls: [{name: glob, arguments: {pattern: "*"}}]}
      - {text: "found: {result}"}
"""


async def test_a_loaded_tool_is_there_from_the_next_request_on(serve: Callable[..., Any], place: Path) -> None:
    """Also in the middle of a turn; one that is unloaded is not."""
    agent = await make(serve, place, GLOB)
    await agent.prompt(b"wait", by=None)
    await until(agent, "[[[tool id=call_1")
    assert await command(agent, "tool_load glob") == "loaded\n"
    assert await names(agent) == ["file_read", "glob", "shell"]
    (place / "project/go").touch()
    assert (await said(agent)).endswith("found: go\n")
    await command(agent, "tool_unload glob")
    await agent.prompt(b"again", by=None)
    assert "go" not in (await said(agent)).rpartition("found: ")[2]


async def test_loads_are_replayed_into_a_tool_server_that_starts_again(
    serve: Callable[..., Any], place: Path, crash: Callable[..., Any]
) -> None:
    """After its death, and after that of both servers; before the first start nothing is started for them."""
    agent = await make(serve, place, GLOB)
    await command(agent, "tool_load glob")
    await command(agent, "tool_unload file_read")
    assert agent.session.toolsrv.process is None
    assert await names(agent) == ["glob", "shell"]
    await agent.session.toolsrv.end()
    assert await names(agent) == ["glob", "shell"]
    await crash()
    await agent.session.toolsrv.end()
    later = await serve(GLOB, tools=("shell", "file_read"))
    again = (await later.sessions.find("s", by=None)).find_agent("a")
    await again.prompt(b"x", by=None)
    assert "found: " in await said(again)
    assert await names(again) == ["glob", "shell"]


async def test_a_tool_server_that_is_found_has_what_the_agent_is_to_have(
    serve: Callable[..., Any], place: Path, crash: Callable[..., Any]
) -> None:
    """What it had loaded when it was taken from the agent is not there any more."""
    agent = await make(serve, place, GLOB)
    assert await names(agent) == ["file_read", "shell"]
    process = agent.session.toolsrv.process
    agent.session.toolsrv._connection._disconnect()
    held, agent.session.toolsrv._life._process = process, None
    await command(agent, "tool_unload file_read")
    agent.session.toolsrv._life._process = held
    await crash()
    later = await serve(GLOB, tools=("shell", "file_read"))
    again = (await later.sessions.find("s", by=None)).find_agent("a")
    assert await names(again) == ["shell"]
    assert again.session.toolsrv.process.pid == process.pid


async def test_the_owner_loads_by_the_tool_servers_file_as_well(serve: Callable[..., Any], place: Path) -> None:
    """For an agent of the session by name or id, and kept with it; anything else is an error."""
    agent = await make(serve, place, GLOB)
    await names(agent)
    await write(agent.session, "toolsrv/ctl", "load a glob")
    assert await names(agent) == ["file_read", "glob", "shell"]
    await write(agent.session, "toolsrv/ctl", f"unload {agent.id} file_read")
    assert await names(agent) == ["glob", "shell"]
    with pytest.raises(NinepError, match=r"^no such agent: b$"):
        await write(agent.session, "toolsrv/ctl", "load b glob")
    with pytest.raises(NinepError, match=r"^unknown tool: glop \(did you mean glob\?"):
        await write(agent.session, "toolsrv/ctl", "load a glop")
    with pytest.raises(NinepError, match=r"^tool not loaded: fetch "):
        await write(agent.session, "toolsrv/ctl", "unload a fetch")
    assert '"name":"glob"' in await write(agent.session, "toolsrv/tools", "a")
    with pytest.raises(NinepError, match=r"^no such agent: b$"):
        await write(agent.session, "toolsrv/tools", "b")


async def test_a_tool_that_is_loaded_again_is_read_again(serve: Callable[..., Any], place: Path) -> None:
    """Without `invalidate`."""
    (place / "cfg/tools").mkdir(parents=True)
    path = place / "cfg/tools/hello.yaml"
    path.write_text("name: hello\ndescription: One.\ncommand: echo 1\n")
    agent = await make(serve, place, GLOB)
    await command(agent, "tool_load hello")
    assert "hello      One." in await command(agent, "tools")
    path.write_text("name: hello\ndescription: Another one.\ncommand: echo 2\n")
    await command(agent, "tool_load hello")
    assert "hello      Another one." in await command(agent, "tools")


async def test_the_tools_of_an_agent_are_listed(serve: Callable[..., Any], place: Path) -> None:
    """By name, with what each does."""
    agent = await make(serve, place, calling("echo"))
    lines = (await command(agent, "tools")).splitlines()
    assert [line.split()[0] for line in lines] == ["file_read", "shell"]
    assert all(len(line.split()) > 2 for line in lines)
    with pytest.raises(NinepError):
        await command(agent, "tools all")
