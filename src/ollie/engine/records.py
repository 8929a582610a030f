"""What happened in a conversation, in order. The chat files are rendered from records, and so is the history.

`Spoke` and `Reasoned` come in pieces while the model speaks; the `Answered` behind them holds the reply as the history
keeps it. Texts are whole words of the user, the model or a tool; nothing is escaped here.
"""

from enum import StrEnum

from msgspec import Struct

from ollie.engine.messages import Assistant, ErrorKind, Message, ToolResult, Usage, User


class Reason(StrEnum):
    """Why a turn ended."""

    answered = "answered"
    question = "question"
    stopped = "stopped"
    limit = "limit"
    failed = "failed"


class Prompted(Struct, frozen=True, tag="prompted"):
    """A turn began with these words of the user; turns count from 1."""

    turn: int
    text: str


class Injected(Struct, frozen=True, tag="injected"):
    """Words given to the model in the middle of a turn."""

    text: str


class Reminded(Struct, frozen=True, tag="reminded"):
    """The model was shown its plan again, with this text."""

    text: str


class Spoke(Struct, frozen=True, tag="spoke"):
    """A piece of the model's text."""

    text: str


class Reasoned(Struct, frozen=True, tag="reasoned"):
    """A piece of the model's reasoning."""

    text: str


class Answered(Struct, frozen=True, tag="answered"):
    """A reply is complete, or was interrupted and is kept as far as it came."""

    message: Assistant


class Returned(Struct, frozen=True, tag="returned"):
    """A tool call has its result."""

    result: ToolResult


class Noted(Struct, frozen=True, tag="noted"):
    """Something a reader should know."""

    text: str


class Failed(Struct, frozen=True, tag="failed"):
    """A request to the model failed. It is repeated after `retry_s`, or was not when that is None."""

    kind: ErrorKind
    text: str
    retry_s: float | None = None


class Ended(Struct, frozen=True, tag="ended"):
    """The turn is over; `usage` and `cost_usd` are the whole turn's."""

    turn: int
    reason: Reason
    note: str = ""
    usage: Usage = Usage()
    cost_usd: float = 0.0


Record = Prompted | Injected | Reminded | Spoke | Reasoned | Answered | Returned | Noted | Failed | Ended


def message_of(record: Record) -> Message | None:
    """What the record adds to the history; None for what only the chat shows."""
    match record:
        case Prompted(text=text) | Injected(text) | Reminded(text):
            return User(text)
        case Answered(message):
            return message
        case Returned(result):
            return result
        case _:
            return None
