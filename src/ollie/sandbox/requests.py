"""What the server asks the launcher for, and what a run reports: the messages between the three processes.

A request travels as JSON in a memory file, so that its size does not matter; with it go descriptors, in this order: the
run's own socket, the request, standard input, output and error, and the broker's if the run has one. Over the run's
socket the server sends `End` and `Deliver`, and the reaper answers `Started` or `Failed`, then `Ended`. One message is
one packet, a JSON object with the name of its kind.
"""

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, get_args

Reason = Literal["exited", "cancelled", "timed out", "memory", "processes", "lost"]
REASONS: tuple[Reason, ...] = get_args(Reason)

PACKET_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Request:
    """A run to start. `policy` is encoded and expanded, and unless `enforced` only its limits hold.

    Either `argv` or `call` is empty.
    """

    argv: tuple[str, ...]
    call: str
    env: Mapping[str, str]
    cwd: str
    policy: str
    enforced: bool
    background: bool
    grace_s: float


@dataclass(frozen=True, slots=True)
class End:
    """End the run, with a grace in seconds between the request and force."""

    reason: Reason
    grace_s: float


@dataclass(frozen=True, slots=True)
class Deliver:
    """Signal the process group of the first process."""

    number: int


@dataclass(frozen=True, slots=True)
class Started:
    """The program runs, restricted. `notes` say what could not be enforced."""

    reaper_pid: int
    pid: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The program did not start; a sentence for the user."""

    error: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing of the run is alive, but for what `notes` says."""

    status: int | None
    signal: int | None
    reason: Reason
    left_running: int
    notes: tuple[str, ...]


Message = End | Deliver | Started | Failed | Ended
_KINDS = {kind.__name__: kind for kind in get_args(Message)}


def send(sock: socket.socket, message: Message) -> None:
    """Send one message; that the other side has gone is not an error of this one."""
    try:
        sock.send(encode(message), socket.MSG_NOSIGNAL)
    except (BrokenPipeError, ConnectionResetError):
        return


def encode(message: Message) -> bytes:
    """One packet."""
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode()


def decode(packet: bytes) -> Message:
    """The message of a packet."""
    values = json.loads(packet)
    kind = _KINDS[values.pop("kind")]
    message: Message = kind(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    )
    return message


def pack(request: Request) -> bytes:
    """A request as the content of its memory file."""
    return json.dumps(asdict(request)).encode()


def unpack(content: bytes) -> Request:
    """The request that `pack` wrote."""
    values = json.loads(content)
    return Request(**{**values, "argv": tuple(values["argv"])})
