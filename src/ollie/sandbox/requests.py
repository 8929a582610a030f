"""What passes between the server, the launcher and the reapers.

The server computes all of a run beforehand, as a `Plan`: what the forked processes have left to do is system calls, and
every page that they touch is a page to copy. A plan travels with its descriptors in one packet to the launcher; when it
is long, in a memory file, whose descriptor comes last and whose packet is empty. The descriptors are: the run's own
socket, standard input, output and error, and the broker's if the run has one. The launcher passes plan and socket on to
the reaper, and plan and streams to the program's process.

Over the run's socket the server sends `End` and `Deliver`, and the reaper answers `Started` or `Failed`, then `Ended`.

The encoding is marshal: all of these processes are the same interpreter, and none of them takes messages from a tool.
"""

import marshal
import os
import socket
from typing import Literal, NamedTuple, get_args

Reason = Literal["exited", "cancelled", "timed out", "memory", "processes", "lost"]

PACKET_BYTES = 1 << 16
_DESCRIPTORS = 6  # at most, with a plan
_CONFINED, _FREE = b"c", b"f"


class Ruleset(NamedTuple):
    """A Landlock ruleset for the kernel: struct landlock_ruleset_attr, and the access that each path gets back."""

    handled: bytes
    paths: tuple[tuple[str, int], ...]


Rules = Ruleset | tuple[bytes, tuple[tuple[str, int], ...]]  # as computed, and as received


class Plan(NamedTuple):
    """A run, down to what the kernel is told.

    Args:
        argv: the program and its arguments; for a call what it sees as its arguments.
        call: `module:function` to call instead of executing a program, or empty.
        env: the whole environment.
        cwd: the working directory.
        background: whether the run goes on after its first process.
        grace_s: between SIGTERM and SIGKILL when nobody says another.
        memory: limit of all processes together in bytes, 0 for none.
        processes: limit of their number, 0 for none.
        rlimits: (resource, value) each.
        user: (uid, gid, groups) to become, None to stay.
        confined: whether new privileges and capabilities are given up.
        inner: the Landlock ruleset of the program, None for none.
        filter: a seccomp program, empty for none.
    """

    argv: tuple[str, ...]
    call: str
    env: dict[str, str]
    cwd: str
    background: bool
    grace_s: float
    memory: int
    processes: int
    rlimits: tuple[tuple[int, int], ...]
    user: tuple[int, int, tuple[int, ...]] | None
    confined: bool
    inner: Rules | None
    filter: bytes


class Start(NamedTuple):
    """What the launcher is started with.

    Args:
        control: the descriptor of its socket.
        server_pid: of the server, which proves the scope of signals.
        outer: the ruleset of every reaper whose run is confined, None where the kernel scopes no signals.
        preload: names of modules.
    """

    control: int
    server_pid: int
    outer: Rules | None
    preload: tuple[str, ...]


class End(NamedTuple):
    """End the run, with a grace in seconds between the request and force."""

    reason: Reason
    grace_s: float


class Deliver(NamedTuple):
    """Signal the process group of the first process."""

    number: int


class Started(NamedTuple):
    """The program runs, restricted."""

    reaper_pid: int
    pid: int
    notes: tuple[str, ...]


class Failed(NamedTuple):
    """The program did not start; a sentence for the user."""

    error: str


class Ended(NamedTuple):
    """Nothing of the run is alive, but for what `notes` says."""

    status: int | None
    signal: int | None
    reason: Reason
    left_running: int
    notes: tuple[str, ...]


Message = End | Deliver | Started | Failed | Ended
_KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in get_args(Message)}


def encode(message: Message) -> bytes:
    """One packet."""
    return marshal.dumps((type(message).__name__, tuple(message)))


def _plain(record: Plan | Start) -> bytes:
    """A record as tuples of tuples: marshal knows no classes."""
    values: list[object] = [tuple(value) if isinstance(value, Ruleset) else value for value in record]
    return marshal.dumps(tuple(values))  # type: ignore[arg-type] # the list of its types leaves out tuples of objects


def decode(packet: bytes) -> Message:
    """The message of a packet."""
    kind, values = marshal.loads(packet)  # noqa: S302  from our own processes only
    return _KINDS[kind](*values)


def pack(plan: Plan) -> bytes:
    """A plan as plain tuples."""
    return _plain(plan)


def start_argument(start: Start) -> str:
    """The launcher's only argument."""
    return _plain(start).hex()


def started_with(argument: str) -> Start:
    """What `start_argument` wrote."""
    return tuple.__new__(Start, marshal.loads(bytes.fromhex(argument)))  # noqa: S302  from our own server


def unpack(content: bytes) -> Plan:
    """The plan that `pack` wrote."""
    values = marshal.loads(content)  # noqa: S302  from our own server only
    return tuple.__new__(Plan, values)


def receive(job: socket.socket) -> tuple[Plan, list[int]] | None:
    """A plan with its descriptors; None when there will be none."""
    packet, descriptors = receive_packet(job)
    if not packet or not descriptors:
        return None
    if len(packet) > 1:
        return unpack(packet[1:]), descriptors
    memory = descriptors.pop()
    content = os.pread(memory, os.fstat(memory).st_size, 0)
    os.close(memory)
    return unpack(content), descriptors


def packet_of(plan: Plan, content: bytes | None) -> bytes:
    """The packet for a plan: the launcher reads its first byte, and what follows is the plan, unless it has a file."""
    return (_CONFINED if plan.confined else _FREE) + (content or b"")


def is_confined(packet: bytes) -> bool:
    """Whether the plan of a packet is confined."""
    return packet[:1] == _CONFINED


def split(packet: bytes, descriptors: list[int]) -> tuple[int, list[int], list[int]]:
    """The descriptors of a packet: the run's socket, the program's streams, and the memory file if there is one."""
    end = len(descriptors) if len(packet) > 1 else -1
    return descriptors[0], descriptors[1:end], descriptors[end:] if end == -1 else []


def receive_packet(sock: socket.socket) -> tuple[bytes, list[int]]:
    """A packet as it was sent, empty at the end. Without descriptors when this process may not open that many."""
    packet, ancillary, flags, _ = sock.recvmsg(
        PACKET_BYTES, socket.CMSG_SPACE(_DESCRIPTORS * 4), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = memoryview(ancillary[0][2]).cast("i").tolist() if ancillary else []
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        return packet, []
    return packet, descriptors
