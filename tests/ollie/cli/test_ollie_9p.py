"""`ollie-9p` as a process, against a real server in a thread."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ninep.errors import NinepError
from ninep.files import Control, Dir, Level, Peer, Request, Sink, Text
from ollie.cli import ollie_9p
from threaded import Threaded

_ODD = "a\nb\x1b]0;evil\x07\u202e"
_COMMAND = [sys.executable, "-m", "ollie.cli.ollie_9p"]


class Served(Threaded):
    """A server of a small tree."""

    def __init__(self, address: str, secret: bytes = b"") -> None:
        self.taken: list[bytes] = []
        self.reached = threading.Event()
        self.cancelled = threading.Event()
        self.slow = asyncio.Event()
        super().__init__(address, secret)

    def go_on(self) -> None:
        """Let `slow` say its second word."""
        self.soon(self.slow.set)

    def entries(self) -> tuple[Any, ...]:  # noqa: C901  a callback for each file
        """Files of every kind that a command meets."""

        async def echo(_obj: object, _peer: Peer, data: bytes) -> AsyncIterator[bytes]:
            yield b"you said: "
            yield data

        async def slow(_obj: object, _peer: Peer, _data: bytes) -> AsyncIterator[bytes]:
            yield b"first\n"
            await self.slow.wait()
            yield b"second\n"

        async def bare(_obj: object, _peer: Peer, data: bytes) -> None:
            self.taken.append(data)

        async def take(_obj: object, _peer: Peer, data: bytes) -> None:
            if b"bad" in data or not data:
                raise NinepError("bad words" if data else "no words")
            self.taken.append(data)

        async def command(_obj: object, _peer: Peer, text: str) -> str:
            if text != "ping":
                raise NinepError(f"unknown command: {text}")
            return "pong\n"

        async def hang(_obj: object, _peer: Peer) -> bytes:
            self.reached.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return b""

        def arrived(_obj: object, _peer: Peer, _data: bytes, _size: int) -> None:
            self.reached.set()

        return (
            Text("hello", 0o440, "A greeting.", render=lambda _obj, _peer: b"hello\n"),
            Text("big", 0o440, "Many lines.", render=lambda _obj, _peer: b"0123456789\n" * 100_000),
            Request("echo", 0o660, "Says it again.", run=echo, bare=bare),
            Request("slow", 0o660, "Takes its time.", run=slow, bare=bare),
            Sink("inbox", 0o220, "Takes messages.", take=take, check=arrived),
            Control("ctl", 0o660, "Commands.", command=command, text=lambda _obj, _peer: b"ping\n"),
            Level("hang", 0o440, "Never.", wait=hang),
            Dir("odd", "A name for a terminal.", (Text(_ODD, 0o444, "Odd.", render=lambda _obj, _peer: b""),)),
            Dir("dir", "A directory.", (Text("x y", 0o444, "Odd.", render=lambda _obj, _peer: b"odd\n"),)),
        )


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment of its own, in which the default socket is in `tmp_path/ns`."""
    (tmp_path / "ns").mkdir(mode=0o700)
    kept = {name: os.environ[name] for name in ("PATH", "COVERAGE_PROCESS_START") if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "NAMESPACE": f"{tmp_path}/ns", "USER": "glenda", "TZ": "UTC"}


@pytest.fixture
def served(tmp_path: Path, environ: dict[str, str]) -> Iterator[Served]:
    served = Served(f"unix!{environ['NAMESPACE']}/ollie")
    yield served
    served.close()


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(environ: dict[str, str]) -> Run:
    """Runs `ollie-9p` with some words and some input."""

    def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*_COMMAND, *words], input=given, capture_output=True, text=True, env=environ, check=False
        )

    return run


@pytest.mark.parametrize(
    ("words", "given", "out"),
    [
        (["read", "hello"], "", "hello\n"),
        (["read", "/hello", "dir/x y"], "", "hello\nodd\n"),
        (["read", "./hello", "dir/./x y"], "", "hello\nodd\n"),
        (["ls", "."], "", "big\nctl\ndir\necho\nhang\nhello\ninbox\nodd\nslow\n"),
        (["read", "big"], "", "0123456789\n" * 100_000),
        (["read", "ctl"], "", "ping\n"),
        (["ls"], "", "big\nctl\ndir\necho\nhang\nhello\ninbox\nodd\nslow\n"),
        (["ls", "dir/"], "", "x y\n"),
        (["ls", "hello"], "", "hello\n"),
        (["rdwr", "echo"], "some words", "you said: some words"),
        (["rdwr", "echo"], "x" * 200_000, "you said: " + "x" * 200_000),
        (["rdwr", "ctl"], "ping\n", "pong\n"),
        (["rdwr", "ctl"], "", "ping\n"),
        (["write", "inbox"], "a message", ""),
        (["write", "echo"], "name=myproj\n", ""),
        (["write", "ctl"], "ping\n", ""),
        (["--", "read", "hello"], "", "hello\n"),
        (["-v", "read", "hello"], "", "hello\n"),
    ],
)
def test_commands(words: list[str], given: str, out: str, served: Served, run: Run) -> None:
    """Each command does what it says, prints nothing else, and succeeds."""
    done = run(*words, given=given)
    assert (done.returncode, done.stdout) == (0, out)
    assert bool(done.stderr) == ("-v" in words)
    served.until_idle()
    assert served.taken == ([given.encode()] if words[:1] == ["write"] and words[1] != "ctl" else [])


