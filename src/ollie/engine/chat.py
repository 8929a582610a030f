"""The two conversation files of an agent, rendered from its records as bytes to append.

`chat` is for people: prompts quoted with `> `, the model's words as they are, a blank line between them, and lines that
begin with `! ` for why a reply begins again, and why a turn ended otherwise than with an answer. `chat.raw` has
everything, in blocks (`blocks.py`):

    user       turn, or injected=true
    assistant  what the model said
    reasoning  what it thought
    tool       id, name; the arguments as JSON
    result     id, name; error=true when it is one; a block for each part, of an image with media_type and base64
    info       what a reader should know
    error      kind; retry_s when the request is repeated
    end        turn, reason, its tokens and cost; why it ended
"""

from msgspec import Struct

from ollie.engine import records as r
from ollie.engine.blocks import Block, Writer, written
from ollie.engine.messages import ImageContent, ToolResult


class ChatState(Struct, frozen=True):
    """How `chat` ends: nothing was written yet, the newlines at its end (2 stands for more), a reply is open."""

    empty: bool = True
    newlines: int = 2
    speaking: bool = False


def render_chat(state: ChatState, record: r.Record) -> tuple[ChatState, bytes]:
    """What a record adds to `chat`."""
    match record:
        case r.Spoke(text):
            if not state.speaking:
                text = text.lstrip("\n")
                gap = _gap(state) if text else ""
                return _after(state, gap + text, speaking=bool(text))
            return _after(state, text, speaking=True)
        case r.Prompted(text=text) | r.Injected(text):
            return _lines(state, "> ", text)
        case r.Noted(text):
            return _lines(state, "! ", text)
        case r.Ended(note=note) if note:
            return _lines(state, "! ", note)
        case r.Failed(text=text, retry_s=float()) if state.speaking:
            return _lines(state, "! ", f"cut, and asked for again: {text}")
        case r.Answered() | r.Failed() | r.Ended():
            return _after(state, "" if state.newlines else "\n", speaking=False)
        case _:
            return state, b""


def _lines(state: ChatState, mark: str, text: str) -> tuple[ChatState, bytes]:
    """A paragraph whose lines begin with a mark."""
    lines = text.rstrip("\n").split("\n")
    return _after(state, _gap(state) + "".join(f"{mark}{line}".rstrip() + "\n" for line in lines), speaking=False)


def _gap(state: ChatState) -> str:
    return "" if state.empty else "\n" * (2 - state.newlines)


def _after(state: ChatState, text: str, *, speaking: bool) -> tuple[ChatState, bytes]:
    if not text:
        return ChatState(state.empty, state.newlines, speaking), b""
    trailing = len(text) - len(text.rstrip("\n"))
    newlines = trailing if trailing < len(text) else state.newlines + trailing
    return ChatState(empty=False, newlines=min(newlines, 2), speaking=speaking), text.encode(errors="replace")


def render_raw(state: Writer, record: r.Record) -> tuple[Writer, bytes]:
    """What a record adds to `chat.raw`. A new file begins with `Writer()`; behind an `Ended` it is that again."""
    match record:
        case r.Spoke(text):
            state, out = _stream(state, "assistant", text)
        case r.Reasoned(text):
            state, out = _stream(state, "reasoning", text)
        case _:
            state, out = state.end()
            for block in blocks_of(record):
                out += written(block)
    return state, out.encode(errors="replace")


def _stream(state: Writer, kind: str, text: str) -> tuple[Writer, str]:
    """Go on with the open block when it is of this kind, else begin one."""
    marker = ""
    if state.kind != kind:
        state, marker = state.begin(kind)
    state, payload = state.more(text)
    return state, marker + payload


def blocks_of(record: r.Record) -> list[Block]:
    """The blocks of a record. Those of `Spoke` and `Reasoned` that follow one another are written as one."""
    match record:
        case r.Spoke(text):
            return [Block("assistant", {}, text)]
        case r.Reasoned(text):
            return [Block("reasoning", {}, text)]
        case r.Answered(message):
            return [Block("tool", {"id": call.id, "name": call.name}, call.arguments) for call in message.calls]
        case r.Returned(result):
            return _parts(result)
        case r.Prompted(turn, text):
            return [Block("user", {"turn": str(turn)}, text)]
        case r.Injected(text):
            return [Block("user", {"injected": "true"}, text)]
        case r.Reminded(text) | r.Noted(text):
            return [Block("info", {}, text)]
        case r.Failed(kind, text, retry_s):
            again = {} if retry_s is None else {"retry_s": f"{retry_s:.1f}"}
            return [Block("error", {"kind": kind.value} | again, text)]
        case r.Ended():
            return [Block("end", _ended(record), record.note)]


def _parts(result: ToolResult) -> list[Block]:
    attributes = {"id": result.call_id, "name": result.name} | ({"error": "true"} if result.is_error else {})
    return [
        Block("result", attributes | {"media_type": part.media_type}, part.data)
        if isinstance(part, ImageContent)
        else Block("result", attributes, part.text)
        for part in result.content
    ]


def _ended(record: r.Ended) -> dict[str, str]:
    usage = record.usage
    return {
        "turn": str(record.turn),
        "reason": record.reason.value,
        "input_tokens": str(usage.input_tokens),
        "cached_input_tokens": str(usage.cached_input_tokens),
        "output_tokens": str(usage.output_tokens),
        "reasoning_tokens": str(usage.reasoning_tokens),
        "cost_usd": f"{record.cost_usd:.6f}",
    }
