"""A reply while it streams in.

Texts are kept as few growing pieces: a new one is merged with its neighbours of similar size, as in a binary counter,
so that a long reply in small deltas costs neither a copy of the whole for each, nor a tuple of all of them.
"""

from msgspec import Struct
from msgspec.structs import replace

from ollie.engine.messages import CallDelta, ToolCall, UsageReport

Pieces = tuple[str, ...]


def joined(pieces: Pieces, text: str) -> Pieces:
    """The pieces with one more behind them."""
    while pieces and len(pieces[-1]) <= len(text):
        text = pieces[-1] + text
        pieces = pieces[:-1]
    return (*pieces, text)


class PartialCall(Struct, frozen=True):
    """A tool call whose arguments are still coming."""

    index: int
    id: str = ""
    name: str = ""
    arguments: Pieces = ()

    def more(self, delta: CallDelta) -> "PartialCall":
        """The call with a delta added; the first id and name that are not empty count."""
        return PartialCall(
            index=self.index,
            id=self.id or delta.id,
            name=self.name or delta.name,
            arguments=joined(self.arguments, delta.arguments) if delta.arguments else self.arguments,
        )


class Partial(Struct, frozen=True):
    """What has come of a reply so far."""

    texts: Pieces = ()
    reasonings: Pieces = ()
    parts: tuple[PartialCall, ...] = ()
    report: UsageReport | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.texts)

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self.reasonings)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls so far, in order of their index; only the end of the reply says that they are complete."""
        return tuple(
            ToolCall(part.id, part.name, "".join(part.arguments))
            for part in sorted(self.parts, key=lambda part: part.index)
        )

    @property
    def characters(self) -> int:
        """The size of everything so far."""
        texts = (*self.texts, *self.reasonings, *(piece for part in self.parts for piece in part.arguments))
        return sum(map(len, texts))

    def with_call(self, delta: CallDelta) -> "Partial":
        """The reply with a delta of a call added."""
        for at in range(len(self.parts) - 1, -1, -1):
            if self.parts[at].index == delta.index:
                parts = (*self.parts[:at], self.parts[at].more(delta), *self.parts[at + 1 :])
                return replace(self, parts=parts)
        return replace(self, parts=(*self.parts, PartialCall(delta.index).more(delta)))
