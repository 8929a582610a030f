"""What may be in memory on behalf of a client's fids."""

from ninep import errors
from ninep.errors import NinepError


class Held:
    """The bytes that a connection's files hold, whatever the fid: messages not taken yet, texts and answers being read.

    Args:
        limit_bytes: how many there may be.

    Attributes:
        bytes: how many there are.
    """

    __slots__ = ("_limit_bytes", "bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.bytes = 0

    def add(self, count: int) -> None:
        """So many more; NinepError, and nothing is added, where that is too much."""
        if self.bytes + count > self._limit_bytes:
            raise NinepError(errors.TOO_MANY_BYTES)
        self.bytes += count

    def drop(self, count: int) -> None:
        """They are not held any more."""
        self.bytes -= count
