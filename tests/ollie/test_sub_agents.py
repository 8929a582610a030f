"""Sub-agents that a model spawns, with real tools, seen from the clients of a server."""

from collections.abc import Iterator

import pytest
from house import House

SCRIPT = """
turns:
  - match: ^both
    replies:
      - text: I ask.
        calls:
          - {name: agent_spawn, arguments: {prompt: write one, cwd: below}}
          - {name: agent_spawn, arguments: {prompt: write two}}
          - {name: shell, arguments: {cmd: cat said below/said}}
      - text: "Then: {result}"
  - match: ^write
    replies:
      - {text: Writing., calls: [{name: shell, arguments: {cmd: echo done >said}}]}
      - {text: "{prompt} is done"}
  - match: ^ask
    replies:
      - {text: I ask., calls: [{name: agent_spawn, arguments: {prompt: work}}]}
      - {text: never}
  - match: ^work
    replies:
      - {text: I begin., calls: [{name: shell, arguments: {cmd: touch begun; setsid sleep 1000}}]}
      - {text: never}
  - replies: [{text: "you said {prompt}"}]
"""
AGENT = "session/one/agent/coder"


@pytest.fixture
def server(house: House) -> Iterator[House]:
    """A server with one agent."""
    house.replay(SCRIPT)
    house.ok("olliesrv", "start")
    house.write("session/new", "name=one")
    house.write("session/one/agent/new", f"name=coder cwd={house.work}")
    (house.work / "below").mkdir()
    return house


def names(house: House) -> list[str]:
    return [line.split("\t")[1] for line in house.read("session/one/agent/idx").splitlines()]


def at_work(house: House) -> str:
    """Have a sub-agent run something endless; its name, once that runs."""
    house.write(f"{AGENT}/prompt", "ask")
    house.sh("until [ -e begun ]; do :; done")
    (name,) = set(names(house)) - {"coder"}
    assert "activity=calling agent_spawn\n" in house.read(f"{AGENT}/stats")
    assert "activity=calling shell\n" in house.read(f"session/one/agent/{name}/stats")
    return name


def await_none_running(house: House) -> None:
    house.sh("until ! grep -lsx sleep /proc/[0-9]*/comm; do :; done")


def test_several_work_and_then_the_next_call(server: House) -> None:
    """Each in its directory, with tools of its own; what changes something waits for both."""
    server.write(f"{AGENT}/prompt", "both")
    assert server.read(f"{AGENT}/chat") == "> both\n\nI ask.\n\nThen: done\ndone\n"
    raw = server.read(f"{AGENT}/chat.raw")
    assert "write one is done" in raw
    assert "write two is done" in raw
    assert names(server) == ["coder"]


@pytest.mark.parametrize("command", ["stop", "kill"])
def test_it_ends_with_its_maker(server: House, command: str) -> None:
    """When the command is answered, nothing of the sub-agent and of its tools is alive."""
    at_work(server)
    server.ok("ollie-9p", "rdwr", f"{AGENT}/ctl", stdin=command)
    assert server.run("sh", "-c", "grep -lsx sleep /proc/[0-9]*/comm").stdout == ""
    if command == "stop":
        assert names(server) == ["coder"]
        assert "I begin.\ninterrupted: stopped" in server.read(f"{AGENT}/chat.raw")
        server.write(f"{AGENT}/prompt", "next")
        assert server.read(f"{AGENT}/chat").endswith("> next\n\nyou said next\n")
    else:
        assert names(server) == []


def test_a_user_stops_the_sub_agent_alone(server: House) -> None:
    """Its maker is told, and goes on."""
    name = at_work(server)
    server.ok("ollie-9p", "rdwr", f"session/one/agent/{name}/ctl", stdin="stop")
    assert server.read(f"{AGENT}/chat") == "> ask\n\nI ask.\n\nnever\n"
    assert "I begin.\nthe sub-agent ended early: stopped" in server.read(f"{AGENT}/chat.raw")


def test_its_session_is_killed(server: House) -> None:
    """Nothing of it is alive."""
    at_work(server)
    server.ok("ollie-9p", "rdwr", "session/one/ctl", stdin="kill")
    assert server.run("sh", "-c", "grep -lsx sleep /proc/[0-9]*/comm").stdout == ""


def test_the_server_is_killed(server: House) -> None:
    """Its tools end; the next server finds a valid history, tells what the sub-agent had said, and runs nothing."""
    name = at_work(server)
    server.kill(int(server.ok("olliesrv", "status").rpartition("(pid ")[2].rstrip(")\n")))
    await_none_running(server)
    (server.work / "begun").unlink()
    server.ok("olliesrv", "start")
    assert names(server) == ["coder"]
    assert f"the sub-agent {name} was interrupted; it had said: I begin." in server.read(f"{AGENT}/chat")
    server.write(f"{AGENT}/prompt", "next")
    assert server.read(f"{AGENT}/chat").endswith("> next\n\nyou said next\n")
    assert not (server.work / "begun").exists()


def test_its_end_with_the_server(server: House) -> None:
    """A clean stop ends it as a stop of its maker does."""
    at_work(server)
    server.ok("olliesrv", "stop")
    assert server.run("sh", "-c", "grep -lsx sleep /proc/[0-9]*/comm").stdout == ""
    server.ok("olliesrv", "start")
    assert names(server) == ["coder"]
    assert "I begin.\ninterrupted: the server was stopped" in server.read(f"{AGENT}/chat.raw")