def test_long_listing(served: Served, run: Run) -> None:
    """A long listing has kind and permissions, owner, group, length, time and name."""
    lines = run("ls", "-l", "dir", "inbox", "/").stdout.splitlines()
    assert lines[0].startswith("-r--r--r-- ")
    assert lines[0].endswith(" x y")
    assert lines[1].split()[0] == "--w--w----"
    assert lines[1].split()[2] == "agent"
    assert any(line.startswith("dr-xr-x---") and line.endswith(" dir") for line in lines[2:])


def test_stat(served: Served, run: Run) -> None:
    """Everything known about a file, a line each."""
    values = dict(line.split("=", 1) for line in run("stat", "hello").stdout.splitlines())
    assert list(values) == ["name", "mode", "uid", "gid", "muid", "length", "atime", "mtime", "qid"]
    assert (values["name"], values["mode"], values["gid"], values["length"]) == ("hello", "-r--r-----", "agent", "0")


def test_who_attaches(served: Served, run: Run) -> None:
    """The user's name is given, or the one that is asked for, and the tree that is asked for."""
    run("read", "hello")
    run("-u", "bob", "-A", "tree", "read", "hello")
    assert served.attached == [("glenda", ""), ("bob", "tree")]


def test_trace(served: Served, run: Run) -> None:
    """With -v every message is a line on standard error."""
    lines = run("-v", "read", "hello").stderr.splitlines()
    assert "Tversion" in lines[0]
    assert "Rversion" in lines[1]
    assert "Rclunk" in lines[-1]


@pytest.mark.parametrize(
    ("words", "given", "err"),
    [
        (
            ["read", "session/x"],
            "",
            "ollie-9p: session/x: file does not exist\n  to see what there is: ollie-9p ls session\n",
        ),
        (["read", "nowhere"], "", "ollie-9p: nowhere: file does not exist\n  to see what there is: ollie-9p ls\n"),
        (["write", "inbox"], "bad", "ollie-9p: inbox: bad words\n"),
        (["write", "ctl"], "pong", "ollie-9p: ctl: unknown command: pong\n"),
        (["rdwr", "ctl"], "pong", "ollie-9p: ctl: unknown command: pong\n"),
        (["write", "inbox"], "", "ollie-9p: inbox: no words\n"),
        (["read", "dir/"], "", "ollie-9p: dir/: is a directory (list it with: ollie-9p ls dir/)\n"),
        (["read", "x" * 70_000], "", f"ollie-9p: {'x' * 255}...: file name too long\n"),
        (["ls", f"{'x' * 60_000}/{'y' * 60_000}"], "", f"ollie-9p: {'x' * 255}...: file name too long\n"),
        (["read", ""], "", "ollie-9p: /: is a directory (list it with: ollie-9p ls /)\n"),
        (["-A", "x" * 70_000, "ls"], "", "ollie-9p: uname or aname is too long\n"),
        (["-u", "x" * 40_000, "-A", "x" * 40_000, "ls"], "", "ollie-9p: uname or aname is too long\n"),
        (["-u", "x" * 70_000, "ls"], "", "ollie-9p: uname or aname is too long\n"),
        (["read", "\x1b[2J"], "", "ollie-9p: ?[2J: file does not exist\n"),
        (["read", "inbox"], "", "ollie-9p: inbox: permission denied\n"),
        (["write", "hello"], "x", "ollie-9p: hello: permission denied\n"),
        (
            ["-a", "nowhere", "ls"],
            "",
            "ollie-9p: not an address: 'nowhere'; use unix!/path, tcp!host!port or tcp!host:",
        ),
        (["-a", "unix!/nowhere/s", "ls"], "", "ollie-9p: no server at unix!/nowhere/s: no such file or directory\n"),
    ],
)
def test_errors(words: list[str], given: str, err: str, served: Served, run: Run) -> None:
    """What went wrong, with which file, and what to do; nothing on standard output; status 1."""
    done = run(*words, given=given)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(err)


