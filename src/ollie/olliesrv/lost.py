"""Errors that no reply could carry, kept for those they concern.

A write is often only refused when its fid is clunked, and a mount has nobody to tell by then. The last 64 such errors
of each reader are kept in memory, for the 1024 readers who had one last.
"""

from collections import OrderedDict, deque
from datetime import UTC, datetime

_EACH = 64
_READERS = 1024


class LostErrors:
    """The errors of each reader, as lines `time<tab>path<tab>error`."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[str]] = OrderedDict()

    def add(self, reader: str, path: str, error: str, when: datetime) -> None:
        """Keep an error.

        Args:
            reader: whom it concerns.
            path: the file that was written to.
            error: what went wrong.
            when: the time, with its zone.
        """
        lines = self._lines.setdefault(reader, deque(maxlen=_EACH))
        self._lines.move_to_end(reader)
        stamp = when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        lines.append(f"{stamp}\t{path}\t{' '.join(error.split())}\n")
        if len(self._lines) > _READERS:
            self._lines.popitem(last=False)

    def text(self, reader: str) -> bytes:
        """The errors of one reader, oldest first."""
        return "".join(self._lines.get(reader, ())).encode()
