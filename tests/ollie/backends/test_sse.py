"""The event stream decoder, against the standard's algorithm written line by line."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ollie.backends.sse import Decoder, Event, SseError

STREAMS = st.lists(
    st.sampled_from(
        [
            b"data",
            b"event",
            b"id",
            b":",
            b": ",
            b" ",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"x",
            b"\xc3\xa9",
            b"\xff",
            b"\xef\xbb\xbf",
        ]
    )
).map(b"".join)


def standard(stream: bytes) -> list[Event]:
    """What the standard says that a stream gives."""
    events = []
    data, kind = b"", b""
    lines = re.split(b"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    for line in lines[:-1]:
        if not line:
            if data:
                events.append(Event(data.removesuffix(b"\n"), kind.decode(errors="replace") or "message"))
            data, kind = b"", b""
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data += value + b"\n"
        if name == b"event":
            kind = value
    return events


@given(STREAMS | st.binary())
@example(b"data\n\ndata\ndata\n\ndata:")
@example(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n\n\nevent: e\n\ndata: d\n\n")
def test_it_decodes_as_the_standard_says(stream: bytes) -> None:
    """Any bytes give the events that the standard's algorithm gives."""
    assert Decoder().feed(stream) == standard(stream)


@given(STREAMS | st.binary(), st.lists(st.integers(0, 200)))
def test_chunks_make_no_difference(stream: bytes, cuts: list[int]) -> None:
    """A stream cut anywhere gives the same events as the whole."""
    decoder, events, start = Decoder(), [], 0
    for cut in [*sorted(cuts), len(stream)]:
        events += decoder.feed(stream[start:cut])
        start = max(start, cut)
    assert events == standard(stream)


@given(STREAMS)
def test_byte_by_byte(stream: bytes) -> None:
    """A stream that comes one byte at a time gives the same events, each as soon as it is complete."""
    decoder, events = Decoder(), []
    for at in range(len(stream)):
        events += decoder.feed(stream[at : at + 1])
        assert len(events) >= len(standard(stream[: at + 1]))
    assert events == standard(stream)


def test_an_event_without_end_is_refused() -> None:
    """A server that never ends its event does not fill the memory."""
    decoder = Decoder(limit_bytes=100)
    assert decoder.feed(b"data: " + b"x" * 90) == []
    with pytest.raises(SseError, match="more than 100 bytes"):
        decoder.feed(b"x" * 20)


def test_a_large_event_comes_whole() -> None:
    """An event of megabytes in small pieces is one event."""
    decoder = Decoder()
    for _ in range(1000):
        assert decoder.feed(b"data: " + b"x" * 5000 + b"\n") == []
    (event,) = decoder.feed(b"\n")
    assert len(event.data) == 1000 * 5001 - 1
