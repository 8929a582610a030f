"""A tool server from its start to its end."""

import asyncio
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import NAMESPACE, ToolServer, background, call, load

from ninep.client import Client
from ninep.errors import NinepError
from ninep.files import Role, Text, Tree
from ninep.server import Server
from ninep.tree import Peer
from ollie.toolsrv.lifecycle import idle
from ollie.toolsrv.runs import Keep, Runs

Start = Callable[..., ToolServer]


async def test_the_first_client_sets_the_secret(start: Start) -> None:
    """Started without one, whoever comes first decides, and others need the same."""
    toolsrv = start(secret=b"")
    first = await Client.connect(toolsrv.address, uname="x", aname="", secret=b"mine")
    with pytest.raises(NinepError, match="wrong secret"):
        await Client.connect(toolsrv.address, uname="x", aname="", secret=b"other")
    await first.close()
    await (await Client.connect(toolsrv.address, uname="x", aname="", secret=b"mine")).close()


async def test_without_authentication_everyone_gets_in(start: Start) -> None:
    """`--no-auth` says so on standard error, answers no Tauth, and takes any token."""
    toolsrv = start("--no-auth", secret=b"")
    assert "--no-auth" in toolsrv.errors
    async with await Client.connect(toolsrv.address, uname="x", aname="") as client:
        await load(client, "a", "sh")
        assert (await call(client, "a", cmd="echo hi", token="any")).text == "hi\n"


async def test_yolo_leaves_the_sandbox_out_and_says_so(start: Start) -> None:
    """What the policy would refuse works, and each result has a line about it."""
    toolsrv = start("--yolo")
    secret = toolsrv.home / "secret"
    secret.write_text("x\n")
    async with await toolsrv.client() as client:
        await load(client, "a", "sh")
        given = await call(client, "a", cmd=f"cat {secret}")
        assert b"yolo=true" in await client.read("info")
    assert given.text == "x\n[not sandboxed: toolsrv runs with --yolo]"
    assert not given.is_error


async def test_a_stale_socket_is_replaced_and_a_live_one_refused(start: Start) -> None:
    """A killed server's socket is no obstacle; a living server keeps its own and goes on."""
    first = start()
    first.signal(9)
    first.ended()
    assert first.socket.exists()
    second = start()
    assert second.listening == f"listening on {second.address}", second.errors
    third = start()
    assert third.listening == "ended 1"
    assert "toolsrv: " in third.errors
    assert str(third.socket) in third.errors
    async with await second.client() as client:
        assert await client.read("info")


def test_a_file_that_is_no_socket_is_left_alone(start: Start, tmp_path: Path) -> None:
    """Nothing but a dead socket is ever removed."""
    (tmp_path / "toolsrv.sock").write_text("precious")
    toolsrv = start()
    assert toolsrv.listening == "ended 1"
    assert (tmp_path / "toolsrv.sock").read_text() == "precious"


async def test_numbers_go_on_after_a_restart(start: Start) -> None:
    """Neither a pid nor a revision is ever used again, after an orderly end or a kill."""
    pids: list[int] = []
    revisions: list[int] = []
    for number in (15, 9, 15):
        toolsrv = start()
        async with await toolsrv.client("a") as client:
            revisions.append(int(await client.read("tools_rev")))
            await load(client, "a", "sh")
            revisions.append(int(await client.read("tools_rev")))
            pids.append(int(await background(client, "a", "true")))
        toolsrv.signal(number)
        toolsrv.ended()
    assert pids == sorted(set(pids))
    assert revisions == sorted(set(revisions))


async def test_what_a_killed_server_left_is_swept_by_the_next(start: Start) -> None:
    """Its directory for temporary files goes, that of the living one stays."""
    first = start()
    first.signal(9)
    first.ended()
    (left,) = (first.home / "tmp").iterdir()
    start()
    (new,) = (first.home / "tmp").iterdir()
    assert new != left


