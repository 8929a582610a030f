"""A message that could not be answered at once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ninep._session.fids import Fid
    from ninep._session.interface import Running, Timer
    from ninep._wire import Buffer


@dataclass(frozen=True, slots=True)
class Limits:
    """What a connection may use, and how many strangers may hold one.

    Args:
        msize: the largest message, 256 bytes and more; the client may ask for less.
        fids: in use at once.
        requests: outstanding at once, and more than `fids`: each of a mount's may have a read that waits. What frees
            something (Tflush, Tclunk, Tremove, Tversion) is not refused.
        written_bytes: in Twrites that have not been answered.
        held_bytes: of messages that were written and are still to be taken, of texts that are read, and of pieces of
            answers that were not read to their end, over all fids.
        cleanup_s: how long something cancelled may take to end.
        attach_s: how long a connection may take until it has attached; after that it may be idle for ever.
        tcp_connections: of a server at once, by all its TCP listeners; at most half of the process's open files.
    """

    msize: int = 1024 * 1024
    fids: int = 4096
    requests: int = 8192
    written_bytes: int = 64 * 1024 * 1024
    held_bytes: int = 64 * 1024 * 1024
    cleanup_s: float = 5.0
    attach_s: float = 60.0
    tcp_connections: int = 1024


class Abandoned(BaseException):
    """A request was cancelled and did not end."""


class Request:
    """What is known of it until it has ended.

    Args:
        tag: of the message; negative for what the session does by itself when a connection ends.
        reply: the reply for a result.
        fid: on whose behalf it runs; clunking that fid cancels it.
        target: the fid that it makes, opens or ends, which the reply moves on in the table.
        kind: the type of the message, needed with a target.
        written_bytes: what it holds of a Twrite.

    Attributes:
        running: what to cancel; None while it waits for others to end.
        timer: after a cancellation, until it is given up.
        flushes: the tags of the Tflush messages that wait for its end, in order.
        silent: nobody is to get a reply any more.
        done: it has ended, or was given up.
    """

    __slots__ = (
        "done",
        "fid",
        "flushes",
        "kind",
        "reply",
        "running",
        "silent",
        "tag",
        "target",
        "timer",
        "written_bytes",
    )

    def __init__(
        self,
        tag: int,
        reply: "Callable[[Any], Buffer]",
        *,
        fid: "Fid | None" = None,
        target: "Fid | None" = None,
        kind: int = 0,
        written_bytes: int = 0,
    ) -> None:
        self.tag = tag
        self.reply = reply
        self.fid = fid
        self.target = target
        self.kind = kind
        self.written_bytes = written_bytes
        self.running: Running | None = None
        self.timer: Timer | None = None
        self.flushes: tuple[int, ...] = ()
        self.silent = False
        self.done = False
