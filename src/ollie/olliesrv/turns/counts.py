"""What an agent has used, as it is stored."""

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

    @classmethod
    def decode(cls, data: bytes) -> "Counts":
        """The counts as they were stored; none when nothing was."""
        return msgspec.json.decode(data, type=cls) if data else cls()

    def encode(self) -> bytes:
        """The counts as they are stored."""
        return msgspec.json.encode(self)
