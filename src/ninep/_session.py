"""The server's side of a 9P2000 conversation, without I/O."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from ninep import errors
from ninep.errors import NinepError


class OpenFile:
    """What an open fid does. The session has checked that the fid is open, and open for what is asked.

    A method gives its result, or an awaitable of it when it has to wait. It is cancelled by Tflush, Tclunk and the end
    of the connection; the ones omitted mean what they say here.

    Attributes:
        sent: set by `read` just before it gives its data; called once when that reply was handed to the transport.
    """

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent: Callable[[], None] | None = None

    def read(self, offset: int, count: int) -> bytes | Awaitable[bytes]:
        """At most `count` bytes; empty is the end of the file. `count` is already clamped to the msize."""
        raise NinepError(errors.NOT_OPEN_FOR_READING)

    def write(self, offset: int, data: bytes) -> int | Awaitable[int]:
        """Take all of `data` and give its length, or refuse."""
        raise NinepError(errors.NOT_OPEN_FOR_WRITING)

    def commit(self) -> Awaitable[None] | None:
        """Twstat that changes nothing: take what was written, and raise what is wrong with it."""
        return None

    def close(self, *, commit: bool) -> Awaitable[None] | None:
        """The fid is gone; `commit` says whether what was written counts (clunk) or is discarded (lost connection)."""
        return None


class Place(Protocol):
    """Where in a tree a fid is."""

    @property
    def is_dir(self) -> bool:
        """Whether it can be walked from."""

    def qid(self) -> bytes:
        """Its 13 bytes."""

    def path(self) -> str:
        """For people: `session/myproj/ctl`, `/` for the root."""

    def walk(self, name: str) -> "Place | Awaitable[Place]":
        """One step; `name` is well-formed, or `..`."""

    def open(self, mode: int, iounit: int) -> OpenFile | Awaitable[OpenFile]:
        """Check permissions and prepare I/O."""

    def stat(self) -> bytes:
        """The directory entry, a whole record."""

    def wstat(self, record: bytes) -> Awaitable[None] | None:
        """Change what is not a "don't touch" value; never called for a record that has nothing else."""

    def remove(self) -> Awaitable[None] | None:
        """Remove the file."""
