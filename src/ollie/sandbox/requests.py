"""What passes between the server, the launcher, the reapers and the processes of programs.

The server asks the launcher for a reaper with one byte, and gives it one end of a socket: from then on it speaks with
the reaper alone. The reaper says `Ready`, with the end of another socket, to the process that stands by below it. A run
begins with two packets: `Begin` to the reaper, and the `Plan` with the program's descriptors to that process. It
answers `RESTRICTED`, and then by closing its end when the program runs; or with what failed. Then the server may send
`End` and `Deliver` to the reaper, which answers `Exit`, and is `Ready` for another run.

The server computes all of a run beforehand, as a `Plan`: what the forked process has left to do is system calls, and
every page that it touches is a page to copy. The descriptors of a plan are: standard input, output and error, the
broker's if the run has one, and that of a Landlock ruleset if there is one to offer. A process that had to make its own
gives that to the server first, as `Made`. A long plan lies in a memory file, whose descriptor comes last.

The encoding is marshal: all of these processes are the same interpreter, and none of them takes messages from a tool.
"""

import errno
import marshal
import os
import socket
from typing import Literal, NamedTuple, get_args

Reason = Literal["exited", "cancelled", "timed out", "memory", "processes", "lost"]

PACKET_BYTES = 1 << 16
CONFINED, FREE = b"c", b"f"  # what the launcher is asked for: the reaper of programs with a policy, or of others
RESTRICTED = b"r"  # a process that cannot say it runs nothing: without it the plan may be given to another one
_MADE = b"m"  # before a `Made`; what failed begins with another letter
_DESCRIPTORS = 6  # at most, with a plan
_INLINE_BYTES = 32 << 10  # of a plan; what is longer goes into a memory file
_IN_FILE = b"f"


class Ruleset(NamedTuple):
    """A Landlock ruleset for the kernel.

    Args:
        handled: struct landlock_ruleset_attr.
        paths: the access that each one gets back.
        written: the places below which links are a tool's, and not followed.
        real: the paths of which no link is followed at all.
    """

    handled: bytes
    paths: tuple[tuple[str, int], ...]
    written: tuple[str, ...]
    real: tuple[str, ...]


# Of the file that a path leads to: its device and inode, None where there was nothing to allow.
Identity = tuple[int, int] | None


class Made(NamedTuple):
    """A Landlock ruleset in the kernel.

    Args:
        descriptor: of the ruleset; passed beside the message, not in it.
        identities: one for each path of the `Ruleset` that it was made from.
    """

    descriptor: int
    identities: tuple[Identity, ...]


class Plan(NamedTuple):
    """A run, down to what the kernel is told.

    Args:
        argv: the program and its arguments; for a call what it sees as its arguments.
        call: `module:function` to call instead of executing a program, or empty.
        env: the whole environment.
        cwd: the working directory.
        rlimits: (resource, value) each.
        user: (uid, gid, groups) to become, None to stay.
        confined: whether new privileges and capabilities are given up.
        inner: the Landlock ruleset of the program, None for none.
        made: the identities of one that was made from it, None when none is offered.
        filter: a seccomp program, empty for none.
    """

    argv: tuple[str, ...]
    call: str
    env: dict[str, str]
    cwd: str
    rlimits: tuple[tuple[int, int], ...]
    user: tuple[int, int, tuple[int, ...]] | None
    confined: bool
    inner: Ruleset | None
    made: tuple[Identity, ...] | None
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
    outer: Ruleset | None
    preload: tuple[str, ...]


class Ready(NamedTuple):
    """A reaper can take a run, and a process stands by for its program. `notes` says what is not enforced."""

    reaper_pid: int
    pid: int
    notes: tuple[str, ...]


class Failed(NamedTuple):
    """There is no reaper; a sentence for the user."""

    error: str


class Begin(NamedTuple):
    """A run begins: what of it the reaper needs to know.

    Args:
        background: whether the run goes on after its first process.
        grace_s: between SIGTERM and SIGKILL when nobody says another.
        memory: limit of all processes together in bytes, 0 for none.
        processes: limit of their number, 0 for none.
    """

    background: bool
    grace_s: float
    memory: int
    processes: int


