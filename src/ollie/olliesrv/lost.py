"""Errors that no reply could carry, kept for those they concern.

A write is often only refused when its fid is clunked, and a mount has nobody to tell by then. The last 64 such errors
of each reader are kept in memory, for the 1024 readers who had one last.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

_EACH = 64
_READERS = 1024


@dataclass(frozen=True)
class Lost:
    """An error: when it was, in seconds since the epoch, to which file was written, and what was wrong."""

    at_s: float
    path: str
    error: str


class LostErrors:
    """The errors of each reader."""

    def __init__(self) -> None:
        self._errors: OrderedDict[str, deque[Lost]] = OrderedDict()

    def add(self, reader: str, error: Lost) -> None:
        """Keep an error that concerns a reader."""
        self._errors.setdefault(reader, deque(maxlen=_EACH)).append(error)
        self._errors.move_to_end(reader)
        if len(self._errors) > _READERS:
            self._errors.popitem(last=False)

    def of(self, reader: str) -> Sequence[Lost]:
        """Those of one reader, oldest first."""
        return tuple(self._errors.get(reader, ()))