async def test_it_listens_on_several_addresses(start: Start, tmp_path: Path) -> None:
    """Unix sockets are 0600; a port that is not given is chosen and told."""
    second = tmp_path / "second.sock"
    toolsrv = start("--listen", str(second), "--listen", "tcp!127.0.0.1!0")
    lines = [toolsrv.listening, toolsrv._line(), toolsrv._line()]
    assert lines[1] == f"listening on unix!{second}"
    assert second.stat().st_mode & 0o777 == 0o600
    address = lines[2].removeprefix("listening on ")
    async with await Client.connect(address, uname="x", aname="", secret=b"hush") as client:
        assert await client.read("info")


BAD = [
    (["--cwd", "/none/such"], "no such directory"),
    (["--cwd", "~nobody-here/x"], "--cwd ~nobody-here/x: no such user"),
    (["--idle-timeout", "soon"], "not a duration: soon"),
    (["--listen", "nonsense"], "nonsense"),
    (["--listen", "~nobody-here/x"], "--listen ~nobody-here/x: no such user"),
    (["--listen", "/none/such/socket"], "/none/such/socket"),
    (["--secret-fd", "999"], "descriptor 999"),
]


@pytest.mark.parametrize(("options", "error"), BAD)
def test_what_cannot_be_is_one_clear_line(start: Start, options: list[str], error: str) -> None:
    """Nothing is left behind, and the status is not 0."""
    toolsrv = start(*options)
    assert toolsrv.listening in {"ended 1", "ended 2"}
    assert error in toolsrv.errors.splitlines()[-1]
    assert "Traceback" not in toolsrv.errors
    assert not toolsrv.socket.exists()
    assert list((toolsrv.home / "tmp").iterdir()) == []


SERVE = f"{sys.executable} -m ollie.cli.toolsrv serve --cwd . --listen ./socket --no-auth --idle-timeout 0"


def alone(command: str, directory: Path) -> "subprocess.Popen[bytes]":
    """A shell command in a namespace of its own."""
    environ = {"HOME": str(directory), "TMPDIR": str(directory), "PATH": "/usr/bin:/bin"}
    started = [*NAMESPACE, "--kill-child", "bash", "-c", command]
    return subprocess.Popen(started, cwd=directory, env=environ, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    ("stdout", "said"), [(">/dev/full", "no space left on device"), ("| exec <&- true", "broken pipe")]
)
def test_who_starts_it_cannot_be_told(tmp_path: Path, stdout: str, said: str) -> None:
    """It ends with a line that says so."""
    with alone(f"{SERVE} 2>errors {stdout}", tmp_path) as running:
        running.wait()
    errors = (tmp_path / "errors").read_text().splitlines()
    assert errors[-1] == f"toolsrv: cannot say on standard output that it listens: {said}"
    assert not (tmp_path / "socket").exists()


def test_an_interrupt_before_it_has_begun(tmp_path: Path) -> None:
    """It ends without a word; here it waits for a secret that does not come."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 1)
    os.write(write, b"x")  # there is room for more when this has been read
    command = [sys.executable, "-m", "ollie.cli.toolsrv", "serve", "--cwd", ".", "--listen", "./socket"]
    with subprocess.Popen(
        [*command, "--secret-fd", str(read)], cwd=tmp_path, pass_fds=[read], stderr=subprocess.PIPE
    ) as starting:
        os.close(read)
        select.select([], [write], [])
        starting.send_signal(signal.SIGINT)
        assert starting.communicate() == (None, b"")
    os.close(write)
    assert starting.returncode == -signal.SIGINT


async def test_it_serves_without_standard_output(tmp_path: Path) -> None:
    """Nobody is told that it listens; it ends as it does with one."""
    (tmp_path / "logs").mkdir(0o700)
    (tmp_path / "logs" / "toolsrv.log").symlink_to("/dev/stderr")
    with alone(f"OLLIE_DATA_PATH=$PWD {SERVE} >&-", tmp_path) as running:
        assert running.stderr is not None
        assert any(b" listening on " in line for line in running.stderr)
        async with await Client.connect(f"unix!{tmp_path}/socket", uname="x", aname="") as client:
            assert await client.read("info")
        assert await asyncio.to_thread(running.wait) == 0


async def test_a_busy_port_is_named(start: Start) -> None:
    """The error holds the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        toolsrv = start("--listen", f"tcp!127.0.0.1!{port}")
        assert toolsrv.listening == "ended 1"
        assert str(port) in toolsrv.errors


