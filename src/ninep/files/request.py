"""A question is written, the answer is read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ninep import _wire, errors
from ninep._session import OpenFile
from ninep.errors import NinepError
from ninep.files.inbox import Check, Inbox, Take
from ninep.files.waiting import WAITED_BYTES, Gap
from ninep.tree import Entry, Place

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Request(Entry[T]):
    """The first read runs what was written and streams the answer; its offset counts as 0. Clunk and flush cancel.

    Args:
        name: as served.
        mode: permission bits.
        about: one sentence.
        run: `(obj, peer, data)`: an asynchronous generator of the answer's pieces. It is closed (`aclose`) when the
            reader goes away.
        bare: `(obj, peer, data)`: a commit or clunk without a read. Where it is omitted, a fid that cannot read the
            answer is told to open for reading and writing, and one that can has nothing done.
        check: as an `Inbox` has it.
    """

    kind = "request"
    name: str
    mode: int
    about: str
    run: Callable[[T, Any, bytes], AsyncIterator[bytes]]
    bare: Take[T] | None = None
    check: Check[T] | None = None

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile:
        """An empty request."""
        return RequestFile(self, place, readable=mode & 3 != _wire.OWRITE)


class RequestFile(OpenFile):
    """The request being written, then its answer being read. A write after a read begins another request."""

    __slots__ = (
        "_answer",
        "_gap",
        "_inbox",
        "_lock",
        "_next",
        "_place",
        "_readable",
        "_request",
        "_rest",
        "_rest_bytes",
        "_yield_s",
    )

    def __init__(self, request: Request[Any], place: Place, *, readable: bool) -> None:
        super().__init__()
        self._request = request
        self._place = place
        self._readable = readable
        self._inbox = Inbox(place, request.check)
        self._answer: AsyncIterator[bytes] | None = None
        self._rest = memoryview(b"")  # of a piece that was longer than a read
        self._rest_bytes = 0  # of that piece, all of which is kept
        self._next: asyncio.Task[bytes] | None = None  # a wait that outlives its read, with the option yield
        self._yield_s = place.attached.options.yield_s
        self._gap = Gap(wanted=place.attached.options.kernel)
        self._lock = asyncio.Lock()

    async def write(self, offset: int, data: bytes) -> int:
        """More of the request; an answer that was not read to its end is given up."""
        if self._lock.locked():
            raise NinepError(errors.BEING_ANSWERED)
        if self._answer is not None or self._rest:
            await self._give_up()
        return self._inbox.add(data)

    async def read(self, offset: int, count: int) -> bytes:
        """The next of the answer."""
        async with self._lock:
            if self._inbox:
                self._place.check()
                self._answer = self._request.run(self._place.obj, self._place.peer, self._inbox.pop())
            if self._rest:
                return self._piece(self._rest, count)
            if self._answer is None or self._gap.due():
                return b""
            return await self._more(count)

    def _piece(self, data: memoryview, count: int) -> bytes:
        piece = self._gap.after(bytes(data[: min(count, WAITED_BYTES)]), count, last=len(data) <= count)
        rest = data[len(piece) :]
        if not rest:
            self._drop_rest()
            return piece
        if not self._rest:
            self._place.attached.held.add(len(data))
            self._rest_bytes = len(data)
        self._rest = rest
        return piece

    def _drop_rest(self) -> None:
        self._place.attached.held.drop(self._rest_bytes)
        self._rest, self._rest_bytes = memoryview(b""), 0

    async def _more(self, count: int) -> bytes:
        assert self._answer is not None
        try:
            if self._yield_s is None:
                data = await _piece_of(self._answer)
            else:
                data = await self._more_in_time(self._answer, self._yield_s)
            return self._piece(memoryview(data), count)
        except StopAsyncIteration:
            self._answer = None
            return b""
        except BaseException:
            await self._give_up()
            raise

    async def _more_in_time(self, answer: AsyncIterator[bytes], seconds: float) -> bytes:
        """End of file when it takes too long; what runs goes on for the next read."""
        if self._next is None:
            self._next = asyncio.ensure_future(_piece_of(answer))
        done, _ = await asyncio.wait({self._next}, timeout=seconds)
        if not done:
            return b""
        finished, self._next = self._next, None
        return finished.result()

    async def _give_up(self) -> None:
        waiting, self._next = self._next, None
        answer, self._answer = self._answer, None
        self._drop_rest()
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        if answer is not None and hasattr(answer, "aclose"):
            await answer.aclose()

    def commit(self) -> Awaitable[None] | None:
        """Run it without a reader."""
        if not self._inbox:
            return None
        if self._request.bare is not None:
            data = self._inbox.pop()
            self._place.check()
            return self._request.bare(self._place.obj, self._place.peer, data)
        if not self._readable:
            self._inbox.pop()
            raise NinepError(errors.ANSWER_NOT_READ)
        return None

    def close(self, *, commit: bool) -> Awaitable[None] | None:
        """Cancel what runs; commit what was written and not run."""
        try:
            if self._answer is not None:
                return self._give_up()
            return self.commit() if commit else None
        finally:
            self._inbox.discard()


async def _piece_of(answer: AsyncIterator[bytes]) -> bytes:
    """The next piece that is not empty."""
    while True:
        piece = await anext(answer)
        if piece:
            return piece
