"""What agents ask to run without the sandbox, answered at a terminal."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from house import House

SCRIPT = """
turns:
  - match: "^bypass "
    replies:
      - calls: [{name: shell, arguments: {cmd: "{prompt}", bypass: true}}]
      - text: "it said: {result}"
  - match: "^run "
    replies:
      - calls: [{name: shell, arguments: {cmd: "{prompt}"}}]
      - text: "it said: {result}"
  - match: "^background "
    replies:
      - calls: [{name: shell, arguments: {cmd: "{prompt}", background: true}}]
      - text: "it said: {result}"
  - replies: [{text: "you said {prompt}"}]
"""
AGENT = "session/one/agent/coder"
RUN = "run () {{ {}; }}; run 2>&1"


@pytest.fixture(scope="module")
def server() -> Iterator[House]:
    """A server with an agent that asks for what it is told to ask for."""
    house = House()
    house.replay(SCRIPT)
    house.ok("olliesrv", "start")
    house.write("session/new", "name=one")
    for name in ("coder", "other"):
        house.write("session/one/agent/new", f"name={name} cwd={house.work}")
    house.secret = house.home / "secret"
    house.secret.write_text("for the user\n")
    yield house
    house.close()


def ask(house: House, script: str) -> str:
    """Have the agent ask; the id of its request."""
    house.write(f"{AGENT}/prompt", f"bypass () {{ {script}; }}; bypass")
    request: dict[str, str] = json.loads(house.read("bypass/pending"))
    return request["id"]


def said(house: House) -> str:
    """What the agent said last."""
    house.read(f"{AGENT}/wait")
    return house.read(f"{AGENT}/chat").rpartition("it said: ")[2].rstrip("\n")


def test_what_is_asked_is_shown_and_approved(server: House) -> None:
    """The exact command with who asks and where; once approved it runs, and nothing waits any more."""
    assert server.ok("o", "approvals") == ""
    id_ = ask(server, f"cat {server.secret}")
    shown = server.ok("o", "approvals")
    agent = server.read(f"{AGENT}/id")[:18]
    assert re.fullmatch(
        rf"{id_}  one/coder \({agent}\) in {server.work}, \d+ s left\n"
        rf"    bypass \(\) {{ cat {server.secret}; }}; bypass\n",
        shown,
    )
    assert "  held to what they are now:\n" in (verbose := server.ok("o", "approvals", "-v"))
    assert f"\n    {server.secret}\n" in verbose
    assert "    OLLIE_AGENT_ID=" in server.ok("o", "approvals", "-v")
    assert b"activity=waiting for approval\n" in server.read(f"{AGENT}/stats").encode()
    assert server.read("bypass/list") == server.read("session/one/toolsrv/bypass/list")
    server.ok("o", "approve", id_)
    assert said(server) == "for the user\n[not sandboxed: this run was approved]"
    assert server.ok("o", "approvals") == ""
    assert server.fails("o", "approve", id_) == f"o: request {id_} was approved already"
    assert server.fails("o", "approve", "none") == "o: no such request: none"


def test_what_is_rejected_does_not_run(server: House) -> None:
    """The agent is told why."""
    id_ = ask(server, "touch ran")
    server.ok("o", "reject", id_, "not", "today")
    assert said(server) == "not run: refused without the sandbox: not today"
    assert not (server.work / "ran").exists()


def test_what_decides_is_shown(server: House) -> None:
    """A variable that is not as the server has it, and files of the agent, are there without being asked for."""
    (server.config / "sandbox.yaml").write_text("env: [GIT_DIR=/elsewhere]\n")
    id_ = ask(server, "git --version")
    assert server.ok("o", "approvals").endswith(
        "    bypass () { git --version; }; bypass\n  with other variables than yours:\n    GIT_DIR=/elsewhere\n"
    )
    assert json.loads(server.read("bypass/list"))["differs"] == {"GIT_DIR": "/elsewhere"}
    server.ok("o", "reject", id_)
    said(server)
    (server.config / "sandbox.yaml").unlink()
    (server.work / "dep.sh").touch()
    id_ = ask(server, "sh ./dep.sh")
    assert server.ok("o", "approvals").endswith(
        f"sh ./dep.sh; }}; bypass\n  with these files of its directory:\n    {server.work}/./dep.sh\n"
    )
    server.ok("o", "reject", id_)
    said(server)


def test_nothing_that_is_shown_steers_the_terminal(server: House) -> None:
    """Control and reordering characters of a command are escaped."""
    id_ = ask(server, "echo \x1b[2J\u202e")
    shown = server.ok("o", "approvals", "-v")
    assert shown.isascii()
    assert r"\x1b[2J\u202e" in shown
    server.ok("o", "reject", id_)
    said(server)


class Terminal:
    """A terminal at which a command runs, which a hang-up ends."""

    def __init__(self, house: House, *command: str) -> None:
        self._controller, terminal = pty.openpty()
        self.running = subprocess.Popen(
            house.inside("setsid", "--ctty", "--wait", *command),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=house.environ,
        )
        os.close(terminal)

    def until(self, words: str) -> None:
        """Read what is shown until it has these words."""
        seen = b""
        while words.encode() not in seen:
            seen += os.read(self._controller, 4096)

    def type(self, text: str) -> None:
        """Type this."""
        os.write(self._controller, text.encode())

    def close(self) -> None:
        """Hang up."""
        os.close(self._controller)
        self.running.wait()


@pytest.fixture
def following(server: House) -> Iterator[Terminal]:
    """`o approvals --follow` at a terminal."""
    terminal = Terminal(server, "o", "approvals", "--follow")
    yield terminal
    terminal.close()


def test_following_asks_at_the_terminal(server: House, following: Terminal) -> None:
    """Yes lets it run, anything else refuses it, and words are the reason; without a terminal it says what to do."""
    assert "use o approve ID" in server.fails("o", "approvals", "--follow")
    for answer, result in (("y", "yes y\n[not sandboxed"), ("", "not run: refused"), ("no way", "sandbox: no way")):
        server.write(f"{AGENT}/prompt", f"bypass () {{ echo yes {answer}; }}; bypass")
        following.until("or why not] ")
        following.type(f"{answer}\n")
        assert result in said(server)
    server.write(f"{AGENT}/prompt", "bypass () { echo at last; }; bypass")
    following.until("or why not] ")
    following.type("\x04")
    assert following.running.wait() == 0
    server.ok("o", "reject", json.loads(server.read("bypass/pending"))["id"])
    said(server)


def test_following_goes_on_after_an_answer_that_comes_too_late(server: House, following: Terminal) -> None:
    """It is told what became of the request, and the next one is asked about."""
    id_ = ask(server, "echo elsewhere")
    following.until("or why not] ")
    server.ok("o", "reject", id_, "answered elsewhere")
    assert said(server).endswith(": answered elsewhere")
    following.type("y\n")
    following.until(f"o: request {id_} was rejected already")
    ask(server, "echo next")
    following.until("or why not] ")
    following.type("y\n")
    assert said(server).startswith("next\n")


def test_what_was_typed_before_answers_nothing(server: House, following: Terminal) -> None:
    """A second line after the answer to one question lets nothing run that was not shown yet."""
    ask(server, "echo first")
    following.until("or why not] ")
    following.type("y\ny\n")
    assert said(server).startswith("first\n")
    ask(server, "echo second")
    following.until("or why not] ")
    following.type("no way\n")
    assert said(server).endswith(": no way")


@pytest.mark.parametrize(
    ("where", "why"), [(">&-", "standard output is closed"), (">/dev/full", "standard output: no space left on device")]
)
def test_more_than_can_be_printed(server: House, where: str, why: str) -> None:
    """What does not fit into a buffer either is told in a line."""
    id_ = ask(server, f": '{where}' {'x' * 100_000}")
    for command in ("o approvals", "o approvals -v"):
        given = server.run("sh", "-c", f"{command} {where}")
        assert (given.returncode, given.stderr) == (1, f"o: {why}\n")
    server.ok("o", "reject", id_, "too long")
    said(server)


NOTHING_FOR_AGENTS = [
    "ollie-9p read bypass/list",
    "ollie-9p read bypass/pending",
    'echo \'{"id":"x","approved":true}\' | ollie-9p write bypass/resolve',
    "ollie-9p read session/one/toolsrv/bypass/list",
    "ollie-9p read session/one/toolsrv/bypass/pending",
    'echo \'{"id":"x","approved":true}\' | ollie-9p write session/one/toolsrv/bypass/resolve',
    "ollie-9p read session/one/toolsrv/proc/done",
    "echo load x shell | ollie-9p write session/one/toolsrv/ctl",
    "o approvals",
    "o approve x",
    "printf 'tool=shell\\ncmd=true\\ncwd=/\\n' | ollie-9p rdwr session/one/toolsrv/proc/new",
    "ollie-9p rdwr session/one/toolsrv/tools </dev/null; echo other | ollie-9p rdwr session/one/toolsrv/tools",
]


@pytest.mark.parametrize("command", NOTHING_FOR_AGENTS)
def test_an_agents_own_tools_reach_none_of_it(server: House, command: str) -> None:
    """Neither what is asked of the owner nor another's tools."""
    server.write(f"{AGENT}/prompt", RUN.format(command))
    assert "permission denied" in said(server)


