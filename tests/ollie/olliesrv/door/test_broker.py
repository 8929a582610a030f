"""The broker descriptor: a tool in a sandbox without sockets reaches the name space, as its agent and nobody else."""

import sys
from collections.abc import Iterator

import pytest
from house import House

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


class Place:
    """A house with a server, and the agents `coder` and `wide` in `one` and `other` in `two`; coder is in `strict`."""

    def __init__(self) -> None:
        self.house = house = House()
        (house.path / "script.yaml").write_text(SCRIPT)
        house.environ |= {"OLLIE_BACKEND": "replay", "OLLIE_REPLAY": str(house.path / "script.yaml")}
        house.ok("olliesrv", "start")
        below = house.work / "below"
        below.mkdir()
        for session, agent, cwd in (("one", "coder", below), ("one", "wide", house.work), ("two", "other", below)):
            if agent != "wide":
                house.write("session/new", f"name={session}")
            house.write(f"session/{session}/agent/new", f"name={agent} cwd={cwd}")
        house.write("session/one/agent/coder/cfg", "sandbox=strict")
        (below / "by_hand.py").write_text(BY_HAND)
        self._read = 0

    def tool(self, script: str) -> str:
        """What a script prints that coder's tool runs in `strict`."""
        self.house.write("session/one/agent/coder/prompt", f"run () {{ {script}; }}; run 2>&1")
        chat = self.house.read("session/one/agent/coder/chat")
        said, self._read = chat[self._read :], len(chat)
        return said.strip().partition("\n\n")[2]


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


def test_a_process_without_the_descriptor_is_told(place: Place) -> None:
    """Where it was not passed on there is one line that says so."""
    assert "that descriptor was not passed on" in place.tool("ollie-9p read backends 3<&-")
    assert "that descriptor was not passed on" in place.tool("ollie-9p read backends 3</dev/null")


def test_the_owner_gets_nothing_by_a_tool_servers_name(place: Place) -> None:
    """The aname means something on a connection of a tool server only."""
    agent = place.house.read("session/one/agent/coder/id").strip()
    assert "one" in place.house.ok("ollie-9p", "-A", f"tool-of={agent}", "ls", "session")
    assert "two" in place.house.ok("ollie-9p", "-A", f"tool-of={agent}", "ls", "session")
