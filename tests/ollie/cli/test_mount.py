"""`ollie-9p mount` and `umount`, on a real server."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from house import House

pytestmark = [
    pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="/dev/fuse is missing"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount in a namespace of its own"),
]

SCRIPT = "turns:\n  - replies: [{text: 'you said {prompt}'}]\n"


@pytest.fixture
def served(house: House) -> House:
    """A server that answers by a script, and a directory `m` to mount on."""
    house.replay(SCRIPT)
    house.ok("olliesrv", "start")
    (house.work / "m").mkdir()
    return house


def test_in_the_background(served: House) -> None:
    """The command returns when the mount can be used, and unmounting ends what runs behind it."""
    assert served.ok("ollie-9p", "mount", "m") == ""
    assert "backends" in served.ok("ls", "m")
    assert served.sh("cd m/session; ls").split() == ["idx", "new"]
    assert served.ok("findmnt", "-no", "SOURCE,FSTYPE", "m").split() == [f"unix!{served.socket}", "fuse.9p"]
    assert served.ok("ollie-9p", "umount", "m/") == ""
    assert served.ok("ls", "m") == ""


def test_nothing_of_the_caller_stays_open(served: House) -> None:
    """A lock that the caller has while it mounts is free when the command has returned."""
    served.sh("(flock 9; ollie-9p mount m) 9>lock; flock --nonblock lock ls m >names")
    assert "backends" in (served.work / "names").read_text()
    assert served.ok("ollie-9p", "umount", "m") == ""


def test_with_the_start_of_the_server(served: House) -> None:
    """`olliesrv start --mount` mounts when the server answers, in a process that is none of the server's."""
    served.ok("olliesrv", "stop")
    pid = served.ok("olliesrv", "start", "--mount", "m").rpartition("(pid ")[2].rstrip(")\n")
    assert "backends" in served.ok("ls", "m")
    assert served.sh(f"cat /proc/{pid}/task/*/children").split() == []
    assert served.ok("ollie-9p", "umount", "m") == ""
    served.ok("olliesrv", "stop")
    done = served.run("olliesrv", "start", "--mount", "nowhere")
    assert done.returncode == 1
    assert done.stdout.startswith("olliesrv is running on ")
    assert done.stderr.startswith("olliesrv: nothing is mounted: ")
    assert done.stderr.count("\n") == 1
    assert served.run("olliesrv", "status").returncode == 0


def test_with_the_start_of_the_next_server(served: House) -> None:
    """The mount of the server before comes back, and no other one is made."""
    served.ok("olliesrv", "stop")
    served.ok("olliesrv", "start", "--mount", "m")
    served.ok("olliesrv", "stop")
    served.ok("olliesrv", "start", "--mount", "m")
    assert "backends" in served.ok("ls", "m")
    assert served.ok("ollie-9p", "umount", "m") == ""
    assert served.run("findmnt", "m").returncode == 1


def test_a_conversation(served: House) -> None:
    """The files of a session, an agent and a turn, by echo and cat."""
    served.ok("ollie-9p", "mount", "m")
    said = served.sh(
        "work=$PWD; cd m; echo name=myproj > session/new; echo name=coding cwd=$work > session/myproj/agent/new;"
        "cd session/myproj/agent/coding; echo 'fix the bug' > prompt; cat wait; cat chat;"
        "echo 'my plan' > plan; echo more >> plan; grep -r my plan; wc -l < plan;"
        "grep -c . ../../../idx; mv ../coding ../other; cat name; cat ../../agent/other/wait"
    )
    assert said == "idle\n> fix the bug\n\nyou said fix the bug\nmy plan\n2\n1\nother\nidle\n"
    served.sh("rmdir m/session/myproj; ls m/session > names; ollie-9p umount m")
    assert "myproj" not in (served.work / "names").read_text()


