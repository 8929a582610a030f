"""Facts about the process at the other end of a unix socket, from real sockets and processes."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ollie.olliesrv.door.identity import Verdict, judge
from ollie.olliesrv.door.witness import Witness, ticks
from ollie.olliesrv.process.procfs import process

CONNECT = """
import ctypes, os, socket, sys
path, how = sys.argv[1:]
if how == "nnp":
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
sock = socket.socket(socket.AF_UNIX)
sock.connect(path)
if how == "fork" and os.fork():
    os._exit(0)
sock.recv(1)
"""


def now_ticks() -> int:
    """The present time, as start times of processes are given."""
    return ticks(time.clock_gettime(time.CLOCK_BOOTTIME))


PIDFD = pytest.mark.parametrize("pidfd", [True, False], ids=["with pidfd", "without pidfd"])


class Door:
    """A listening socket, and a way to have a process connect to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._open: list[socket.socket] = [self._listener]
        self._children: list[subprocess.Popen[bytes]] = []

    def knock(self, how: str = "plain") -> tuple[socket.socket, subprocess.Popen[bytes]]:
        """The accepted connection of a new process, and that process."""
        child = subprocess.Popen([sys.executable, "-c", CONNECT, self._path, how])
        sock, _ = self._listener.accept()
        self._open.append(sock)
        self._children.append(child)
        return sock, child

    def close(self) -> None:
        """End the connections, and wait for the processes to follow."""
        for sock in self._open:
            sock.close()
        for child in self._children:
            child.wait()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path / "door")
    yield door
    door.close()


def verdict_of(sock: socket.socket, *, pidfd: bool, hosts: tuple[int, ...] = ()) -> Verdict:
    """The verdict on whoever connected, where this process stands in for init and `hosts` for toolsrvs."""
    server = process(os.getpid())
    assert server is not None
    elsewhere = type(server)(server.pid, server.start + 1, server.parent)
    found = tuple(p for p in map(process, hosts) if p)
    with Witness(sock, now_ticks(), pidfd=pidfd) as witness:
        return judge(witness.facts(elsewhere, found)).verdict


@PIDFD
def test_a_process_of_ours(door: Door, *, pidfd: bool) -> None:
    """A living process of our user with our bits is the owner."""
    sock, child = door.knock()
    with Witness(sock, now_ticks(), pidfd=pidfd) as witness:
        assert (witness.pid, witness.uid) == (child.pid, os.getuid())
        assert witness.present()
    assert verdict_of(sock, pidfd=pidfd) is Verdict.OWNER


@PIDFD
def test_a_process_below_a_toolsrv(door: Door, *, pidfd: bool) -> None:
    """The same process is an agent when this process is given as a toolsrv."""
    sock, _ = door.knock()
    assert verdict_of(sock, pidfd=pidfd, hosts=(os.getpid(),)) is Verdict.AGENT


@PIDFD
def test_a_process_below_the_server(door: Door, *, pidfd: bool) -> None:
    """A process that the server inherited from nobody it knows is refused."""
    sock, _ = door.knock()
    server = process(os.getpid())
    assert server is not None
    with Witness(sock, now_ticks(), pidfd=pidfd) as witness:
        assert judge(witness.facts(server, ())).verdict is Verdict.REFUSED


@PIDFD
def test_a_process_that_has_gone(door: Door, *, pidfd: bool) -> None:
    """A process that left its connection to a child and was reaped cannot be judged."""
    sock, child = door.knock("fork")
    child.wait()
    with Witness(sock, now_ticks(), pidfd=pidfd) as witness:
        assert not witness.present()
    assert verdict_of(sock, pidfd=pidfd) is Verdict.REFUSED


@PIDFD
def test_a_process_that_goes_while_it_is_judged(door: Door, *, pidfd: bool) -> None:
    """What was read of a process does not count once it has been reaped."""
    sock, child = door.knock()
    with Witness(sock, now_ticks(), pidfd=pidfd) as witness:
        assert witness.present()
        sock.close()
        child.wait()
        assert not witness.present()


@PIDFD
def test_no_new_privs(door: Door, *, pidfd: bool) -> None:
    """A restricted process is refused where the server is not restricted."""
    sock, _ = door.knock("nnp")
    assert verdict_of(sock, pidfd=pidfd) is Verdict.REFUSED


def test_an_id_used_again_since(door: Door) -> None:
    """Without a pidfd, a process that started after the connection was accepted is not the one that connected."""
    sock, child = door.knock()
    started = process(child.pid)
    assert started is not None
    with Witness(sock, started.start - 1, pidfd=False) as witness:
        assert not witness.present()


def test_closed_twice(door: Door) -> None:
    """A witness can be let go twice, and knows nothing afterwards."""
    sock, _ = door.knock()
    witness = Witness(sock, now_ticks())
    witness.close()
    witness.close()
    assert not witness.present()
