"""Who a client is, with real servers, tools and sandboxes."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House

SCRIPT = """
turns:
  - replies:
      - calls: [{name: shell, arguments: {cmd: "{prompt}"}}]
      - text: "{result}"
"""
AGENT = "session/one/agent/coder"
BARE = """
import asyncio, sys
from ninep.client import Client
from ninep.errors import NinepError

async def main(address, secret):
    try:
        client = await Client.connect(address, uname="glenda", secret=secret.encode() or None)
        print(await client.read("backends"))
    except NinepError as error:
        print(error)

asyncio.run(main(*sys.argv[1:]))
"""


class Place:
    """A house with a server, and an agent whose prompts are shell scripts that its tool runs."""

    def __init__(self, *options: str) -> None:
        self.house = House()
        house = self.house
        house.replay(SCRIPT)
        (house.path / "bare.py").write_text(BARE)
        self._allow_clients()
        done = house.run("olliesrv", "start", "--listen", "tcp!127.0.0.1!0", *options)
        assert done.returncode == 0, done.stderr
        self.pid = int(done.stdout.rpartition("(pid ")[2].rstrip(")\n"))
        self.tcp = re.findall(r"listening on (tcp!\S+)", house.log)[-1]
        house.write("session/new", "name=one")
        house.write("session/one/agent/new", f"name=coder cwd={house.work}")
        self._read = 0

    def _allow_clients(self) -> None:
        """A sandbox in which `ollie-9p` runs and sockets can be opened; the shipped one has no unix sockets."""
        source = Path(__file__).parents[3] / "src"
        python = {sys.prefix, sys.base_prefix, str(source)}
        lines = [
            "filesystem:",
            f"  ro: [/etc, /proc, {self.house.path}/bare.py]",
            f"  rox: [/usr, /bin, /lib, /lib64, {', '.join(sorted(python))}]",
            "  rw: [/dev/null, /dev/urandom]",
            '  rwx: ["{CWD}", "{TMPDIR}"]',
            "network: {enabled: true, unix_sockets: true}",
        ]
        (self.house.config / "sandbox.yaml").write_text("\n".join(lines) + "\n")

    def tool(self, script: str) -> str:
        """What a script prints, when the agent's tool runs it. `$A` is the socket's address, `$T` the TCP one's."""
        places = f"A=unix!{self.house.socket} T={self.tcp} P={sys.executable} D={self.house.path}; "
        self.house.write(f"{AGENT}/prompt", places + script)
        chat = self.house.read(f"{AGENT}/chat")
        said, self._read = chat[self._read :], len(chat)
        return said.strip().partition("\n\n")[2]

    def close(self) -> None:
        """End everything."""
        self.house.close()


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.close()


def test_a_tool_reads_its_session(place: Place) -> None:
    """A tool reads what its agent may read, and is taken for its agent."""
    agent = place.house.read(f"{AGENT}/id")
    assert place.tool(f"ollie-9p -a $A read {AGENT}/id") == agent.strip()
    assert place.tool("ollie-9p -a $A ls session") == "idx\nnew\none"


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (f"{AGENT}/ctl", "cwd /"),
        (f"{AGENT}/cfg", "max_steps=1000"),
        (f"{AGENT}/name", "boss"),
        ("session/one/ctl", "kill"),
        ("session/new", "name=two"),
        ("session/one/agent/new", "name=free cwd=/tmp"),
        ("ctl", "kill"),
    ],
)
@pytest.mark.parametrize("uname", ["", "-u glenda", "-u root"])
def test_a_tool_is_its_agent_whatever_it_says(place: Place, uname: str, path: str, data: str) -> None:
    """What is the owner's, or beyond the ceiling, is denied to a tool under every uname."""
    said = place.tool(f"echo '{data}' | ollie-9p {uname} -a $A write {path}")
    assert said.splitlines()[0] == f"ollie-9p: {path}: permission denied"


