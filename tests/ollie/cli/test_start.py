"""`olliesrv start`, `serve`, `stop` and `status`, with real servers."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House

SCRIPT = "turns: [{replies: [{text: 'you said {prompt}'}]}]"
IDLE_LIMIT_KB = 75 * 1024


@pytest.fixture(autouse=True)
def replay(house: House) -> None:
    """Agents that need no model."""
    house.replay(SCRIPT)


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def started(house: House, *options: str) -> int:
    """Start a server; its pid."""
    line = house.ok("olliesrv", "start", *options)
    found = re.fullmatch(r"olliesrv is running on unix!(\S+) \(pid (\d+)\)\n", line)
    assert found
    return int(found[2])


def test_start_and_stop(house: House) -> None:
    """A server answers when `start` returns, is told by `status`, and is gone when `stop` returns."""
    pid = started(house)
    assert house.read("backends") == "replay\nlocal\n"
    assert house.ok("olliesrv", "status") == f"olliesrv is running on unix!{house.socket} (pid {pid})\n"
    assert house.ok("olliesrv", "stop") == f"olliesrv (pid {pid}) has ended\n"
    assert not house.socket.exists()
    assert house.run("olliesrv", "status").returncode == 3
    assert "no server" in house.run("ollie-9p", "read", "backends").stderr
    assert house.run("test", "-e", f"/proc/{pid}").returncode == 1


def test_a_server_in_the_background_lets_go_of_the_terminal(house: House) -> None:
    """It runs in a session and a directory of its own, with its output in a log, and no lock is inherited."""
    pid = started(house)
    stat = house.ok("cat", f"/proc/{pid}/stat").rpartition(")")[2].split()
    assert int(stat[3]) == pid
    assert house.ok("readlink", f"/proc/{pid}/cwd") == "/\n"
    assert house.ok("readlink", f"/proc/{pid}/fd/0", f"/proc/{pid}/fd/1").splitlines() == [
        "/dev/null",
        f"{house.home}/.local/share/ollie/logs/olliesrv.log",
    ]
    assert "listening on" in house.log


def test_an_idle_server_is_small(house: House) -> None:
    """Without a model it takes less than 75 MB."""
    pid = started(house)
    house.write("session/new", "name=one")
    status = house.ok("cat", f"/proc/{pid}/status")
    rss = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert rss
    assert int(rss[1]) < IDLE_LIMIT_KB


def test_a_second_server(house: House) -> None:
    """A second server on the same socket names the first."""
    pid = started(house)
    line = f"olliesrv: olliesrv is already running on unix!{house.socket} (pid {pid})"
    assert house.fails("olliesrv", "start") == line
    assert house.fails("olliesrv", "serve") == line
    assert house.read("backends")


def test_two_servers_on_two_sockets(house: House) -> None:
    """Servers on different sockets with different data do not mind each other."""
    first = started(house)
    other = f"unix!{house.path}/other/ollie"
    house.environ["OLLIE_DATA_PATH"] = f"{house.path}/data"
    second = started(house, "--listen", other)
    assert first != second
    assert house.ok("ollie-9p", "-a", other, "read", "backends")
    assert house.ok("olliesrv", "stop", "-a", other) == f"olliesrv (pid {second}) has ended\n"
    assert house.read("backends")


def test_a_second_server_on_the_same_data(house: House) -> None:
    """It names the first, whose work it does not touch; when that has ended, also by SIGKILL, another may begin."""
    pid = started(house)
    other = f"unix!{house.path}/other/ollie"
    data = house.home / ".local/share/ollie"
    line = f"olliesrv: {data} is used by olliesrv (pid {pid}); end it, or set OLLIE_DATA_PATH to another directory"
    assert house.fails("olliesrv", "start", "--listen", other) == line
    house.write("session/new", "name=one")
    house.kill(pid)
    started(house, "--listen", other)
    assert house.ok("ollie-9p", "-a", other, "read", "session/one/name") == "one\n"


def test_a_store_that_cannot_be_used(house: House) -> None:
    """A damaged store is one line on the terminal."""
    data = house.home / ".local/share/ollie"
    data.mkdir(parents=True, mode=0o700)
    (data / "ollie.db").write_bytes(b"x" * 10_000)
    line = f"olliesrv: the store cannot be used: {data}/ollie.db: file is not a database"
    assert house.fails("olliesrv", "start").startswith(line)


def test_a_disk_without_room(house: House) -> None:
    """Writes are answered with the reason, and when there is room everything is there."""
    pid = started(house)
    house.write("session/new", "name=one")
    house.write("session/one/agent/new", f"name=a cwd={house.work}")
    house.ok("prlimit", f"--pid={pid}", "--fsize=0:")
    answer = house.fails("ollie-9p", "write", "session/one/agent/a/plan", stdin="x" * 1000)
    assert "not on disk yet, kept in memory: the store cannot be written: " in answer
    assert house.read("session/one/agent/a/plan") == "x" * 1000
    house.ok("prlimit", f"--pid={pid}", "--fsize=unlimited:")
    house.write("session/new", "name=two")
    house.kill(pid)
    started(house)
    assert house.read("session/one/agent/a/plan") == "x" * 1000
    assert house.read("session/two/name") == "two\n"


def test_a_namespace_directory_that_others_may_enter(house: House) -> None:
    """A directory that is not private is refused, with what to do."""
    directory = house.path / "ns"
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    line = house.fails("olliesrv", "start")
    assert line == f"olliesrv: {directory}: others may enter it (mode 0755); run: chmod 700 {directory}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_namespace_directory_of_somebody_else(house: House) -> None:
    """A directory that belongs to another user is refused."""
    directory = house.path / "ns"
    directory.mkdir(mode=0o700)
    os.chown(directory, 12345, 12345)
    assert "belongs to uid 12345, not to you" in house.fails("olliesrv", "start")


def test_a_namespace_directory_that_is_a_link(house: House) -> None:
    """A symbolic link in its place is refused: whoever made it could put another socket there."""
    (house.path / "elsewhere").mkdir(mode=0o700)
    (house.path / "ns").symlink_to(house.path / "elsewhere")
    assert "not a directory" in house.fails("olliesrv", "start")


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({"OLLIE_BACKEND": "nonesuch"}, "unknown backend: nonesuch (known: "),
        ({"OLLIE_BACKEND": "local"}, "no model file"),
        ({"OLLIE_BACKEND": "", "OLLIE_REPLAY": ""}, "no model file"),
        ({"OLLIE_REPLAY": "/nowhere"}, "cannot read the script /nowhere"),
    ],
)
def test_backends_that_cannot_be(house: House, environ: dict[str, str], line: str) -> None:
    """A server whose backend cannot work does not start."""
    assert line in house.fails("olliesrv", "start", **environ)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("bakend: replay", "unknown key: bakend (did you mean backend?"),
        ("max_steps: many", "max_steps"),
        ("[", "config.yaml: line 1"),
    ],
)
def test_a_bad_configuration(house: House, text: str, line: str) -> None:
    """A configuration that cannot be understood is refused, with its path."""
    (house.config / "config.yaml").write_text(text)
    said = house.fails("olliesrv", "start")
    assert line in said
    assert str(house.config / "config.yaml") in said


def test_a_busy_port(house: House, busy_port: int) -> None:
    """A port that another program listens on is refused, and nothing is left behind."""
    address = f"tcp!127.0.0.1!{busy_port}"
    line = f"olliesrv: port {busy_port} is used by another program ({address}); end it or listen on another port"
    assert house.fails("olliesrv", "start", "--listen", address) == line
    assert not house.socket.exists()
    started(house)


def test_a_socket_of_another_program(house: House) -> None:
    """A socket that another program listens on, or a file in its place, is left alone."""
    house.socket.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(house.socket))
        listener.listen()
        assert f"{house.socket} is used by something else" in house.fails("olliesrv", "start")
    house.socket.unlink()
    house.socket.write_text("mine")
    assert "is used by something else" in house.fails("olliesrv", "start")
    assert house.socket.read_text() == "mine"


@pytest.mark.parametrize("command", ["start", "status", "serve", "-h"])
def test_closed_output(house: House, command: str) -> None:
    """Nothing is begun of which it could not be said that it was done."""
    line = house.fails("bash", "-c", f"olliesrv {command} >&-")
    assert line == "olliesrv: standard output is closed"
    assert not house.socket.exists()


def test_a_start_without_input_and_errors(house: House) -> None:
    """The other descriptors may be closed, and no socket of the server gets their numbers."""
    assert "is running on" in house.ok("bash", "-c", "olliesrv start <&- 2>&-")
    assert house.read("backends")


def test_after_a_server_was_killed(house: House) -> None:
    """A server that was killed leaves a socket, which the next one replaces."""
    pid = started(house)
    house.kill(pid)
    house.run("tail", f"--pid={pid}", "-f", "/dev/null")
    assert house.socket.exists()
    assert house.run("olliesrv", "status").returncode == 3
    assert started(house) != pid
    assert house.read("backends")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_server(house: House, number: signal.Signals) -> None:
    """A server in the foreground ends with status 0 on each of them, without its socket."""
    server = house.begin("olliesrv", "serve")
    assert server.stdout is not None
    assert "is running on" in server.stdout.readline()
    assert house.read("backends")
    pid = house.ok("olliesrv", "status").rpartition("(pid ")[2].rstrip(")\n")
    house.ok("kill", f"-{number.value}", pid)
    out, err = server.communicate()
    assert (server.returncode, out, err) == (0, "", "")
    assert not house.socket.exists()


def test_kill_in_the_root_ctl_ends_a_server(house: House) -> None:
    """`kill` written to `ctl` is a clean end."""
    pid = started(house)
    house.run("ollie-9p", "write", "ctl", stdin="kill")
    house.run("tail", f"--pid={pid}", "-f", "/dev/null")
    assert house.run("olliesrv", "status").returncode == 3
    assert not house.socket.exists()


def test_warnings(house: House) -> None:
    """What weakens a server is said at its start."""
    done = house.run("olliesrv", "start", "--yolo", "--no-auth", "--listen", "tcp!127.0.0.1!0")
    assert done.returncode == 0
    assert [line.split(": ")[:2] for line in done.stderr.splitlines()] == [["olliesrv", "warning"]] * 2
    assert "--no-auth" in done.stderr
    assert "--yolo" in done.stderr


def test_a_place_that_cannot_be_written(house: House) -> None:
    """A data directory that is a file is one clear line."""
    (house.path / "file").write_text("")
    assert "file" in house.fails("olliesrv", "start", OLLIE_DATA_PATH=str(house.path / "file"))


def test_relative_places(house: House) -> None:
    """Paths in the environment and in addresses are taken from where the command was typed."""
    (Path(house.work) / "data").mkdir(mode=0o700)
    house.ok("olliesrv", "start", "--listen", "unix!run/ollie", OLLIE_DATA_PATH="data")
    assert house.ok("ollie-9p", "-a", "unix!run/ollie", "read", "backends")
    assert (house.work / "data/logs/olliesrv.log").exists()


def test_only_its_user_may_use_its_files(house: House) -> None:
    """Its sockets and logs are its user's alone, also where others may look into their directory."""
    started(house)
    house.write("session/new", "name=one")
    house.write("session/one/agent/new", f"name=coder cwd={house.work}")
    house.write("session/one/agent/coder/prompt", "hello")
    house.read("session/one/agent/coder/wait")
    logs = house.home / ".local/share/ollie/logs"
    files = [*house.socket.parent.iterdir(), *logs.iterdir()]
    assert {"ollie", "olliesrv.log", "toolsrv.log"} <= {path.name for path in files}
    assert [path for path in files if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("length", [90, 120])
def test_a_directory_too_long_for_sockets(house: House, length: int) -> None:
    """One line tells the limit and what to do; room is needed for the sockets of tool servers as well."""
    directory = str(house.path / "n").ljust(length, "n")
    said = house.fails("olliesrv", "start", NAMESPACE=directory)
    assert "socket path is too long" in said
    assert "at most 107 bytes" in said
    assert "NAMESPACE" in said
