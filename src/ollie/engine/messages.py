"""What engine and backends say to each other: history, request, stream and failure.

Everything here is an immutable value. Texts are valid Unicode without lone surrogates: a backend replaces those
at its wire. The history that an engine sends is always valid, see `history.py`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct, field

Effect = Literal["read", "write"]
"""What running a tool does to the world; reads of one reply may run in parallel."""

StopReason = Literal["stop", "tool_calls", "length"]
"""Why a model ended its reply; `length` means that it was cut."""


class User(Struct, frozen=True, tag="user", weakref=True, cache_hash=True):
    """Words of the user, or of whoever speaks for them."""

    text: str


class ToolCall(Struct, frozen=True):
    """A call as the model asked for it; `arguments` is its JSON text, not parsed."""

    id: str
    name: str
    arguments: str


class Assistant(Struct, frozen=True, tag="assistant", weakref=True, cache_hash=True):
    """One reply of the model. Each of its calls is answered by one `ToolResult` right behind it, in the same order."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()


class TextContent(Struct, frozen=True, tag="text"):
    """A text that a tool gave."""

    text: str


class ImageContent(Struct, frozen=True, tag="image"):
    """An image that a tool gave: `data` is base64, `media_type` for example `image/png`."""

    data: str
    media_type: str


Content = TextContent | ImageContent


class ToolResult(Struct, frozen=True, tag="result", weakref=True, cache_hash=True):
    """What one call gave; the model is told when it is an error."""

    call_id: str
    name: str
    content: tuple[Content, ...]
    is_error: bool = False


Message = User | Assistant | ToolResult


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told about it; `input_schema` is the JSON Schema of its arguments, an object."""

    name: str
    description: str
    input_schema: dict[str, Any]
    effect: Effect = "write"


class Request(Struct, frozen=True):
    """One question to a model; `parameters` are sampling keys in snake_case, see `backends/interface.py`."""

    model: str
    system: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Usage(Struct, frozen=True):
    """Tokens of one request. Cached are part of input, reasoning part of output, at every provider."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class TextDelta(Struct, frozen=True):
    """More of the reply's text."""

    text: str


class ReasoningDelta(Struct, frozen=True):
    """More of the reply's reasoning."""

    text: str


class CallDelta(Struct, frozen=True):
    """More of the call at `index`: id and name come whole or empty, arguments in pieces."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class Activity(Struct, frozen=True):
    """What the backend does before it speaks, for people: a place in a queue, a model being loaded."""

    text: str


class UsageReport(Struct, frozen=True):
    """Tokens of the whole request, and its cost where the provider or a price list says it."""

    usage: Usage
    cost_usd: float | None = None


class End(Struct, frozen=True):
    """The reply is complete. It is the last event of a stream; a stream that ends without it was cut."""

    stop: StopReason


StreamEvent = TextDelta | ReasoningDelta | CallDelta | Activity | UsageReport | End


class ErrorKind(StrEnum):
    """How a request to a model can fail."""

    rate_limited = "rate_limited"
    overloaded = "overloaded"
    unavailable = "unavailable"
    stream_cut = "stream_cut"
    context_overflow = "context_overflow"
    bad_request = "bad_request"
    auth = "auth"
    not_found = "not_found"
    refused = "refused"


class BackendError(Exception):
    """A request to a model failed.

    `message` is one lower-case sentence for people, without keys or headers; `retry_after_s` is what the provider
    asked for.
    """

    def __init__(self, kind: ErrorKind, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after_s = retry_after_s
