"""The broker descriptor: a tool in a sandbox without sockets reaches the name space, as its agent and nobody else."""

import os
import sys
from collections.abc import Callable, Iterator

import pytest
from house import House

from ollie.olliesrv.door.connections import EXHAUSTED

SCRIPT = """
turns:
  - match: "^run "
    replies:
      - calls: [{name: shell, arguments: {cmd: "{prompt}"}}]
      - text: "{result}"
  - replies: [{text: "you said {prompt}"}]
"""
# Asks for a connection, and attaches with what it is given as arguments.
BY_HAND = """
import sys
from ninep.blocking import Connection
from ninep.errors import NinepError
from ollie.protocol import broker

uname, aname, path = sys.argv[1:]
try:
    with Connection(broker.connection(), uname=uname, aname=aname) as server, server.open(path, 0) as file:
        print(b"".join(file).decode(), end="")
except NinepError as error:
    print(error)
"""


# Takes every connection that it is given, says how many these were and why there are no more, and keeps them.
FLOOD = """
import signal, socket

asking, held = socket.socket(fileno=3), []
while True:
    asking.send(b"connect")
    text, descriptors, _, _ = socket.recv_fds(asking, 1000, 1)
    held += descriptors
    if not descriptors:
        break
with open("said", "w") as said:
    print(len(held), text.decode(), file=said)
signal.pause()
"""


class Place:
    """A house with a server, and the agents `coder` and `wide` in `one` and `other` in `two`; coder is in `strict`.

    Args:
        limits: a shell's words about the descriptors that the server gets.
        config: of the server.
    """

    def __init__(self, limits: str = "true", config: str = "") -> None:
        self.house = house = House()
        (house.config / "config.yaml").write_text(config)
        house.replay(SCRIPT)
        house.sh(f"{limits}; exec olliesrv start")
        below = house.work / "below"
        below.mkdir()
        for session, agent, cwd in (("one", "coder", below), ("one", "wide", house.work), ("two", "other", below)):
            if agent != "wide":
                house.write("session/new", f"name={session}")
            house.write(f"session/{session}/agent/new", f"name={agent} cwd={cwd}")
        house.write("session/one/agent/coder/cfg", "sandbox=strict")
        (below / "by_hand.py").write_text(BY_HAND)
        (below / "flood.py").write_text(FLOOD)
        os.mkfifo(below / "said")
        self._said = below / "said"
        self._read: dict[str, int] = {}

    def tool(self, script: str, agent: str = "session/one/agent/coder") -> str:
        """What a script prints that an agent's tool runs, coder's in `strict`."""
        self.house.write(f"{agent}/prompt", f"run () {{ {script}; }}; run 2>&1")
        chat = self.house.read(f"{agent}/chat")
        said = chat[self._read.get(agent, 0) :]
        self._read[agent] = len(chat)
        return said.strip().partition("\n\n")[2]

    def flood(self) -> str:
        """Have a tool of coder take all connections that it is given, in the background; how many, and why no more."""
        payload = f"tool=shell\nagent=coder\ncmd=exec {sys.executable} flood.py\n"
        self.house.ok("ollie-9p", "rdwr", "session/one/toolsrv/proc/new.bg", stdin=payload)
        return self._said.read_text()

    def drain(self) -> None:
        """End what floods."""
        for line in self.house.read("session/one/toolsrv/proc/list").splitlines():
            pid = line.partition("\t")[0]
            self.house.write(f"session/one/toolsrv/proc/{pid}/ctl", "kill")
            self.house.read(f"session/one/toolsrv/proc/{pid}/wait")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.house.close()


def test_a_script_in_a_tight_sandbox_drives_agents(place: Place) -> None:
    """No socket can be opened there, and `ollie-9p` works by itself: it makes an agent, prompts it, and reads."""
    python = sys.executable
    assert "Permission denied" in place.tool(f"{python} -c 'import socket; socket.socket(socket.AF_UNIX)'")
    script = """
        echo name=helper | ollie-9p write session/one/agent/new
        echo hello | ollie-9p write session/one/agent/helper/prompt
        ollie-9p read session/one/agent/helper/wait
        ollie-9p read session/one/agent/helper/chat
        printf 'prompt=hi\\n' | ollie-9p rdwr session/one/agent/new
        for n in 1 2 3 4 5 6 7 8; do ollie-9p read session/one/agent/coder/name & done; wait"""
    said = place.tool(script.strip())
    assert said == "idle\n> hello\n\nyou said hello\nyou said hi\n" + "coder\n" * 7 + "coder"


REFUSED = [
    ("echo x | ollie-9p write session/one/agent/wide/prompt", "permission denied"),
    ("echo max_steps=1 | ollie-9p write session/one/agent/coder/cfg", "permission denied"),
    ("echo kill | ollie-9p write ctl", "permission denied"),
    ("ollie-9p ls session/two", "file does not exist"),
    ("ollie-9p read session/two/agent/other/chat", "file does not exist"),
]