def test_a_tool_may_command_its_agent(place: Place) -> None:
    """Within the ceiling a tool may command, and make agents."""
    said = place.tool(
        f"mkdir -p inner; echo 'name=helper cwd={place.house.work}/inner' | ollie-9p -a $A rdwr session/one/agent/new"
    )
    assert said == place.house.read("session/one/agent/helper/id").strip()
    assert place.tool("echo kill | ollie-9p -a $A rdwr session/one/agent/helper/ctl") == "killed"


def test_a_process_that_leaves_its_parents_stays_an_agent(place: Place) -> None:
    """A daemon of a tool, in a session of its own and given to another parent, is still an agent."""
    daemon = f"echo 'cwd /' | ollie-9p -u glenda -a $A write {AGENT}/ctl >out 2>&1"
    said = place.tool(f'export A; setsid -f sh -c "{daemon}"; until grep -qs . out; do :; done; cat out')
    assert said.splitlines()[0] == f"ollie-9p: {AGENT}/ctl: permission denied"


def test_a_tool_has_no_secret(place: Place) -> None:
    """Over TCP a tool can prove nothing: it cannot read the secret, and is refused with a wrong one and with none."""
    assert "asks for a secret" in place.tool("ollie-9p -a $T read backends")
    assert place.tool("$P $D/bare.py $T ''") == "permission denied"
    assert place.tool("$P $D/bare.py $T guess") == "authentication failed"
    assert "Permission denied" in place.tool(f"cat {place.house.config}/secret")


def test_the_owner_on_tcp(place: Place) -> None:
    """The owner proves the secret over TCP and may do everything; without it nothing."""
    house = place.house
    assert (house.config / "secret").stat().st_mode & 0o777 == 0o600
    assert house.ok("ollie-9p", "-a", place.tcp, "read", "backends") == "replay\nlocal\n"
    house.ok("ollie-9p", "-a", place.tcp, "write", f"{AGENT}/cfg", stdin="max_steps=99")
    assert house.ok("python", f"{house.path}/bare.py", place.tcp, "") == "permission denied\n"
    assert house.ok("python", f"{house.path}/bare.py", place.tcp, "guess") == "authentication failed\n"


def test_guesses_fill_no_log(place: Place) -> None:
    """However often somebody offers a wrong secret, it is a line a minute."""
    guesses = "for n in 1 2 3; do python $0/bare.py $1 guess; done"
    assert place.house.ok("sh", "-c", guesses, place.house.path, place.tcp) == 3 * "authentication failed\n"
    assert place.house.log.count("offered a wrong secret") == 1


def test_a_restricted_process_of_the_owner(place: Place) -> None:
    """A process with no_new_privs could have come out of a sandbox, so it gets nothing."""
    done = place.house.run("setpriv", "--no-new-privs", "ollie-9p", "read", "backends")
    assert (done.returncode, done.stderr) == (1, "ollie-9p: permission denied\n")
    assert "no_new_privs bit differs" in place.house.log


def test_tools_without_a_sandbox_are_agents_too() -> None:
    """With `--yolo` a tool is still its agent; with `--no-auth` TCP gives it nothing, and others the group's rights."""
    place = Place("--yolo", "--no-auth")
    try:
        said = place.tool(f"echo 'cwd /' | ollie-9p -u glenda -a $A write {AGENT}/ctl")
        assert said.splitlines()[0] == f"ollie-9p: {AGENT}/ctl: permission denied"
        assert place.tool("ollie-9p -a $T read backends").splitlines()[0] == "ollie-9p: permission denied"
        assert "below the toolsrv process" in place.house.log
        assert place.house.ok("ollie-9p", "-a", place.tcp, "read", "backends") == "replay\nlocal\n"
        done = place.house.run("ollie-9p", "-a", place.tcp, "write", f"{AGENT}/cfg", stdin="max_steps=1")
        assert done.stderr == f"ollie-9p: {AGENT}/cfg: permission denied\n"
    finally:
        place.close()
