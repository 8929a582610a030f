r"""What the model says in a turn, read from `chat.raw` as it grows.

`chat.raw` is a sequence of blocks: a marker line `[[[kind key=value …]]]` and the lines of a payload, in which a line
that looks like a marker begins with one backslash more than it had. Newlines join the lines of a payload, so the one
before the next marker is no part of it.
"""

import codecs

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
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # the beginning of a line that may still become a marker
        self._inside = False  # the beginning of this line was payload, and is out
        self._kind = ""
        self._first = True  # no line of the payload was seen
        self._gap = ""  # what stands between this block's words and those before
        self._last = ""  # the last character given out

    @property
    def ok(self) -> bool:
        """Whether the turn ended with an answer, or with a question."""
        return self.reason in _ANSWERS

    def feed(self, data: bytes) -> str:
        """The assistant's words that this piece adds."""
        *lines, rest = (self._held + self._decoder.decode(data)).split("\n")
        self._held = ""
        out = ""
        for line in lines:
            out += self._piece(line)
            self._inside = False
        if not self._inside and _may_be_marker(rest):
            self._held = rest
        elif rest:
            out += self._piece(rest)
            self._inside = True
        return out

    def _piece(self, text: str) -> str:
        """A line from its beginning, or the next part of one whose beginning is out."""
        if self._inside:
            return self._payload(text)
        if text.startswith("[[["):
            self._begin(text)
            return ""
        if text.startswith("\\") and text.lstrip("\\").startswith("[[["):
            text = text[1:]
        joint = "" if self._first else "\n"
        self._first = False
        return self._payload(joint + text)

    def _begin(self, marker: str) -> None:
        kind, *pairs = marker.strip("[]").split(" ")
        self._kind, self._first = kind, True
        self._gap = ("\n" if self._last == "\n" else "\n\n") if self._last else ""
        if kind == "error":
            self.error = ""
        if kind == "end":
            self.reason = dict(pair.partition("=")[::2] for pair in pairs).get("reason", "")

    def _payload(self, text: str) -> str:
        if self._kind == "error":
            self.error += text
        if self._kind == "end":
            self.note += text
        if self._kind != "assistant" or not text:
            return ""
        text, self._gap = self._gap + text, ""
        self._last = text[-1]
        return text


def _may_be_marker(beginning: str) -> bool:
    """Whether the beginning of a line does not tell yet what the line is."""
    rest = beginning.lstrip("\\")
    return rest.startswith("[[[") or "[[[".startswith(rest)
