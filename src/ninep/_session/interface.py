"""What the session needs from a tree below it and from the driver around it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeGuard

from ninep import errors
from ninep.errors import NinepError


def check_name(name: str) -> None:
    """Refuse what is no name of a file: empty, `.`, with `/` or NUL, or not UTF-8."""
    if not name or name == "." or "/" in name:
        raise NinepError(errors.ILLEGAL_NAME)
    check_text(name)


def check_text(text: str) -> None:
    """Refuse a string with NUL, or one that was not UTF-8 on the wire."""
    if "\0" in text or not (text.isascii() or _is_utf8(text)):
        raise NinepError(errors.ILLEGAL_NAME)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def awaitable(result: object) -> TypeGuard[Awaitable[Any]]:
    """Whether a callback has to be waited for; five times faster than asking `Awaitable`."""
    return hasattr(result, "__await__")


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

    def read(self, offset: int, count: int) -> bytes | memoryview | Awaitable[bytes]:
        """At most `count` bytes; empty is the end of the file. `count` is already clamped to the msize.

        A memoryview, of bytes that stay as they are, spares a copy.
        """
        raise NinepError(errors.NOT_OPEN_FOR_READING)

    def write(self, offset: int, data: bytes) -> int | Awaitable[int]:
        """Take all of `data` and give its length, or refuse."""
        raise NinepError(errors.NOT_OPEN_FOR_WRITING)

    def commit(self) -> Awaitable[None] | None:
        """Twstat that changes nothing: take what was written, and raise what is wrong with it."""
        return None

    def close(self, *, commit: bool) -> Awaitable[None] | None:
        """The fid is gone; `commit` says whether what was written counts (clunk) or is discarded (lost connection).

        All requests of the fid have ended before.
        """
        return None


class Place(Protocol):
    """Where in a tree a fid is; it does not change, so that fids may share it."""

    @property
    def is_dir(self) -> bool:
        """Whether it can be walked from."""

    def qid(self) -> bytes:
        """Its 13 bytes."""

    def path(self) -> str:
        """For people: `session/myproj/ctl`, `/` for the root."""

    def walk(self, names: Sequence[str]) -> "Walked | Awaitable[Walked]":
        """Name by name, until one of them fails; NinepError when it is the first. Names may be ill-formed."""

    def open(self, mode: int, iounit: int) -> OpenFile | Awaitable[OpenFile]:
        """Check permissions and prepare I/O; `iounit` is the largest payload of one Twrite."""

    def create(self, name: str, perm: int, mode: int, iounit: int) -> Awaitable[tuple["Place", OpenFile]]:
        """Make a file in this directory and open it, or refuse; `name` is well-formed, or `..`."""

    def stat(self) -> bytes:
        """The directory entry, a whole record."""

    def wstat(self, record: bytes) -> Awaitable[None] | None:
        """Change what is not a "don't touch" value; never called for a record that has nothing else."""

    def remove(self) -> Awaitable[None] | None:
        """Remove the file."""


Walked = tuple[Place, list[bytes]]  # where a walk ended, and the qids of the names walked


class AfidConversation(Protocol):
    """An authentication conversation, on the afid of a Tauth."""

    @property
    def done(self) -> bool:
        """Whether an attach with this afid is granted."""

    async def read(self, count: int) -> bytes:
        """What the client reads next, at most `count` bytes."""

    async def write(self, data: bytes) -> None:
        """What the client wrote; raises NinepError when it is refused."""


class Running(Protocol):
    """Something started that waits."""

    def cancel(self) -> object:
        """Ask it to end, by asyncio.CancelledError where it waits."""


class Timer(Protocol):
    """A callback that is still to come."""

    def cancel(self) -> object:
        """It does not come."""


class Driver(Protocol):
    """What surrounds a session: it waits, and it knows the server."""

    def start(self, work: Awaitable[Any], done: Callable[[Any, BaseException | None], None]) -> Running:
        """Run `work` now as far as it goes without waiting, then whenever it can go on.

        `done(result, None)` or `done(None, error)` is called in the very step that ends it, maybe before `start`
        returns.
        """

    def later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once after `delay_s` seconds."""

    def wake(self) -> None:
        """There is output, and nobody is about to look for it."""

    def authenticate(self, uname: str, aname: str) -> Awaitable[AfidConversation]:
        """Begin a conversation, or refuse."""

    def attach(self, uname: str, aname: str, auth: AfidConversation | None) -> Awaitable[Place]:
        """The root of the tree for this user, or refuse; `auth` is the finished conversation of its afid, if any."""

    def failed(self, place: Place, error: NinepError) -> None:
        """An error of what was written through the fid at `place`; the reply to a clunk may have carried it or not."""

    def closed(self) -> None:
        """After `Session.close`: everything has ended."""
