"""What all kinds that wait have in common: a bound on the wait, and the kernel's need for an empty read."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

R = TypeVar("R")

# A read that had to wait answers with at most this much, so that a thousand blocked reads cannot all at once fill
# memory with replies as large as the msize.
WAITED_BYTES = 64 * 1024


def within(seconds: float | None, waiting: Awaitable[R], otherwise: R) -> Awaitable[R]:
    """The result of `waiting`, or `otherwise` when that took longer; then `waiting` was cancelled."""
    return waiting if seconds is None else _within(seconds, waiting, otherwise)


async def _within(seconds: float, waiting: Awaitable[R], otherwise: R) -> R:
    try:
        async with asyncio.timeout(seconds):
            return await waiting
    except TimeoutError:
        return otherwise


class Gap:
    """The empty reads of the aname option `kernel`.

    Linux repeats Treads until the reader's buffer is full or a read is empty. So after a piece of data the next read is
    answered empty, once, if it would wait. A piece that fills its read exactly is cut by one byte: without a rest to
    fill the kernel hands the piece on without asking again, and the empty read would look like the end of the file.

    Args:
        wanted: whether the option is on.
    """

    __slots__ = ("_due", "_wanted")

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._due = False

    def after(self, data: bytes, count: int, *, last: bool) -> bytes:
        """The data to send for a read of `count`; `last`: what comes after it is not there yet."""
        if not self._wanted or not data:
            return data
        if last and len(data) == count > 1:
            data = data[:-1]
        self._due = len(data) < count
        return data

    def due(self) -> bool:
        """Whether this read has to be answered empty; true once."""
        due, self._due = self._due, False
        return due
