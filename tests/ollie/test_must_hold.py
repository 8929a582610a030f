"""What must hold for a whole server with real tools in real sandboxes, seen from its clients."""

import re
import signal
from collections.abc import Iterator

import pytest
from house import House

from ninep import _wire

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
    house.replay(SCRIPT)
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
    house.replay(SCRIPT)
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


@pytest.mark.parametrize(("path", "said"), [("session/new", "name missing"), (f"{AGENT}/prompt", "prompt is empty")])
def test_nothing_written_is_no_success(server: House, path: str, said: str) -> None:
    """Writing nothing at all where something is needed fails, and says what is missing."""
    assert said in server.fails("ollie-9p", "write", path)


class OnTcp:
    """A server on TCP with one agent, and a script that moves that agent by TCP."""

    def __init__(self, *options: str) -> None:
        self.house = house = House()
        house.replay(SCRIPT)
        house.run("olliesrv", "start", "--listen", "tcp!127.0.0.1!0", *options)
        (port,) = re.findall(r"listening on tcp!127\.0\.0\.1!(\d+)", house.log)
        house.write("session/new", "name=one")
        house.write("session/one/agent/new", f"name=coder cwd={house.work}")
        (house.path / "elsewhere").mkdir()
        secret = b"" if options else (house.config / "secret").read_bytes()
        (house.work / "hello").write_bytes(_attaching(secret))
        (house.work / "move").write_bytes(_commanding(f"{AGENT}/ctl", f"cwd {house.path}/elsewhere"))
        # Rversion, Rauth and the Rwrite to it, Rattach; an Rerror instead of the last is longer.
        answers = 19 + (20 + 11) * bool(secret) + 20
        self.script = (
            f"exec 5<>/dev/tcp/127.0.0.1/{port}; cat hello >&5; head -c {answers} <&5 >/dev/null; "
            "cat move >&5; until [ -e go ]; do :; done"
        )

    def await_judgement(self, before: int) -> None:
        """Return when more clients on TCP were refused than there were before, or the agent was moved."""
        log = f"{self.house.home}/.local/share/ollie/logs/olliesrv.log"
        refused = f"[ $(grep -c 'refused a TCP client' {log}) -gt {before} ]"
        self.house.sh(f"until {refused} || ollie-9p read session/one/agent/idx | grep -q /elsewhere; do :; done")

    @property
    def refusals(self) -> int:
        """How many clients on TCP were refused."""
        return self.house.log.count("refused a TCP client")

    @property
    def moved(self) -> bool:
        """Whether the agent was moved."""
        return "/elsewhere" in self.house.read("session/one/agent/idx")


def _attaching(secret: bytes) -> bytes:
    said = _wire.pack_version(_wire.TVERSION, _wire.NOTAG, 8192, _wire.VERSION)
    if secret:
        said += _wire.pack_tauth(1, 1, "glenda", "") + _wire.pack_twrite(2, 1, 0, secret)
    return said + _wire.pack_tattach(3, 0, 1 if secret else _wire.NOFID, "glenda", "")


def _commanding(path: str, command: str) -> bytes:
    said = _wire.pack_twalk(4, 0, 2, path.split("/")) + _wire.pack_topen(5, 2, _wire.OWRITE)
    return said + _wire.pack_twrite(6, 2, 0, command.encode())


@pytest.fixture(scope="module", params=["with the secret", "--no-auth"])
def served_on_tcp(request: pytest.FixtureRequest) -> Iterator[OnTcp]:
    served = OnTcp(*[request.param] * request.param.startswith("-"))
    yield served
    served.house.close()


@pytest.fixture
def on_tcp(served_on_tcp: OnTcp) -> OnTcp:
    """The server, with its agent where it belongs."""
    house = served_on_tcp.house
    (house.work / "go").unlink(missing_ok=True)
    house.write(f"{AGENT}/ctl", f"cwd {house.work}")
    return served_on_tcp


def test_a_tool_gets_nothing_over_tcp(on_tcp: OnTcp) -> None:
    """A tool is refused on TCP, with the secret in its hand too."""
    house = on_tcp.house
    before = on_tcp.refusals
    house.write(f"{AGENT}/prompt", f"run () {{ {on_tcp.script}; }}; run")
    on_tcp.await_judgement(before)
    (house.work / "go").touch()
    assert house.read(f"{AGENT}/wait") == "idle\n"
    assert not on_tcp.moved
    assert on_tcp.refusals == before + 1


def test_others_get_in_over_tcp(on_tcp: OnTcp) -> None:
    """The same message from a process of the owner moves the agent."""
    house = on_tcp.house
    before = on_tcp.refusals
    client = house.begin("bash", "-euc", on_tcp.script)
    on_tcp.await_judgement(before)
    (house.work / "go").touch()
    client.communicate()
    assert on_tcp.moved
    assert on_tcp.refusals == before