def test_one_of_several_fails(served: Served, run: Run) -> None:
    """The others are still read, and the status tells."""
    done = run("read", "hello", "nowhere", "dir/x y")
    assert (done.returncode, done.stdout) == (1, "hello\nodd\n")
    assert done.stderr.count("ollie-9p: nowhere: file does not exist") == 1


def test_no_server(run: Run, environ: dict[str, str]) -> None:
    """Without a server it says how to start one."""
    done = run("ls")
    assert done.returncode == 1
    assert done.stderr == (
        f"ollie-9p: no server at unix!{environ['NAMESPACE']}/ollie: no such file or directory\n"
        "  start the server with: olliesrv start\n"
    )


@pytest.mark.parametrize(
    ("words", "err"),
    [
        ([], "ollie-9p: no command given"),
        (["cat", "x"], "ollie-9p: unknown command: cat (known: ls read write rdwr stat mount umount)"),
        (["read"], "ollie-9p: read: no path given"),
        (["write", "a", "b"], "ollie-9p: write takes one path"),
        (["read", "-l", "a"], "ollie-9p: unknown option of read: -l"),
        (["-x", "ls"], "ollie-9p: unknown option: -x"),
        (["ls", "-a"], "ollie-9p: -a wants a value"),
    ],
)
def test_wrong_usage(words: list[str], err: str, run: Run) -> None:
    """A wrong command line is told as such, with the way to help; status 2."""
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{err}\n  for help: ollie-9p -h\n"


@pytest.mark.parametrize("words", [["-h"], ["--help"], ["read", "-h"]])
def test_help(words: list[str], run: Run) -> None:
    """Help goes to standard output, and needs no server."""
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, ollie_9p.HELP, "")


def test_the_environment_names_the_server(tmp_path: Path, environ: dict[str, str]) -> None:
    """OLLIE_ADDRESS is taken before the default socket, and -a before that."""
    served = Served("tcp!127.0.0.1!0")
    try:
        environ["OLLIE_ADDRESS"] = served.address
        done = subprocess.run([*_COMMAND, "read", "hello"], capture_output=True, env=environ, check=True)
        assert done.stdout == b"hello\n"
        environ["OLLIE_ADDRESS"] = f"unix!{tmp_path}/none"
        done = subprocess.run([*_COMMAND, "ls"], capture_output=True, env=environ, check=False)
        assert done.stderr.endswith(b"name the server's address with -a\n")
        words = ["-a", served.address.replace("!", ":").replace("tcp:", "tcp!"), "read", "hello"]
        done = subprocess.run([*_COMMAND, *words], capture_output=True, env=environ, check=True)
        assert done.stdout == b"hello\n"
    finally:
        served.close()


def test_secret(tmp_path: Path, environ: dict[str, str], run: Run) -> None:
    """A server that asks for a secret gets the one in the file, and a missing or wrong one is told."""
    served = Served(f"unix!{environ['NAMESPACE']}/ollie", b"open sesame")
    secret = tmp_path / ".config/ollie/secret"
    try:
        done = run("read", "hello")
        assert done.returncode == 1
        assert done.stderr == (
            f"ollie-9p: the server asks for a secret, and {secret} cannot be read: no such file or directory; "
            "copy the server's file there, or name it in OLLIE_SECRET_FILE\n"
        )
        secret.parent.mkdir(parents=True)
        secret.write_text("open sesame\n")
        assert run("read", "hello").stdout == "hello\n"
        assert "sesame" not in run("-v", "read", "hello").stderr
        environ["OLLIE_SECRET_FILE"] = str(tmp_path / "other")
        (tmp_path / "other").write_text("mellon")
        assert run("read", "hello").stderr == "ollie-9p: wrong secret\n"
        (tmp_path / "other").write_text("\n")
        assert "other is empty; copy the server's file there" in run("read", "hello").stderr
    finally:
        served.close()


def _start(environ: dict[str, str], *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*_COMMAND, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
    )


def test_data_is_printed_as_it_arrives(served: Served, environ: dict[str, str]) -> None:
    """The first word is there before the second one is said."""
    with _start(environ, "rdwr", "slow") as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"go")
        process.stdin.close()
        assert process.stdout.readline() == b"first\n"
        served.go_on()
        assert process.stdout.read() == b"second\n"
    assert process.returncode == 0


def test_input_is_sent_as_it_arrives(served: Served, environ: dict[str, str]) -> None:
    """What was written is at the server while more may come, and is one message in the end."""
    with _start(environ, "write", "inbox") as process:
        assert process.stdin
        process.stdin.write(b"one ")
        process.stdin.flush()
        assert served.reached.wait(30)
        assert served.taken == []
        process.stdin.write(b"two")
        process.stdin.close()
    assert process.returncode == 0
    assert served.taken == [b"one two"]


