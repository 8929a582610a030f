"""Replies of the chat completions API, read as servers really write them.

Fields are null, missing, of another type or unknown at one server or another; what can be understood is, and what
comes out is the same for all: pieces of text that are never empty and hold no lone surrogate, calls with an index of
their own each, one usage, one end. Errors can come as an event of a stream that began with status 200.
"""

import json
from typing import Any, Final

import msgspec

from ollie.backends.failures import error_within
from ollie.backends.sse import Event
from ollie.engine import messages as m
from ollie.engine.messages import BackendError, ErrorKind

DONE: Final = b"[DONE]"

_STOPS: Final[dict[str, m.StopReason]] = {
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}


class Reply:
    """One reply as it is read.

    Args:
        secret: a key that the provider may repeat in an error.
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._surrogates = Surrogates()
        self._calls = CallNumbers()
        self._report: m.UsageReport | None = None
        self.stop: m.StopReason | None = None
        """Why it ends, as soon as that was said."""

    def read(self, event: Event) -> list[m.StreamEvent]:
        """The events in one event of the stream, without usage and end.

        Raises:
            BackendError: it is an error, a refusal, or no JSON (`stream_cut`).
        """
        chunk = _decode(event.data)
        if chunk.get("error") or event.type == "error" or chunk.get("object") == "error":
            raise error_within(chunk, self._secret)
        self._report = _report(chunk.get("usage")) or self._report
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return []
        events = self._read_delta(choices[0].get("delta") or choices[0].get("message"))
        reason = choices[0].get("finish_reason")
        if isinstance(reason, str) and reason:
            self._end(reason)
        return events

    def finish(self) -> list[m.StreamEvent]:
        """The events at the end of the stream: usage where it was told, and the end.

        Raises:
            BackendError: `stream_cut`: no stop reason was given.
        """
        if self.stop is None:
            raise BackendError(ErrorKind.stream_cut, "the reply ended without a stop reason")
        return [*([self._report] if self._report else []), m.End(self.stop)]

    def _end(self, reason: str) -> None:
        if reason == "content_filter":
            raise BackendError(ErrorKind.refused, "the provider's content filter ended the reply")
        if reason == "error":
            raise BackendError(ErrorKind.unavailable, "the provider ended the reply with an error")
        self.stop = _STOPS.get(reason, "stop")

    def _read_delta(self, delta: Any) -> list[m.StreamEvent]:
        if not isinstance(delta, dict):
            return []
        events: list[m.StreamEvent] = []
        reasoning = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        if reasoning and (reasoning := self._surrogates.joined("reasoning", reasoning)):
            events.append(m.ReasoningDelta(reasoning))
        text = _text(delta.get("content")) or _text(delta.get("refusal"))
        if text and (text := self._surrogates.joined("text", text)):
            events.append(m.TextDelta(text))
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            events += [self._read_call(call) for call in calls if isinstance(call, dict)]
        return events

    def _read_call(self, call: dict[str, Any]) -> m.CallDelta:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        name = _text(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)
        index = call.get("index")
        number = self._calls.number(index if isinstance(index, int) else None, _text(call.get("id")), name)
        return m.CallDelta(
            index=number,
            id=_whole(_text(call.get("id"))),
            name=_whole(name),
            arguments=self._surrogates.joined(number, _text(arguments)),
        )


class CallNumbers:
    """Tells calls apart where servers leave out the index of a call, or give the same one to all."""

    def __init__(self) -> None:
        self._current: dict[int | None, int] = {}
        self._ids: list[str] = []

    def number(self, index: int | None, call_id: str, name: str) -> int:
        """The number of the call that a delta belongs to, from 0.

        Args:
            index: as given, or None.
            call_id: its id, empty when the delta has none; another id than before begins another call.
            name: its name, empty when the delta has none; without index and id, a name begins another call.
        """
        known = self._current.get(index, len(self._ids) - 1 if index is None else -1)
        if known >= 0:
            other = call_id and self._ids[known] and call_id != self._ids[known]
            if not other and not (index is None and name and not call_id):
                self._ids[known] = self._ids[known] or call_id
                return known
        self._ids.append(call_id)
        self._current[index] = len(self._ids) - 1
        return len(self._ids) - 1


class Surrogates:
    """Joins the halves of characters that a server cut between two pieces, and replaces what has no other half."""

    def __init__(self) -> None:
        self._halves: dict[object, str] = {}

    def joined(self, stream: object, text: str) -> str:
        """The next piece of a stream without lone surrogates; a half at its end waits for the piece behind it."""
        half = self._halves.pop(stream, "")
        if not half and text.isascii():
            return text
        text = half + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._halves[stream] = text[-1]
            text = text[:-1]
        return _whole(text)


def _whole(text: str) -> str:
    """The text with pairs of surrogates joined and lone ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _decode(data: bytes) -> dict[str, Any]:
    """The JSON object of a chunk. Lone surrogates are taken, bytes that are no UTF-8 replaced."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        try:
            value = json.loads(data.decode(errors="replace"))
        except (ValueError, RecursionError):
            raise BackendError(ErrorKind.stream_cut, "the reply has a corrupt line") from None
    if not isinstance(value, dict):
        raise BackendError(ErrorKind.stream_cut, "the reply has a corrupt line")
    return value


def _text(value: Any) -> str:
    """The text in what a server writes where a text belongs: a string, or a list of parts with texts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(part.get("text")) if isinstance(part, dict) else _text(part) for part in value)
    return ""


def _report(value: Any) -> m.UsageReport | None:
    """Usage with cached as part of input, and reasoning as part of output; the cost where the server says it."""
    if not isinstance(value, dict):
        return None
    asked, said = _count(value.get("prompt_tokens")), _count(value.get("completion_tokens"))
    if not asked and not said:
        return None
    cached = _detail(value, "prompt_tokens_details", "cached_tokens") or _count(value.get("prompt_cache_hit_tokens"))
    reasoning = _detail(value, "completion_tokens_details", "reasoning_tokens")
    if reasoning and _count(value.get("total_tokens")) == asked + said + reasoning:
        said += reasoning  # some servers count reasoning beside the completion and not within it
    usage = m.Usage(
        input_tokens=asked,
        cached_input_tokens=min(cached, asked),
        output_tokens=said,
        reasoning_tokens=min(reasoning, said),
    )
    cost_usd = value.get("cost")
    return m.UsageReport(usage, float(cost_usd) if isinstance(cost_usd, int | float) and cost_usd >= 0 else None)


def _detail(usage: dict[str, Any], group: str, key: str) -> int:
    details = usage.get(group)
    return _count(details.get(key)) if isinstance(details, dict) else 0


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0
