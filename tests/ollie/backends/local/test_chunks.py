"""Chunks of the engine."""

import pytest

from ollie.backends.interface import BackendError, ErrorKind
from ollie.backends.local.chunks import Chunks
from ollie.backends.local.reply import Reply
from ollie.engine.messages import Activity, CallDelta, End, StreamEvent, TextDelta, Usage, UsageReport


def chunk(content: str | None = None, finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}]}


def events(*chunks: dict[str, object], plain: bool = False) -> list[StreamEvent]:
    reader = Chunks(Reply("id", plain=plain))
    return [event for piece in chunks for event in reader.feed(piece)] + reader.finish()


def test_text_usage_and_end_in_their_order() -> None:
    """The end is last, also when the usage comes behind the reason to end."""
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 7}}
    found = events(chunk(), chunk("a"), chunk(finish="stop"), {"choices": [], "usage": usage}, plain=True)
    assert found == [TextDelta("a"), UsageReport(Usage(9, 7, 2), 0.0), End("stop")]


@pytest.mark.parametrize(("finish", "stop"), [("stop", "tool_calls"), ("length", "length")])
def test_a_call_ends_with_the_reason_that_holds(finish: str, stop: str) -> None:
    """A call that met the length limit says so: nothing of it is to run."""
    found = events(chunk('{"tool": "t", "arguments": {}}'), chunk(finish=finish))
    assert found == [CallDelta(0, "id", "t", "{}"), End(stop)]


def test_a_stream_without_a_reason_to_end_was_cut() -> None:
    """It raises instead of ending."""
    reader = Chunks(Reply("id"))
    reader.feed(chunk('{"answer": "a'))
    with pytest.raises(BackendError, match="in the middle of its reply") as caught:
        reader.finish()
    assert caught.value.kind is ErrorKind.stream_cut


@pytest.mark.parametrize(
    ("progress", "told"),
    [
        ({"total": 1000, "cache": 0, "processed": 0}, ["reading the prompt, 0 %"]),
        ({"total": 1000, "cache": 600, "processed": 800}, ["reading the prompt, 50 %"]),
        ({"total": 1000, "cache": 0, "processed": 1000}, []),
        ({"total": 1000, "cache": 900, "processed": 950}, []),
    ],
)
def test_a_long_prompt_says_how_far_it_is(progress: dict[str, int], told: list[str]) -> None:
    """Of what is new in it; a short one says nothing."""
    assert Chunks(Reply("id")).feed({"prompt_progress": progress}) == [Activity(text) for text in told]