class End(NamedTuple):
    """End the run, with a grace in seconds between the request and force."""

    reason: Reason
    grace_s: float


class Deliver(NamedTuple):
    """Signal the process group of the first process."""

    number: int


class Exit(NamedTuple):
    """How a run ended: nothing of it is alive, but for what `notes` says.

    Args:
        status: exit status of the first process, None when a signal ended it or nobody knows.
        signal: that signal.
        reason: who or what ended the run.
        left_running: processes that the first one left behind and that were ended with the run.
        notes: what was not enforced, sentences.
    """

    status: int | None
    signal: int | None
    reason: Reason
    left_running: int
    notes: tuple[str, ...]


Message = Ready | Failed | Begin | End | Deliver | Exit
_KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in get_args(Message)}


def encode(message: Message) -> bytes:
    """One packet."""
    return marshal.dumps((type(message).__name__, tuple(message)))


def decode(packet: bytes) -> Message:
    """The message of a packet."""
    kind, values = marshal.loads(packet)  # noqa: S302  from our own processes only
    return _KINDS[kind](*values)


def _plain(record: Plan | Start) -> bytes:
    """A record as tuples of tuples: marshal knows no classes."""
    values: list[object] = [tuple(value) if isinstance(value, Ruleset) else value for value in record]
    return marshal.dumps(tuple(values))  # type: ignore[arg-type] # the list of its types leaves out tuples of objects


def start_argument(start: Start) -> str:
    """The launcher's argument."""
    return _plain(start).hex()


def started_with(argument: str) -> Start:
    """What `start_argument` wrote."""
    start = Start(*marshal.loads(bytes.fromhex(argument)))  # noqa: S302  from our own server
    return start._replace(outer=start.outer and Ruleset(*start.outer))


def send_plan(job: socket.socket, plan: Plan, descriptors: list[int]) -> None:
    """Send a plan with its descriptors. Raises OSError when nobody is there to take it."""
    content = _plain(plan)
    if len(content) <= _INLINE_BYTES:
        socket.send_fds(job, [content], descriptors, socket.MSG_NOSIGNAL)
        return
    memory = os.memfd_create("run", os.MFD_CLOEXEC)
    try:
        os.set_blocking(memory, False)
        os.write(memory, content)
        socket.send_fds(job, [_IN_FILE], [*descriptors, memory], socket.MSG_NOSIGNAL)
    finally:
        os.close(memory)


def receive_plan(job: socket.socket) -> tuple[Plan, list[int]] | None:
    """A plan with its descriptors; None when there will be none. Raises OSError when it could not be taken whole."""
    content, descriptors = receive(job)
    if not content:
        return None
    if content == _IN_FILE:
        memory = descriptors.pop()
        content = os.pread(memory, os.fstat(memory).st_size, 0)
        os.close(memory)
    plan = Plan(*marshal.loads(content))  # noqa: S302  from our own server only
    return plan._replace(inner=plan.inner and Ruleset(*plan.inner)), descriptors


def send_made(job: socket.socket, made: Made) -> None:
    """Give a ruleset to the server, unless it has thousands of paths. Raises OSError when it could not be given."""
    packet = _MADE + marshal.dumps(made.identities)
    if len(packet) <= PACKET_BYTES:
        socket.send_fds(job, [packet], [made.descriptor], socket.MSG_NOSIGNAL)


def receive_answer(job: socket.socket) -> bytes | Made:
    """What the process of a program says, empty at the end. Raises OSError; with EMFILE what it made is lost."""
    packet, descriptors = receive(job)
    if packet[:1] != _MADE:
        return packet
    return Made(descriptors[0], marshal.loads(packet[1:]))  # noqa: S302  from our own process only


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """A packet with its descriptors, empty at the end. Raises OSError when this process may not open that many."""
    packet, ancillary, flags, _ = sock.recvmsg(
        PACKET_BYTES, socket.CMSG_SPACE(_DESCRIPTORS * 4), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = memoryview(ancillary[0][2]).cast("i").tolist() if ancillary else []
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return packet, descriptors