def test_interrupted_read(served: Served, environ: dict[str, str]) -> None:
    """Ctrl-C ends a blocked read on both sides, quietly, as a death by the signal that a shell's loop sees."""
    with _start(environ, "read", "hang") as process:
        assert served.reached.wait(30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (-signal.SIGINT, b"", b"")
    assert served.cancelled.wait(30)
    served.until_idle()


def test_interrupted_write(served: Served, environ: dict[str, str]) -> None:
    """Ctrl-C before the end of the input: nothing is taken."""
    with _start(environ, "write", "inbox") as process:
        assert process.stdin
        process.stdin.write(b"half")
        process.stdin.flush()
        assert served.reached.wait(30)
        process.send_signal(signal.SIGINT)
        process.wait()
    assert process.returncode == -signal.SIGINT
    served.until_idle()
    assert served.taken == []


def test_nobody_reads(served: Served, environ: dict[str, str]) -> None:
    """A reader that has gone, as `head` does, ends the command quietly."""
    with _start(environ, "read", "big") as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b"0123456789\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
    served.until_idle()


def test_full_disk(served: Served, environ: dict[str, str]) -> None:
    """Output that cannot be written is an error."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*_COMMAND, "read", "hello"], stdout=full, stderr=subprocess.PIPE, env=environ, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"ollie-9p: standard output: no space left on device\n"


def _redirected(environ: dict[str, str], line: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run `ollie-9p` with words and redirections, as a shell reads them."""
    return subprocess.run(
        ["bash", "-c", f'exec "$@" {line}', "bash", *_COMMAND],
        input=given,
        capture_output=True,
        text=True,
        env=environ,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("line", "status", "out", "err"),
    [
        ("rdwr ctl <&-", 0, "ping\n", ""),
        ("write inbox <&-", 1, "", "inbox: no words"),
        ("read hello >&-", 1, "", "standard output is closed"),
        ("read hello <&- >&-", 1, "", "standard output is closed"),
        ("rdwr ctl >&- <<< pong", 1, "", "standard output is closed"),
        ("ls >&-", 1, "", "standard output is closed"),
        ("stat hello >&-", 1, "", "standard output is closed"),
        ("-h >&-", 1, "", "standard output is closed"),
        ("-h >/dev/full", 1, "", "standard output: no space left on device"),
        ("read hello 2>&-", 0, "hello\n", ""),
        ("read nowhere 2>&-", 1, "", ""),
        ("-v read hello 2>&-", 0, "hello\n", ""),
        ("-v read hello 2>/dev/full", 0, "hello\n", ""),
        ("read nowhere 2>/dev/full", 1, "", ""),
    ],
)
@pytest.mark.usefixtures("served")
def test_closed_and_full(line: str, status: int, out: str, err: str, environ: dict[str, str]) -> None:
    """No socket takes a standard descriptor's number: what cannot be printed is told, what cannot be told is not."""
    done = _redirected(environ, line)
    assert (done.returncode, done.stdout) == (status, out)
    assert done.stderr == (f"ollie-9p: {err}\n" if err else "")


def test_write_without_output(served: Served, environ: dict[str, str]) -> None:
    """What prints nothing needs no standard output."""
    done = _redirected(environ, "write inbox >&-", "a message")
    assert (done.returncode, done.stderr, served.taken) == (0, "", [b"a message"])


@pytest.mark.parametrize("words", [["ls", "odd"], ["ls", "-l", "odd"], ["stat", "odd/" + _ODD]])
def test_names_on_a_terminal(words: list[str], served: Served, environ: dict[str, str], run: Run) -> None:
    """A terminal gets `?` for what it would obey, a pipe gets the name."""
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal, os.fdopen(theirs, "wb") as screen:
        subprocess.run([*_COMMAND, *words], stdout=screen, env=environ, check=True)
        shown = terminal.read(4096).decode()
    assert "a?b?]0;evil??\r\n" in shown
    assert "\x1b" not in shown
    assert f"{_ODD}\n" in run(*words).stdout


def test_server_goes(served: Served, environ: dict[str, str]) -> None:
    """A server that ends while it is waited for is told."""
    with _start(environ, "read", "hang") as process:
        assert served.reached.wait(30)
        served.run(served.server.close())
        assert process.communicate()[1] == b"ollie-9p: the server hung up\n"
    assert process.returncode == 1


def test_imports() -> None:
    """Its start is most of its time, so nothing slow is imported."""
    code = "import sys; before = set(sys.modules); import ollie.cli.ollie_9p; print(*sorted(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(out.split())
    slow = {"asyncio", "dataclasses", "argparse", "re", "typing", "yaml", "sqlite3", "msgspec", "socket", "signal"}
    assert not loaded & slow
    assert len(loaded) < 20