@pytest.mark.parametrize(("script", "error"), REFUSED)
def test_it_is_that_agent_and_no_more(place: Place, script: str, error: str) -> None:
    """What another client of the agent may not do, this one may not either."""
    assert error in place.tool(script)


@pytest.mark.parametrize("uname", ["glenda", "root", "toolsrv"])
@pytest.mark.parametrize("agent", ["", "two/agent/other", "one/agent/wide"])
def test_no_name_makes_it_another(place: Place, uname: str, agent: str) -> None:
    """Neither the owner's uname nor the aname of a tool server with another agent's id."""
    aname = f"tool-of={place.house.read(f'session/{agent}/id').strip()}" if agent else ""
    seen = place.tool(f"{sys.executable} by_hand.py {uname} '{aname}' session/idx")
    assert [line.split("\t")[1] for line in seen.splitlines()] == ["one"]


@pytest.fixture
def build() -> Iterator[Callable[..., Place]]:
    """Makes places for one test, in which coder has its tools."""
    places: list[Place] = []

    def building(*arguments: str) -> Place:
        places.append(Place(*arguments))
        places[-1].tool("true")
        return places[-1]

    yield building
    for place in places:
        place.house.close()


def test_no_tool_takes_all_connections(build: Callable[..., Place]) -> None:
    """A run has so many, an agent so many; who wants more is told where that is set, and nobody else is kept out."""
    place = build()
    no = f"no connection to unix!{place.house.socket}:"
    for _ in range(4):
        assert place.flood() == (
            f"16 {no} one run may have at most 16 connections (max_run_connections in config.yaml); close one\n"
        )
    most = f"{no} the tools of an agent may have at most 64 connections (max_connections in config.yaml); close one"
    assert place.flood() == f"0 {most}\n"
    assert f"ollie-9p: {most}\n" in place.tool("ollie-9p read session/one/agent/coder/name")
    assert place.tool("ollie-9p read session/one/agent/wide/name", "session/one/agent/wide") == "wide"
    assert "two" in place.house.read("session/idx")
    place.drain()
    payload = "tool=shell\nagent=coder\ncmd=ollie-9p read session/one/agent/coder/name\n"
    assert '"coder\\n"' in place.house.ok("ollie-9p", "rdwr", "session/one/toolsrv/proc/new", stdin=payload)


def test_the_owner_is_never_kept_out(build: Callable[..., Place]) -> None:
    """With as many descriptors as are left to tools in use, he connects, and has a tool server started.

    The servers have taken what they may have; tools have what the servers were given.
    """
    place = build("ulimit -Sn 120; ulimit -Hn 160", "{max_connections: 10000, max_run_connections: 10000}")
    taken, _, why = place.flood().partition(" ")
    assert int(taken) > 60
    assert why.endswith(f": {EXHAUSTED}\n")
    assert "two" in place.house.read("session/idx")
    place.house.write("session/new", "name=three")
    place.house.write("session/three/agent/new", f"name=fresh cwd={place.house.work}")
    assert place.tool("ulimit -Sn; ulimit -Hn", "session/three/agent/fresh") == "120\n160"


def test_who_finds_no_descriptor_left_is_told_so(build: Callable[..., Place]) -> None:
    """The owner has taken all: nothing is known of the next client for want of one, and that is what it hears."""
    place = build("ulimit -n 100")
    script = """
from ninep.blocking import Connection
from ninep.errors import NinepError
import socket, sys

held = []
try:
    while True:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(sys.argv[1])
        held.append(Connection(sock, uname="glenda"))
except NinepError as error:
    print(error)
"""
    assert place.house.ok(sys.executable, "-c", script, str(place.house.socket)) == f"{EXHAUSTED}\n"
    assert "two" in place.house.read("session/idx")


def test_a_process_without_the_descriptor_is_told(place: Place) -> None:
    """Where it was not passed on there is one line that says so."""
    assert "that descriptor was not passed on" in place.tool("ollie-9p read backends 3<&-")
    assert "that descriptor was not passed on" in place.tool("ollie-9p read backends 3</dev/null")
    said = place.tool("OLLIE_BROKER_FD=0 ollie-9p read backends <&3")
    assert "OLLIE_BROKER_FD is 0, a standard descriptor; pass the socket on as another one" in said


def test_the_owner_gets_nothing_by_a_tool_servers_name(place: Place) -> None:
    """The aname means something on a connection of a tool server only."""
    agent = place.house.read("session/one/agent/coder/id").strip()
    assert "one" in place.house.ok("ollie-9p", "-A", f"tool-of={agent}", "ls", "session")
    assert "two" in place.house.ok("ollie-9p", "-A", f"tool-of={agent}", "ls", "session")