def test_a_directory_in_the_mount(served: House) -> None:
    """An agent that is to work in the server's own tree is refused, and the server does not wait for itself."""
    served.ok("ollie-9p", "mount", "m")
    served.sh("echo name=myproj > m/session/new")
    done = served.run(
        "bash", "-c", "cd m/session; /bin/echo name=x cwd=$PWD > myproj/agent/new; echo $?; cat ../errors"
    )
    assert done.stdout.startswith("1\n")
    assert f"cwd does not exist: {served.work}/m/session" in done.stdout


def _until_mounted(process: subprocess.Popen[str]) -> list[str]:
    """What a verbose mount says until it can be used."""
    assert process.stderr
    lines = [process.stderr.readline()]
    while not lines[-1].endswith(" is mounted on m\n"):
        lines.append(process.stderr.readline())
        assert lines[-1], lines
    return lines


def test_in_the_foreground(served: House) -> None:
    """Ctrl-C unmounts; messages and errors are shown when they are asked for."""
    process = served.begin("sh", "-c", "echo $$; exec ollie-9p -v mount -f m")
    assert process.stdout
    pid = process.stdout.readline().strip()
    assert any(line.startswith("ollie-9p: -> Tattach ") for line in _until_mounted(process))
    assert served.run("cat", "m/nowhere").returncode == 1
    served.ok("kill", f"-{signal.SIGINT.value}", pid)
    out, err = process.communicate()
    assert (process.returncode, out) == (0, "")
    assert "ollie-9p: lookup /: file does not exist (ENOENT)\n" in err
    assert served.run("findmnt", "m").returncode == 1


def test_server_again(served: House) -> None:
    """The mount comes back with the server, though it was given a path from the working directory."""
    served.ok("ollie-9p", "-a", f"unix!{os.path.relpath(served.socket, served.work)}", "mount", "m")
    served.ok("olliesrv", "stop")
    assert "Transport endpoint is not connected" in served.run("ls", "m").stderr
    served.ok("olliesrv", "start")
    assert "backends" in served.ok("ls", "m")


def test_end_with_the_server(served: House) -> None:
    """Without reconnection the command ends with the server."""
    process = served.begin("ollie-9p", "mount", "-v", "-f", "--no-reconnect", "m")
    _until_mounted(process)
    served.ok("olliesrv", "stop")
    assert process.communicate()[1].endswith("ollie-9p: the server hung up\n")
    assert process.returncode == 1
    assert served.run("findmnt", "m").returncode == 1


def test_in_use(served: House) -> None:
    """A mount that is in use is unmounted only when that is meant."""
    served.ok("ollie-9p", "mount", "m")
    user = served.begin("sh", "-c", "cd m; echo; read _; ls | head -n 1")
    assert user.stdout
    user.stdout.readline()
    assert served.run("ollie-9p", "umount", "m").stderr == (
        f"ollie-9p: cannot unmount {served.work}/m: device or resource busy\n"
        f"  a program has a file or its working directory there; all the same: ollie-9p umount -l {served.work}/m\n"
    )
    assert served.ok("ollie-9p", "umount", "-l", "m") == ""
    assert served.ok("ls", "m") == ""
    assert user.communicate("\n")[0] == "agents\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("mount nowhere", "nowhere: no such file or directory\n  make it: mkdir -p nowhere\n"),
        ("mount file", "file is not a directory\n"),
        ("mount full", "full is not empty\n  mount on an empty directory\n"),
        ("umount m", "{m} is not mounted by ollie-9p\n"),
        ("umount /proc", "/proc is not mounted by ollie-9p\n"),
        ("umount nowhere", "{nowhere} is not mounted by ollie-9p\n"),
        (
            "-a unix!/nowhere/s mount m",
            "no server at unix!/nowhere/s: no such file or directory\n  name the server's address with -a\n",
        ),
        (
            "-a tcp!127.0.0.1!1 mount m",
            "no server at tcp!127.0.0.1!1: connection refused\n  name the server's address with -a\n",
        ),
        (
            "mount m",
            "no server at unix!{socket}: no such file or directory\n  start the server with: olliesrv start\n",
        ),
        ("-a nowhere mount m", "not an address: 'nowhere'; use unix!/path, tcp!host!port or tcp!host:port\n"),
    ],
)
@pytest.mark.parametrize("where", ["", "-f "])
def test_errors(command: str, said: str, where: str, house: House) -> None:
    """What is wrong and what to do, in the background as in the foreground; nothing is mounted."""
    for name in ("m", "full/x"):
        (house.work / name).mkdir(parents=True)
    (house.work / "file").touch()
    if "umount" not in command:
        command = command.replace("mount ", f"mount {where}")
    done = house.run("ollie-9p", *command.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ollie-9p: " + said.format(
        m=house.work / "m", nowhere=house.work / "nowhere", socket=house.socket
    )
    assert str(house.path) not in house.ok("cat", "/proc/mounts")


