"""What an agent has used, as it is stored and as `stats` shows it."""

import datetime as dt

import msgspec

from ollie.engine.cost import Totals


class Counts(msgspec.Struct, frozen=True):
    """The counts of an agent.

    Args:
        totals: over its life.
        cost_last_turn_usd: of the turn that runs or ran last.
        turn_chat_offset: where that turn begins in `chat`, in bytes.
        completed: the keys of the last messages about background runs.
    """

    totals: Totals = Totals()
    cost_last_turn_usd: float = 0.0
    turn_chat_offset: int = 0
    completed: tuple[str, ...] = ()


def decode(data: bytes) -> Counts:
    """The counts as they were stored; none when nothing was."""
    return msgspec.json.decode(data, type=Counts) if data else Counts()


def encode(counts: Counts) -> bytes:
    """The counts as they are stored."""
    return msgspec.json.encode(counts)


def lines(counts: Counts) -> dict[str, str]:
    """The counts by key of `stats`."""
    totals, usage = counts.totals, counts.totals.usage
    return {
        "turns": str(totals.turns),
        "requests": str(totals.requests),
        "tool_calls": str(totals.tool_calls),
        "errors": str(totals.errors),
        "input_tokens": str(usage.input_tokens),
        "cached_input_tokens": str(usage.cached_input_tokens),
        "output_tokens": str(usage.output_tokens),
        "reasoning_tokens": str(usage.reasoning_tokens),
        "estimated": str(totals.estimated),
        "cost_usd": f"{totals.cost_usd:.6f}",
        "cost_last_turn_usd": f"{counts.cost_last_turn_usd:.6f}",
        "context_tokens": str(totals.context_tokens),
    }


def moment(seconds: float) -> str:
    """A time since the epoch, in ISO 8601 and UTC."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")
