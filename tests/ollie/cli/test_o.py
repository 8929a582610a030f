"""`o`, typed as a user types it."""

import os
import pty
import re
import signal
import subprocess

import pytest
from house import House

SCRIPT = """
turns:
  - prompt: fail
    replies: [{text: partly, error: {kind: bad_request, message: the model refuses, after: 1}}]
  - prompt: look around
    replies:
      - text: I look.
        calls: [{name: shell, arguments: {cmd: pwd}}]
      - text: "It is {result}"
  - prompt: stumble
    replies: &stumbling
      - text: I look.
        calls: [{name: shell, arguments: {cmd: pwd}}]
      - {text: [the who, le answer], error: {kind: stream_cut, message: it broke off, after: 1, times: 1}}
  - {prompt: stumble again, replies: *stumbling}
  - match: sleep
    replies:
      - text: waiting
        calls: [{name: shell, arguments: {cmd: "{prompt}"}}]
      - text: done
  - replies: [{text: "you said {prompt}"}]
"""


@pytest.fixture(autouse=True)
def replay(house: House) -> None:
    """Agents that need no model."""
    house.replay(SCRIPT)


def test_ask_starts_the_server(house: House) -> None:
    """The first question starts the server and says so on standard error; only the reply is on standard output."""
    first = house.run("o", "ask", "hello")
    assert (first.returncode, first.stdout) == (0, "you said hello\n")
    assert re.fullmatch(r"o: started olliesrv \(pid \d+\); end it with: olliesrv stop\n", first.stderr)
    assert house.ok("o", "ask", "hello", "again") == "you said hello again\n"


def test_ask_works_in_the_current_directory(house: House) -> None:
    """Each directory has a session, made once and named after it, and the agent is gone afterwards."""
    house.ok("olliesrv", "start")
    assert house.ok("o", "ask", "look around") == f"I look.\n\nIt is {house.work}\n"
    project = house.work / "My project!"
    project.mkdir()
    ask = f"cd '{project}'; o ask look around"
    assert house.sh(ask) == house.sh(ask) == f"I look.\n\nIt is {project}\n"
    assert house.sh("mkdir -p other/project; cd other/project; o ask look around").endswith("/other/project\n")
    names = [line.split("\t")[1] for line in house.read("session/idx").splitlines()]
    assert names == ["project", "My-project-", "project-2"]
    assert house.read("session/project/agent/idx") == ""


def test_standard_input_is_added(house: House) -> None:
    """What is piped in follows the question; it may also be all there is."""
    house.ok("olliesrv", "start")
    assert house.ok("o", "ask", "why?", stdin="error: 42\n") == "you said why?\n\nerror: 42\n"
    assert house.ok("o", "ask", stdin="only this") == "you said only this\n"
    assert house.fails("o", "ask") == 'o: nothing to ask; use: o ask "what is in this directory?"'


def test_a_terminal_is_not_waited_for(house: House) -> None:
    """With a terminal as standard input nothing is read from it."""
    house.ok("olliesrv", "start")
    controller, terminal = pty.openpty()
    try:
        done = subprocess.run(
            house.inside("o", "ask", "hello"), stdin=terminal, env=house.environ, capture_output=True, check=True
        )
    finally:
        os.close(controller)
        os.close(terminal)
    assert done.stdout == b"you said hello\n"


def test_a_turn_that_fails(house: House) -> None:
    """What was said is printed, why it failed is one line, and the status is 1."""
    house.ok("olliesrv", "start")
    done = house.run("o", "ask", "fail")
    assert (done.returncode, done.stdout) == (1, "partly\n")
    assert done.stderr.startswith("o: ")
    assert "the model refuses" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_interrupt_stops_the_turn(house: House) -> None:
    """Ctrl-C ends the command and what it started: when it returns no tool runs, also where ending it took time."""
    house.ok("olliesrv", "start")
    asking = house.begin("sh", "-c", "echo $$ >pid; exec o ask \"trap '' TERM; touch waiting; sleep 1000\" </dev/null")
    assert asking.stdout is not None
    assert asking.stdout.read(7) == "waiting"
    house.sh("until [ -e waiting ]; do :; done")
    house.sh(f"kill -{signal.SIGINT.value} $(cat pid)")
    assert asking.communicate() == ("", "")
    assert asking.returncode == 130
    assert house.sh("grep -lsx sleep /proc/[0-9]*/comm || true") == ""
    assert house.read("session/project/agent/idx") == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_killed_command_leaves_nothing(house: House, number: signal.Signals) -> None:
    """However `o ask` is ended, its agent goes, and what that had started."""
    house.ok("olliesrv", "start")
    asking = house.begin("sh", "-c", "echo $$ >pid; exec o ask 'touch waiting; sleep 1000' </dev/null")
    house.sh("until [ -e waiting ]; do :; done")
    house.sh(f"kill -{number.value} $(cat pid)")
    assert asking.wait() != 0
    asking.communicate()
    house.sh("while grep -qsx sleep /proc/[0-9]*/comm; do :; done")
    house.sh('until [ -z "$(ollie-9p read session/project/agent/idx)" ]; do :; done')


