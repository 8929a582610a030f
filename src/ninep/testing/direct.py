"""A session without an event loop, for tests of the protocol state alone."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ninep import errors
from ninep._session import DIALECT, AfidConversation, Limits, Session
from ninep._session import Place as SessionPlace
from ninep.errors import NinepError
from ninep.messages import Message, decode, encode
from ninep.tree import Place


class Suspended:
    """Work that waits, to be ended by hand.

    Args:
        done: what the session wants to be told.

    Attributes:
        cancelled: the session asked it to end.
    """

    def __init__(self, done: Callable[[Any, BaseException | None], None]) -> None:
        self.done = done
        self.cancelled = False

    def cancel(self) -> None:
        """Remember it: it ends when the test says so."""
        self.cancelled = True


class DirectDriver:
    """Runs what does not wait; what does is left in `suspended` for the test to end.

    Args:
        root: what everybody attaches to.
        limits: of the session.

    Attributes:
        session: feed it with `exchange`.
        suspended: what waits, oldest first.
        timers: callbacks that `later` was asked for, and not cancelled.
        failures: what `failed` was told.
        is_closed: `closed` was called.
    """

    def __init__(self, root: Place, limits: Limits | None = None) -> None:
        self._root = root
        self.session = Session(self, limits or Limits(), DIALECT)
        self.suspended: list[Suspended] = []
        self.timers: list[Callable[[], None]] = []
        self.failures: list[tuple[str, str]] = []
        self.is_closed = False

    def feed(self, data: bytes) -> bytes:
        """Receive bytes and give all that is to be sent."""
        more = self.session.process(data)
        sent = [self.take()]
        while more:
            more = self.session.process()
            sent.append(self.take())
        return b"".join(sent)

    def take(self) -> bytes:
        """What is to be sent now."""
        data = b"".join(self.session.output)
        self.session.output.clear()
        self.session.output_bytes = 0
        self.session.sent()
        return data

    def exchange(self, *messages: Message) -> list[Message]:
        """Receive messages in one segment, and give the replies."""
        return messages_of(self.feed(b"".join(map(encode, messages))))

    # Driver

    def start(self, work: Awaitable[Any], done: Callable[[Any, BaseException | None], None]) -> Suspended:
        """One step."""
        suspended = Suspended(done)
        steps = work.__await__()
        try:
            next(steps)
        except StopIteration as stop:
            done(stop.value, None)
        except BaseException as error:  # noqa: BLE001  the session's to answer
            done(None, error)
        else:
            self.suspended.append(suspended)
        return suspended

    def later(self, delay_s: float, callback: Callable[[], None]) -> "_Timer":
        """Never by itself."""
        self.timers.append(callback)
        return _Timer(partial(self.timers.remove, callback))

    def wake(self) -> None:
        """The test looks at the output by itself."""

    async def authenticate(self, uname: str, aname: str) -> AfidConversation:
        """Nobody needs it."""
        raise NinepError(errors.NO_AUTHENTICATION)

    async def attach(self, uname: str, aname: str, auth: AfidConversation | None) -> SessionPlace:
        """Everybody may."""
        return self._root

    def failed(self, place: SessionPlace, error: NinepError) -> None:
        """Keep it."""
        self.failures.append((place.path(), str(error)))

    def closed(self) -> None:
        """Keep it."""
        self.is_closed = True


class _Timer:
    def __init__(self, remove: Callable[[], None]) -> None:
        self._remove: Callable[[], None] | None = remove

    def cancel(self) -> None:
        if self._remove is not None:
            self._remove()
            self._remove = None


def messages_of(data: bytes) -> list[Message]:
    """The messages that bytes are made of."""
    found, at = [], 0
    while at < len(data):
        end = at + int.from_bytes(data[at : at + 4], "little")
        found.append(decode(data[at:end]))
        at = end
    return found
