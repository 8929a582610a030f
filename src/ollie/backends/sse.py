"""A decoder of event streams, by the HTML standard (section 9.2.6, "Interpreting an event stream").

Bytes go in as they come, cut anywhere; events come out as soon as their blank line is there. Lines end in LF, CR or
both. A block that the end of the stream cuts off is no event. Of the fields, `event` and `data` are kept; `id` and
`retry` are about reconnecting, which nobody here does.
"""

from msgspec import Struct

EVENT_LIMIT_BYTES = 64 * 1024 * 1024
"""More than this in one event is a broken server: a reply with all its calls is far smaller."""


class SseError(ValueError):
    """The stream breaks a bound; its text says which."""


class Event(Struct, frozen=True):
    """One event: its data as bytes, not decoded, and its type, `message` when the stream names none."""

    data: bytes
    type: str = "message"


class Decoder:
    """Decodes one stream.

    Args:
        limit_bytes: the most bytes that one event may have.
    """

    def __init__(self, limit_bytes: int = EVENT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._begun = False
        self._skip_newline = False

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that these bytes complete.

        Raises:
            SseError: `an event has more than N bytes`.
        """
        if not chunk:
            return []
        chunk = self._plain_newlines(chunk)
        searched = max(len(self._buffer) - 1, 0)
        self._buffer += chunk
        if not self._begun:
            if b"\xef\xbb\xbf".startswith(self._buffer[:3]) and len(self._buffer) < 3:
                return []
            self._begun = True
            if self._buffer.startswith(b"\xef\xbb\xbf"):
                del self._buffer[:3]
            searched = 0
        events = self._take_blocks(searched)
        if len(self._buffer) > self._limit_bytes:
            raise SseError(f"an event has more than {self._limit_bytes} bytes")
        return events

    def _plain_newlines(self, chunk: bytes) -> bytes:
        """The bytes with every line end as LF; a CR at the end is one already, and an LF behind it then is none."""
        if self._skip_newline and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._skip_newline = False
            if not chunk:
                return chunk
        self._skip_newline = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in chunk else chunk

    def _take_blocks(self, searched: int) -> list[Event]:
        events = []
        start = 0
        while (end := self._buffer.find(b"\n\n", max(searched, start))) >= 0:
            event = _event(bytes(self._buffer[start:end]))
            if event is not None:
                events.append(event)
            # The second newline ends an empty line only; a third one begins the next block with another.
            start = end + 2
        del self._buffer[:start]
        return events


def _event(block: bytes) -> Event | None:
    """The event of a block of lines; None when it has no data field."""
    data: list[bytes] = []
    kind = b""
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            kind = value
    if not data:
        return None
    return Event(b"\n".join(data), kind.decode(errors="replace") or "message")
