"""What the model says in a turn, read from `chat.raw` as it grows."""

from ollie.engine.reader import Marker, Reader

_ANSWERS = frozenset({"answered", "question"})
_COMPLETE = frozenset({"tool", "user", "error", "end"})  # what follows a message that nothing is added to any more
_CUT = "[that was cut, and begins again]\n"


class Reply:
    """Takes pieces of `chat.raw`, cut anywhere, and gives the text of its assistant blocks, a blank line between them.

    A request to the model that failed may be made again, and the message begins anew: of what was given already, a
    line says so.

    Args:
        whole: give messages once they are complete, and nothing of those that began anew.

    Attributes:
        reason: why the turn ended, of its `end` block; empty while it runs.
        note: what the `end` block says beside it.
        error: what the last `error` block says.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self.reason = ""
        self.note = ""
        self.error = ""
        self._whole = whole
        self._reader = Reader()
        self._kind = ""
        self._gap = ""  # what stands between this block's words and those before
        self._last = ""  # the last character of what was said
        self._message = ""  # the words of the message that may begin anew
        self._before = ""  # the last character before it

    @property
    def ok(self) -> bool:
        """Whether the turn ended with an answer, or with a question."""
        return self.reason in _ANSWERS

    def feed(self, data: bytes) -> str:
        """The assistant's words that this piece adds."""
        return "".join(self._words(part) for part in self._reader.feed(data))

    def _words(self, part: Marker | str) -> str:
        if isinstance(part, Marker):
            return self._begin(part)
        text = self._payload(part)
        self._message += text
        return "" if self._whole else text

    def _begin(self, marker: Marker) -> str:
        given = ""
        if marker.kind == "error" and "retry_s" in marker.attributes:
            given = self._again()
        elif marker.kind in _COMPLETE:
            given = self._message if self._whole else ""
            self._message, self._before = "", self._last
        self._kind = marker.kind
        self._gap = ("\n" if self._last == "\n" else "\n\n") if self._last else ""
        if marker.kind == "error":
            self.error = ""
        if marker.kind == "end":
            self.reason = marker.attributes.get("reason", "")
        return given

    def _again(self) -> str:
        """The message so far counts for nothing."""
        message, self._message = self._message, ""
        if self._whole:
            self._last = self._before
            return ""
        if not message:
            return ""
        line = ("" if self._last == "\n" else "\n") + _CUT
        self._last = self._before = "\n"
        return line

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