def test_a_tree_whose_name_is_too_long(served: House) -> None:
    """What no message has room for is one line."""
    done = served.run("ollie-9p", "-A", "x" * 70_000, "mount", "m")
    assert (done.returncode, done.stderr) == (1, "ollie-9p: uname or aname is too long\n")


def test_messages_that_cannot_be_shown(served: House) -> None:
    """A mount works on when nobody can be told of its messages, and without standard descriptors."""
    for redirections in ("2>/dev/full", "<&- >&- 2>&-"):
        served.sh(f"ollie-9p -v mount m {redirections}; ls m > names; ollie-9p umount m")
        assert "backends" in (served.work / "names").read_text()


def test_mounted_already(served: House) -> None:
    """Mounting twice on the same directory is an error, also while its server is away; the mount is left alone."""
    served.ok("ollie-9p", "mount", "m")
    already = "ollie-9p: m is a mount point already\n  unmount it: ollie-9p umount m\n"
    assert served.run("ollie-9p", "mount", "m").stderr == already
    served.ok("olliesrv", "stop")
    assert served.run("ollie-9p", "mount", "m").stderr == already
    served.ok("olliesrv", "start")
    assert "backends" in served.ok("ls", "m")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mount"], "mount: no directory given"),
        (["umount"], "umount: no directory given"),
        (["mount", "a", "b"], "mount takes one directory"),
        (["mount", "-l", "a"], "unknown option of mount: -l"),
        (["umount", "-f", "a"], "unknown option of umount: -f"),
        (["ls", "--no-reconnect"], "unknown option of ls: --no-reconnect"),
    ],
)
def test_wrong_usage(words: list[str], said: str, house: House) -> None:
    """A wrong command line is told as such."""
    done = house.run("ollie-9p", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ollie-9p: {said}\n  for help: ollie-9p -h\n"


@pytest.mark.parametrize("how", [(), ("--yolo",)], ids=["confined", "yolo"])
def test_tools(how: tuple[str, ...], house: House) -> None:
    """A tool gets nothing from its owner's mount, confined or not; what it may see it has from its broker."""
    command = "cat m/backends m/session/new; ollie-9p ls session"
    calls = f"[{{name: shell, arguments: {{cmd: '{command}'}}}}]"
    house.replay(f"turns:\n  - replies: [{{text: look, calls: {calls}}}, {{text: '{{result}}'}}]\n")
    house.run("olliesrv", "start", *how)
    (house.work / "m").mkdir()
    house.ok("ollie-9p", "mount", "m")
    said = house.ok("o", "ask", "look")
    assert "cat: m/backends: Permission denied\ncat: m/session/new: Permission denied\n" in said
    assert "\nidx\n" in said
    assert "replay\n" in house.ok("cat", "m/backends")


def test_conformance(served: House) -> None:
    """The server keeps the rules of the protocol, and its tree through a mount those of files."""
    served.sh("echo name=s | ollie-9p write session/new; echo name=a cwd=$PWD | ollie-9p write session/s/agent/new")
    agent = "session/s/agent/a"
    named = ("--text", f"{agent}/plan", "--blocked", "bypass/pending", "--renamed", agent, "--removed", "session/s")
    suite = (sys.executable, "-m", "ninep.testing", "conformance", "--mount")
    said = served.ok(*suite, *named, f"unix!{served.socket}")
    assert said.count(" passed, 0 failed\n") == 2, said
