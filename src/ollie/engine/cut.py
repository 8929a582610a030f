"""Closing a turn that was cut because the server ended in the middle of it.

What is known then is what was stored: the history, and how far `chat.raw` got. The turn is not taken up again, for
nobody knows what of it has happened already. It ends as one that was stopped does: what the model was saying is kept,
each call has a result, and a note says why.
"""

from collections.abc import Sequence

from msgspec import Struct

from ollie.engine.blocks import Block, BlockError, Writer, parse
from ollie.engine.messages import Assistant, Message, TextContent, ToolCall, ToolResult
from ollie.engine.records import Answered, Ended, Reason, Record, Returned

NOTE = "interrupted: the server ended in the middle of this turn"
RESULT = "interrupted: the server ended while it ran; it may have run"
_STREAMED = frozenset({"assistant", "reasoning"})


class Cut(Struct, frozen=True):
    """How a `chat.raw` was left.

    Args:
        writer: goes on behind its last byte.
        said: the words of the reply that was not complete.
    """

    writer: Writer
    said: str = ""


def look(history: Sequence[Message], end: bytes) -> Cut:
    """How a file was left in the middle of a turn.

    Args:
        history: as it is stored; it and the file are of the same moment.
        end: the last bytes of the file, all of them when there are not many.
    """
    block = _last(end)
    complete = bool(history) and isinstance(history[-1], Assistant)  # its blocks were ended in the step that stored it
    if block is not None and block.kind in _STREAMED and not complete:
        writer = Writer(block.kind, any=not end.endswith(b"]]]\n"), fresh=end.endswith(b"\n"))
        return Cut(writer, block.text if block.kind == "assistant" else "")
    unended = bool(end) and not end.endswith(b"\n")
    return Cut(Writer("assistant", any=True, fresh=False) if unended else Writer())


def close(history: Sequence[Message], said: str, turn: int, cost_usd: float) -> tuple[Record, ...]:
    """What ends a turn that was cut.

    Args:
        history: as it is stored.
        said: the words of the reply that was not complete.
        turn: its number.
        cost_usd: what it cost as far as it is known.
    """
    answered = [Answered(Assistant(said))] if said.strip() else []
    results = [Returned(_lost(call)) for call in _unanswered(history)]
    return (*answered, *results, Ended(turn, Reason.stopped, NOTE, cost_usd=cost_usd))


def last_words(history: Sequence[Message]) -> str:
    """The model's last text, empty when it said nothing."""
    texts = (message.text for message in reversed(history) if isinstance(message, Assistant) and message.text.strip())
    return next(texts, "")


def _unanswered(history: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls at the end of a history that have no result."""
    results = 0
    for message in reversed(history):
        if isinstance(message, ToolResult):
            results += 1
        else:
            return message.calls[results:] if isinstance(message, Assistant) else ()
    return ()


def _lost(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, (TextContent(RESULT),), is_error=True)


def _last(end: bytes) -> Block | None:
    """The last block of a file; None when it begins before these bytes."""
    at = end.rfind(b"\n[[[") + 1  # payload never has this
    try:
        return parse(end[at:])[-1] if end.startswith(b"[[[", at) else None
    except BlockError:
        return None