async def test_home_is_expanded_in_cwd(start: Start) -> None:
    """`~` is the home directory."""
    toolsrv = start("--cwd", "~")
    async with await toolsrv.client() as client:
        await load(client, "a", "sh")
        assert (await call(client, "a", cmd="pwd")).text == f"{toolsrv.home}/home\n"


async def test_idle_it_ends_when_the_last_client_and_the_last_run_have_gone(start: Start) -> None:
    """A run in the background keeps it alive; afterwards it ends by itself, and well."""
    toolsrv = start("--idle-timeout", "10ms")
    client = await toolsrv.client()
    other = await toolsrv.client()
    await load(client, "a", "sh")
    fifo = toolsrv.work / "fifo"
    os.mkfifo(fifo)
    await background(client, "a", f"cat {fifo}")
    await client.close()
    await other.close()
    with fifo.open("w"):
        assert toolsrv.processes("cat")
    assert await asyncio.to_thread(toolsrv.ended) == 0
    assert not toolsrv.socket.exists()


async def test_idle_it_ends_when_nobody_ever_comes(tmp_path: Path) -> None:
    """The grace before the first connection is its own."""

    async def attach(_conn: object, uname: str, aname: str, _auth: object) -> Peer:
        return Peer(uname, aname, Role.USER)

    table = (Text("x", 0o440, "Nothing.", lambda _obj, _peer: b""),)
    server = Server(Tree(table, None), attach=attach)
    await server.listen(f"unix!{tmp_path}/s")
    await idle(server, Runs(iter(range(9)).__next__, Keep()), timeout_s=1000, grace_s=0.01)
    await server.close()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other users reach; pytest's own are closed to them."""
    path = Path(tempfile.mkdtemp(dir="/tmp"))
    path.chmod(0o755)
    yield path
    path.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tools as another user")
async def test_tools_may_run_as_another_user(start: Start, tmp_path: Path, open_directory: Path) -> None:
    """With `general.user` they do, and the directory for temporary files is theirs."""
    policy = "general: {user: nobody}\nfilesystem: {rox: [/usr, /bin, /lib, /lib64], ro: [/etc], rwx: ['{TMPDIR}']}\n"
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "sandbox.yaml").write_text(policy)
    toolsrv = start(environ={"TMPDIR": str(open_directory)})
    async with await toolsrv.client() as client:
        await load(client, "a", "sh")
        given = await call(client, "a", cwd="/", cmd="id -un; touch $TMPDIR/x; seq 10000")
        assert given.text.startswith("nobody\n1\n2\n")
        assert (await call(client, "a", cwd="/", cmd="tail -n 1 $TMPDIR/output*")).text == "10000\n"
    assert toolsrv.stop() == 0


async def test_many_quick_runs_leave_nothing(start: Start) -> None:
    """200 runs, 20 at a time: no descriptor, process or run stays, and the launcher has no zombie."""
    toolsrv = start()
    async with await toolsrv.client() as client:
        await load(client, "a", "sh")
        # At rest there are the launcher, and two reapers with a process each for the next run.
        await asyncio.gather(*(call(client, "a", cmd="true") for _ in range(3)))
        while len(toolsrv.processes()) != 5 or toolsrv.zombies():
            await client.stat("info")
        descriptors = toolsrv.descriptors() + 2  # where one of the two has not been heard of yet
        for _ in range(10):
            given = await asyncio.gather(*(call(client, "a", cmd=f"echo {n}") for n in range(20)))
            assert [result.text for result in given] == [f"{n}\n" for n in range(20)]
        while len(toolsrv.processes()) != 5 or toolsrv.descriptors() > descriptors or toolsrv.zombies():
            await client.stat("info")
        assert await client.read("proc/list") == b""


async def test_idle_memory_is_small(start: Start) -> None:
    """Less than 30 MB after a first call."""
    toolsrv = start()
    async with await toolsrv.client() as client:
        await load(client, "a", "sh")
        await call(client, "a", cmd="true")
        assert toolsrv.memory_bytes() < 30_000_000
