"""The engine's chunks, in the form of OpenAI's streamed chat completions, as events of a backend. Pure."""

from typing import Any

from ollie.backends.interface import BackendError, ErrorKind
from ollie.backends.local.reply import Reply
from ollie.engine.messages import Activity, CallDelta, End, StopReason, StreamEvent, Usage, UsageReport

_WORTH_TELLING = 200
"""New tokens of a prompt from which reading it takes seconds, so that people are told how far it is."""


class Chunks:
    """Turns the chunks of one completion into events, `finish` gives the last ones."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._finish_reason: str | None = None

    def feed(self, chunk: dict[str, Any]) -> list[StreamEvent]:
        """The events of one chunk: progress, text, usage."""
        events: list[StreamEvent] = []
        if progress := chunk.get("prompt_progress"):
            events += _activity(progress)
        for choice in chunk.get("choices", ()):
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            if piece := choice.get("delta", {}).get("content"):
                events += self._reply.feed(piece)
        if usage := chunk.get("usage"):
            events.append(UsageReport(_usage(usage), cost_usd=0.0))
        return events

    def finish(self) -> list[StreamEvent]:
        """The call, if the reply is one, and `End`; raises `stream_cut` when the engine gave no reason to end."""
        if self._finish_reason is None:
            raise BackendError(ErrorKind.stream_cut, "the embedded model stopped in the middle of its reply")
        events = self._reply.finish()
        called = any(isinstance(event, CallDelta) for event in events)
        stop: StopReason = "length" if self._finish_reason == "length" else "tool_calls" if called else "stop"
        return [*events, End(stop)]


def _activity(progress: dict[str, int]) -> list[StreamEvent]:
    total, cached, done = progress["total"], progress["cache"], progress["processed"]
    new = total - cached
    if new < _WORTH_TELLING or done >= total:
        return []
    return [Activity(f"reading the prompt, {100 * max(0, done - cached) // new} %")]


def _usage(usage: dict[str, Any]) -> Usage:
    return Usage(
        input_tokens=usage["prompt_tokens"],
        cached_input_tokens=usage.get("prompt_tokens_details", {}).get("cached_tokens", 0),
        output_tokens=usage["completion_tokens"],
    )