def test_a_reply_that_was_cut(house: House) -> None:
    """A pipe gets the reply once, though its request was made twice; a terminal is told that it begins again."""
    house.ok("olliesrv", "start")
    assert house.ok("o", "ask", "stumble") == "I look.\n\nthe whole answer\n"
    controller, terminal = pty.openpty()
    try:
        subprocess.run(house.inside("o", "ask", "stumble again"), stdout=terminal, env=house.environ, check=True)
        shown = os.read(controller, 4096)
    finally:
        os.close(controller)
        os.close(terminal)
    assert shown.decode().replace("\r", "") == (
        "I look.\n\nthe who\n[that was cut, and begins again]\n\nthe whole answer\n"
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("o ask hi >&-", "standard output is closed"),
        ("o ask hi >/dev/full", "standard output: no space left on device"),
        ("o ls >/dev/full", "standard output: no space left on device"),
        ("o ls >&-", "standard output is closed"),
        ("o -h >&-", "standard output is closed"),
        ("o -h >/dev/full", "standard output: no space left on device"),
        ("o ask <&-", 'nothing to ask; use: o ask "what is in this directory?"'),
        (
            "mkdir gone; cd gone; rmdir ../gone; o ask hi",
            "the current directory cannot be used: no such file or directory; cd to another one",
        ),
    ],
)
def test_nowhere_to_go(house: House, script: str, said: str) -> None:
    """Output that cannot be written and a directory that is gone are one line each."""
    house.ok("olliesrv", "start")
    assert house.fails("bash", "-c", script) == f"o: {said}"


def test_home_is_left_alone(house: House) -> None:
    """Where Ollie keeps its own files the agent works elsewhere, and one line says so."""
    house.ok("olliesrv", "start")
    done = house.run("bash", "-c", f"cd {house.home}; o ask look around")
    assert done.returncode == 0
    where = done.stdout.rpartition("It is ")[2].strip()
    assert "ollie-work." in where
    assert done.stderr == (
        f"o: {house.home} holds Ollie's own files, so the agent works in a scratch directory; "
        "cd to a project to work there\n"
    )
    assert house.run("bash", "-c", f"cd {house.home}; o ask look around").stdout == done.stdout


def test_a_server_that_does_not_start(house: House) -> None:
    """Why the server does not start is the one line that is said."""
    assert "unknown backend: nonesuch" in house.fails("o", "ask", "x", OLLIE_BACKEND="nonesuch")


def test_ls_and_kill(house: House) -> None:
    """`o ls` shows sessions and agents with their states, `o kill` removes them by any of their names."""
    assert "no server answers" in house.fails("o", "ls")
    house.ok("olliesrv", "start")
    for record in ("name=one", "name=two"):
        house.write("session/new", record)
    for session, agent in (("one", "a"), ("one", "b"), ("two", "b"), ("two", "c")):
        house.write(f"session/{session}/agent/new", f"name={agent} cwd={house.work}")
    house.write("session/two/ctl", "pause")
    assert house.ok("o", "ls").splitlines() == [
        "NAME   STATE   DIRECTORY",
        "one",
        f"one/a  idle    {house.work}",
        f"one/b  idle    {house.work}",
        "two    paused",
        f"two/b  paused  {house.work}",
        f"two/c  paused  {house.work}",
    ]
    assert house.fails("o", "kill", "b") == "o: b is the name of several agents: one/b two/b"
    assert house.fails("o", "kill", "z") == "o: no session or agent: z; o ls shows them"
    assert house.fails("o", "kill", "one/z") == "o: file does not exist"
    house.ok("o", "kill", "one/b", "c")
    house.ok("o", "kill", "one")
    assert house.ok("o", "ls").splitlines()[1:] == ["two    paused", f"two/b  paused  {house.work}"]


def test_other_servers(house: House) -> None:
    """`-a` and `OLLIE_ADDRESS` choose the server, and which one is started."""
    address = f"unix!{house.path}/other/ollie"
    assert house.run("o", "-a", address, "ask", "hello").stdout == "you said hello\n"
    assert house.ok("o", "ask", "hello", OLLIE_ADDRESS=address) == "you said hello\n"
    assert house.run("olliesrv", "status").returncode == 3
    assert "no server answers" in house.fails("o", "-a", "tcp!127.0.0.1!1", "ask", "hello")


def test_nobody_reads_the_reply(house: House) -> None:
    """`o ask … | head` ends quietly when head does."""
    house.ok("olliesrv", "start")
    assert house.sh("o ask hello | true") == ""