def test_a_tool_server_is_seen_through_the_session(server: House) -> None:
    """Its tree is there while one runs; looking starts none; the owner runs a tool for an agent of the session."""
    server.write("session/new", "name=empty")
    assert server.ok("ollie-9p", "ls", "session/empty/toolsrv") == ""
    server.write(f"{AGENT}/prompt", RUN.format("true"))
    said(server)
    assert "platform=linux" in server.read("session/one/toolsrv/info")
    payload = "tool=shell\nagent=coder\nsession=forged\ntoken=forged\ncmd=pwd; echo $OLLIE_SESSION_ID\n"
    answer = json.loads(server.ok("ollie-9p", "rdwr", "session/one/toolsrv/proc/new", stdin=payload))
    assert answer["content"][0]["text"] == f"{server.work}\n{server.read('session/one/id')}"
    for wrong, error in (("tool=shell\ncmd=true\n", "names no agent"), ("agent=x\n", "no such agent: x")):
        assert error in server.run("ollie-9p", "rdwr", "session/one/toolsrv/proc/new", stdin=wrong).stderr
    assert server.ok("ollie-9p", "ls", "session/empty/toolsrv") == ""


# Reads a file again and again, and closes none.
READER = """
import sys
from ninep.blocking import Connection
from ninep.errors import NinepError
from ollie.protocol import broker

files = []
with Connection(broker.connection(), uname="me") as server:
    try:
        while True:
            files.append(server.open(sys.argv[1], 0))
            files[-1].read()
    except NinepError as error:
        print(len(files), error)
"""


