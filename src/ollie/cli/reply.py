"""What the model says in a turn, read from `chat.raw` as it grows."""

from ollie.engine.reader import Marker, Reader

_ANSWERS = frozenset({"answered", "question"})


class Reply:
    """Takes pieces of `chat.raw`, cut anywhere, and gives the text of its assistant blocks, a blank line between them.

    Attributes:
        reason: why the turn ended, of its `end` block; empty while it runs.
        note: what the `end` block says beside it.
        error: what the last `error` block says.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.note = ""
        self.error = ""
        self._reader = Reader()
        self._kind = ""
        self._gap = ""  # what stands between this block's words and those before
        self._last = ""  # the last character given out

    @property
    def ok(self) -> bool:
        """Whether the turn ended with an answer, or with a question."""
        return self.reason in _ANSWERS

    def feed(self, data: bytes) -> str:
        """The assistant's words that this piece adds."""
        return "".join(self._words(part) for part in self._reader.feed(data))

    def _words(self, part: Marker | str) -> str:
        if isinstance(part, str):
            return self._payload(part)
        self._begin(part)
        return ""

    def _begin(self, marker: Marker) -> None:
        self._kind = marker.kind
        self._gap = ("\n" if self._last == "\n" else "\n\n") if self._last else ""
        if marker.kind == "error":
            self.error = ""
        if marker.kind == "end":
            self.reason = marker.attributes.get("reason", "")

    def _payload(self, text: str) -> str:
        if self._kind == "error":
            self.error += text
        if self._kind == "end":
            self.note += text
        if self._kind != "assistant":
            return ""
        text, self._gap = self._gap + text, ""
        self._last = text[-1]
        return text
