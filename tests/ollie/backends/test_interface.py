"""What the driver may rely on, whatever a backend does."""

from collections.abc import AsyncGenerator

import pytest

from ollie.backends.interface import Backend, BackendError, ErrorKind, Request, stream
from ollie.engine.messages import End, StreamEvent, TextDelta


class Careless:
    """A backend that says what it likes."""

    name = "careless"
    default_model = "m"
    parameters: frozenset[str] = frozenset()

    def __init__(self, *events: StreamEvent) -> None:
        self._events = events
        self.closed = False

    async def models(self) -> list[str]:
        """None."""
        return []

    async def complete(self, _: Request) -> AsyncGenerator[StreamEvent, None]:
        """Whatever it was given."""
        try:
            for event in self._events:
                yield event
        finally:
            self.closed = True

    async def close(self) -> None:
        """Nothing to close."""


async def test_the_end_is_the_last_event() -> None:
    """What a backend says behind its end is not heard, and it is closed."""
    backend = Careless(TextDelta("a"), End("stop"), TextDelta("b"))
    typed: Backend = backend
    assert [event async for event in stream(typed, Request("m"))] == [TextDelta("a"), End("stop")]
    assert backend.closed


async def test_a_stream_without_end_was_cut() -> None:
    """A stream that just stops is an error, although nothing was raised."""
    with pytest.raises(BackendError) as caught:
        [event async for event in stream(Careless(TextDelta("a")), Request("m"))]
    assert caught.value.kind is ErrorKind.stream_cut


async def test_closing_early_closes_the_backend() -> None:
    """Whoever stops listening ends the request."""
    backend = Careless(TextDelta("a"), End("stop"))
    events = stream(backend, Request("m"))
    await anext(events)
    await events.aclose()
    assert backend.closed
