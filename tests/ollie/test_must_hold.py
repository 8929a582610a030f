"""What must hold for a whole server with real tools in real sandboxes, seen from its clients."""

import signal
from collections.abc import Iterator

import pytest
from house import House

SCRIPT = """
turns:
  - match: "^run "
    replies:
      - calls: [{name: shell, arguments: {cmd: "{prompt}"}}]
      - text: "done: {result}"
  - match: "^hello"
    replies: [{text: "you said {prompt}"}]
"""
AGENT = "session/one/agent/coder"
# Programs that do not end by themselves, the last of which leaves its parents.
ENDLESS = {
    "sleep": "sleep 1000",
    "ignores signals": "trap '' TERM INT HUP; while :; do sleep 1000; done",
    "daemon": "setsid -f sh -c 'sleep 1000 & sleep 1000'; nohup sleep 1000 & sleep 1000",
}


@pytest.fixture(scope="module")
def server() -> Iterator[House]:
    """A server that the tests of this module share, with one agent."""
    house = House()
    script = house.path / "script.yaml"
    script.write_text(SCRIPT)
    house.environ |= {"OLLIE_BACKEND": "replay", "OLLIE_REPLAY": str(script)}
    house.ok("olliesrv", "start")
    house.write("session/new", "name=one")
    house.write("session/one/agent/new", f"name=coder cwd={house.work}")
    yield house
    house.close()


def running(house: House) -> list[str]:
    """The programs that run in the house, other than servers."""
    names = house.sh("cat /proc/[0-9]*/comm 2>/dev/null || true").split()
    return [name for name in names if name in {"sleep", "setsid", "nohup"}]


def begun(house: House, script: str) -> str:
    """A prompt whose tool runs a script, which first makes a file that `await_begun` waits for."""
    (house.work / "begun").unlink(missing_ok=True)
    return f"run () {{ touch begun; {script}; }}; run"


def await_begun(house: House) -> None:
    """Return when the script runs."""
    house.sh("until [ -e begun ]; do :; done")


@pytest.mark.parametrize("program", ENDLESS)
def test_stop(server: House, program: str) -> None:
    """When a stop is answered the state is `idle`, and no process of the turn is alive."""
    server.write(f"{AGENT}/prompt", begun(server, ENDLESS[program]))
    await_begun(server)
    assert server.ok("ollie-9p", "rdwr", f"{AGENT}/ctl", stdin="stop") == "stopped\n"
    assert b"state=idle\n" in server.read(f"{AGENT}/stats").encode()
    assert server.read(f"{AGENT}/wait") == "idle\n"
    assert running(server) == []
    server.write(f"{AGENT}/prompt", "hello")
    assert server.read(f"{AGENT}/chat").endswith("> hello\n\nyou said hello\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_client_of_a_sub_agent_goes(server: House, number: signal.Signals) -> None:
    """A client that is killed, or interrupted, while it waits for a sub-agent takes it along with its tools."""
    agents = server.read("session/one/agent/idx")
    record = f"cwd={server.work}\nprompt={begun(server, 'sleep 1000')}\n"
    script = "printf '%s' \"$0\" >record; echo $$ >pid; exec ollie-9p rdwr session/one/agent/new <record"
    client = server.begin("sh", "-c", script, record)
    await_begun(server)
    server.sh(f"kill -{number.value} $(cat pid)")
    assert client.wait() != 0
    client.communicate()
    server.sh("until ! grep -lsx sleep /proc/[0-9]*/comm; do :; done")
    server.sh(f"until [ $(ollie-9p read session/one/agent/idx | wc -l) = {len(agents.splitlines())} ]; do :; done")
    assert server.read("session/one/agent/idx") == agents


def test_killing_an_agent_ends_its_tools(server: House) -> None:
    """When a kill is answered nothing of the agent is alive."""
    server.write("session/one/agent/new", f"name=brief cwd={server.work}")
    server.write("session/one/agent/brief/prompt", begun(server, "sleep 1000"))
    await_begun(server)
    server.ok("ollie-9p", "rdwr", "session/one/agent/brief/ctl", stdin="kill")
    assert running(server) == []


def test_the_end_of_the_server_ends_everything(house: House) -> None:
    """When `olliesrv stop` returns neither tools nor tool servers are alive."""
    script = house.path / "script.yaml"
    script.write_text(SCRIPT)
    house.environ |= {"OLLIE_BACKEND": "replay", "OLLIE_REPLAY": str(script)}
    house.ok("olliesrv", "start")
    for session in ("one", "two"):
        house.write("session/new", f"name={session}")
        house.write(f"session/{session}/agent/new", f"name=coder cwd={house.work}")
        house.write(f"session/{session}/agent/coder/prompt", begun(house, "sleep 1000"))
        await_begun(house)
    house.ok("olliesrv", "stop")
    # What is left is the first process of the namespace, and what looks.
    left = house.sh("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done").splitlines()
    assert [line for line in left if "sleep" in line or "ollie" in line] == []
    assert sorted(path.name for path in house.socket.parent.iterdir()) == ["ollie.lock"]


def test_a_tool_server_that_is_killed(server: House) -> None:
    """When a tool server is killed its tools end, the turn goes on with an error, and the next call has a new one."""
    server.write(f"{AGENT}/prompt", begun(server, "sleep 1000"))
    await_begun(server)
    server.sh("kill -KILL $(grep -lsz cli.[t]oolsrv /proc/[0-9]*/cmdline | cut -d/ -f3 | head -1)")
    assert "the tool server ended" in server.read(f"{AGENT}/chat")
    server.sh("until ! grep -lsx sleep /proc/[0-9]*/comm; do :; done")
    server.write(f"{AGENT}/prompt", "run () { echo again; }; run")
    assert server.read(f"{AGENT}/chat").rstrip().endswith("done: again")