def test_an_agent_has_so_many_files_of_its_tool_server_open(server: House) -> None:
    """Each is a connection of ours to it; the owner's are not counted."""
    (server.work / "reader.py").write_text(READER)
    server.write(f"{AGENT}/prompt", "background () { echo begun; }; background")
    server.read(f"{AGENT}/wait")
    pid = re.findall(r"as process (\d+);", server.read(f"{AGENT}/chat"))[-1]
    out = f"session/one/toolsrv/proc/{pid}/out"
    server.write(f"{AGENT}/prompt", RUN.format(f"{sys.executable} reader.py {out}"))
    assert "65 an agent may have at most 64 files of its tool server open (max_connections" in said(server)
    assert server.read(out) == "begun\n"
    server.ok("ollie-9p", "rdwr", f"{AGENT}/ctl", stdin=f"proc dismiss {pid}")


def test_processes_of_an_agent(server: House) -> None:
    """They are in its directory and in its `ctl`; an agent's tool finds its own in the tool server's tree."""
    pids = []
    for agent in ("coder", "other"):
        server.write(f"session/one/agent/{agent}/prompt", "background () { echo begun; exec sleep 1000; }; background")
        server.read(f"session/one/agent/{agent}/wait")
        pids.append(re.findall(r"as process (\d+);", server.read(f"session/one/agent/{agent}/chat"))[-1])
    mine, theirs = pids
    assert server.read(f"{AGENT}/proc/top") == (
        f"PID  TOOL   CMD\n{mine:<3}  shell  background () {{ echo begun; exec sleep 1000; }}; background\n"
    )
    assert sorted(server.ok("ollie-9p", "ls", f"{AGENT}/proc").split()) == sorted([mine, "top"])
    assert {mine, theirs} <= set(server.ok("ollie-9p", "ls", "session/one/toolsrv/proc").split())
    assert f"pid={mine}\nstate=running\n" in server.read(f"{AGENT}/proc/{mine}/stat")

    def ctl(command: str) -> str:
        return server.ok("ollie-9p", "rdwr", f"{AGENT}/ctl", stdin=command)

    assert ctl("proc") == f"{mine}\trunning\tshell\n"
    assert ctl("proc top") == server.read(f"{AGENT}/proc/top")
    assert ctl(f"proc out {mine}") == "begun\n"
    for command, error in ((f"proc kill {theirs}", "no such process"), ("proc kill", "PID"), ("proc x", "unknown")):
        assert error in server.run("ollie-9p", "rdwr", f"{AGENT}/ctl", stdin=command).stderr
    server.write(f"{AGENT}/prompt", RUN.format("ollie-9p ls session/one/toolsrv/proc"))
    listed = said(server).split()
    assert mine in listed
    assert theirs not in listed
    waiting = server.begin("ollie-9p", "read", f"{AGENT}/proc/{mine}/out", f"{AGENT}/proc/{mine}/wait")
    assert ctl(f"proc kill {mine}") == "killed\n"
    assert waiting.communicate()[0] == "begun\n137\n"
    assert ctl(f"proc dismiss {mine}") == "dismissed\n"
    server.write(f"session/one/agent/other/proc/{theirs}/ctl", "kill")
    assert server.read(f"session/one/agent/other/proc/{theirs}/wait") == "137\n"
    for agent, pid in (("coder", mine), ("other", theirs)):
        server.read(f"session/one/agent/{agent}/wait")
        told = server.read(f"session/one/agent/{agent}/chat")
        assert told.count(f'<system-proc-complete id="{pid}"') == 2  # as the prompt, and repeated by the model
