"""Facts about the process at the other end of a TCP connection, from real sockets and processes."""

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ollie.olliesrv.door.caller import caller
from ollie.olliesrv.door.identity import Caller, Verdict, judge_caller
from ollie.olliesrv.door.netlink import Place, is_local, place, tcp_socket
from ollie.olliesrv.process import procfs

# The client's socket, what it connects to; in the last the socket is of IPv6 and the connection is not.
FAMILIES = {
    "IPv4": (socket.AF_INET, "127.0.0.1", socket.AF_INET, "127.0.0.1"),
    "IPv6": (socket.AF_INET6, "::1", socket.AF_INET6, "::1"),
    "an IPv4 client of an IPv6 listener": (socket.AF_INET, "127.0.0.1", socket.AF_INET6, "::"),
    "an IPv6 client of an IPv4 listener": (socket.AF_INET6, "::ffff:127.0.0.1", socket.AF_INET, "127.0.0.1"),
    "both of IPv6, and the connection not": (socket.AF_INET6, "::ffff:127.0.0.1", socket.AF_INET6, "::"),
    "another address of loopback": (socket.AF_INET, "127.3.2.1", socket.AF_INET, "0.0.0.0"),
}
# Takes the socket at descriptor 0; says when it has done with it what it is to do.
HOLDER = """
import array, os, socket, sys
if sys.argv[1] == "in flight":
    near, far = socket.socketpair()
    near.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
    os.close(0)
print(flush=True)
sys.stdout.flush()
os.read(int(sys.argv[2]), 1)
"""


class Pair:
    """A connection to ourselves."""

    def __init__(self, client: int, to: str, listener: int, on: str) -> None:
        with socket.socket(listener) as listening:
            if listener == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(on != "::"))
            listening.bind((on, 0))
            listening.listen()
            self.client = socket.socket(client)
            self.client.connect((to, listening.getsockname()[1]))
            self.accepted, _ = listening.accept()

    def names(self) -> tuple[Place, Place]:
        """The client's end, and ours."""
        accepted = self.accepted
        return place(accepted.family, accepted.getpeername()[:2]), place(accepted.family, accepted.getsockname()[:2])

    def close(self) -> None:
        """End it."""
        self.client.close()
        self.accepted.close()


@pytest.fixture(params=FAMILIES)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    pair = Pair(*FAMILIES[request.param])
    yield pair
    pair.close()


@pytest.fixture
def plain() -> Iterator[Pair]:
    pair = Pair(*FAMILIES["IPv4"])
    yield pair
    pair.close()


def looked_at(pair: Pair, hosts: tuple[int, ...] = (), *, server: int | None = None) -> Caller:
    """The facts, where `hosts` stand in for toolsrvs; the server is by default nobody's parent."""
    me = procfs.process(os.getpid())
    assert me is not None
    ours = me if server == me.pid else procfs.Process(me.pid, me.start + 1, me.parent)
    return caller(*pair.names(), ours, tuple(found for found in map(procfs.process, hosts) if found))


def test_the_socket_of_this_machine(pair: Pair) -> None:
    """The socket at the other end is found, whatever its family, and who has it."""
    found = tcp_socket(*pair.names())
    assert found is not None
    assert (found.inode, found.uid) == (os.fstat(pair.client.fileno()).st_ino, os.getuid())
    facts = looked_at(pair)
    assert (facts.local, facts.uid) == (True, os.getuid())
    assert [holder.chain and holder.chain[0].pid for holder in facts.holders] == [os.getpid()]
    assert judge_caller(facts).verdict is Verdict.NO_TOOL
    assert judge_caller(looked_at(pair, hosts=(os.getpid(),))).verdict is Verdict.REFUSED


def test_a_socket_that_was_closed(pair: Pair) -> None:
    """When nobody has the other end any more, what came from it is nobody's."""
    names = pair.names()
    pair.client.close()
    facts = looked_at(pair)
    assert (facts.local, facts.uid) == (True, None)
    assert judge_caller(facts).verdict is Verdict.REFUSED
    assert names == pair.names()


def test_a_socket_that_was_reset(plain: Pair) -> None:
    """When the other end is gone altogether its name still is one of this machine."""
    theirs, ours = plain.names()
    plain.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.client.close()
    assert tcp_socket(theirs, ours) is None
    assert is_local(theirs.address)


def test_a_listener_is_no_other_end() -> None:
    """A socket that listens at the name that is asked for is not connected to anybody."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        name = place(listening.family, listening.getsockname())
        assert tcp_socket(name, Place(socket.inet_aton("127.0.0.1"), 9)) is None


@pytest.mark.parametrize("how", ["held", "in flight"])
def test_a_socket_that_was_passed_on(plain: Pair, how: str) -> None:
    """Another process that has it is seen; in a message that is on its way it is not, and the client is refused."""
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, how, str(reading)],
        stdin=plain.client,
        stdout=subprocess.PIPE,
        pass_fds=[reading],
    )
    assert child.stdout is not None
    child.stdout.readline()
    plain.client.close()
    try:
        facts = looked_at(plain)
        assert facts.uid == os.getuid()
        held = [child.pid] if how == "held" else []
        assert [holder.chain and holder.chain[0].pid for holder in facts.holders] == held
        assert judge_caller(facts).verdict is (Verdict.NO_TOOL if held else Verdict.REFUSED)
        if held:
            assert judge_caller(looked_at(plain, hosts=(os.getpid(),))).verdict is Verdict.REFUSED
            assert judge_caller(looked_at(plain, server=os.getpid())).verdict is Verdict.REFUSED
    finally:
        os.close(writing)
        child.communicate()
        os.close(reading)


@pytest.mark.parametrize(
    ("family", "text", "local"),
    [
        (socket.AF_INET, "127.0.0.1", True),
        (socket.AF_INET, "127.200.0.1", True),
        (socket.AF_INET6, "::1", True),
        (socket.AF_INET6, "::ffff:127.0.0.1", True),
        (socket.AF_INET, "192.0.2.1", False),
        (socket.AF_INET6, "2001:db8::1", False),
    ],
)
def test_local_addresses(family: int, text: str, *, local: bool) -> None:
    """Which addresses are this machine's is known to the kernel."""
    assert is_local(place(family, (text, 0)).address) is local


def test_processes_that_are_not_there() -> None:
    """A process that has gone holds nothing."""
    assert os.getpid() in procfs.ids()
    child = subprocess.Popen(["true"])
    child.wait()
    assert not procfs.holds(child.pid, 1)
