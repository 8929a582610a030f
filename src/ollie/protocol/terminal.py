r"""Output as a model should see it: text without terminal control sequences.

Bytes are decoded as UTF-8; colours, titles, hyperlinks and cursor movements go; `\r\n` is a newline; a backspace takes
the character before it; and of a line that was written over again and again, as progress bars are, the last writing
stays. The result does not depend on how the bytes were cut into pieces. What is held back is bounded: of a line longer
than 64 Ki characters the beginning is given out before it ends, and a control sequence longer than 4 Ki is none.
"""

import codecs
import re

LINE_CHARACTERS = 64 * 1024

# ECMA-48: control sequences (5.4), control strings (5.6), other escapes (5.3.3); whatever else an escape begins; then
# control characters: C0 except backspace, tab, newline and carriage return; DEL; C1. A string ends at BEL, and before
# an escape (that of its terminator goes like any other) or the end of its line: one that was cut off must not swallow
# what follows it.
_REMOVED = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|(?=[\x1b\n])|\Z)"
    r"|\x1b[ -/]{0,8}[0-OQ-WYZ\\`-~]"
    r"|\x1b[\[\]PX^_]?"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_UNFINISHED = re.compile(r"(?:\x1b\[[0-?]{0,64}[ -/]{0,8}|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}|\x1b[ -/]{0,8})\Z")
_MOVE = re.compile(r"([\n\r\b])")
# Between two returns, and written over: most of what a progress bar prints.
_WRITTEN_OVER = re.compile(r"(?<=\r)[^\n\r\b]{1,1000}\r+(?=[^\n\r\b])")


class Plain:
    """Removes control sequences from output that comes in pieces.

    What `feed` and `finish` return, joined, is the text.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""  # the beginning of a control sequence
        self._line = ""  # the last line, as it looks so far
        self._returned = False  # after a `\r`: what is written next starts the line anew

    def feed(self, data: bytes) -> str:
        """What `data` completes: as a rule the lines that end in it."""
        return self._write(self._strip(self._decoder.decode(data)))

    def finish(self) -> str:
        """What was held back, at the end of the output; a cut-off control sequence is dropped."""
        text = self._write(self._strip(self._decoder.decode(b"", final=True))) + self._line
        self._unfinished = self._line = ""
        return text

    def _strip(self, text: str) -> str:
        """`text` without control sequences and control characters that write nothing."""
        text = self._unfinished + text
        # No sequence has an escape but its first character, so only the last one can be unfinished.
        last = text.rfind("\x1b")
        if last < 0 or not _UNFINISHED.match(text, last):
            last = len(text)
        self._unfinished = text[last:]
        return _REMOVED.sub("", text[:last])

    def _write(self, text: str) -> str:
        """Write `text` on the line; returns the lines that it ended."""
        text = text.replace("\r\n", "\n")
        if not self._returned and "\r" not in text and "\b" not in text:
            return self._append(text)
        text = _WRITTEN_OVER.sub("", text)
        return "".join(self._step(piece) for piece in _MOVE.split(text) if piece)

    def _append(self, text: str) -> str:
        text = self._line + text
        end = text.rfind("\n") + 1
        # What is given out of a long line depends on its length alone.
        end += (len(text) - end) // LINE_CHARACTERS * LINE_CHARACTERS
        self._line = text[end:]
        return text[:end]

    def _step(self, piece: str) -> str:
        if piece == "\r":
            self._returned = True
            return ""
        if piece == "\b":
            if not self._returned:
                self._line = self._line[:-1]
            return ""
        if self._returned and piece != "\n":
            self._line = ""
        self._returned = False
        return self._append(piece)


def plain(data: bytes) -> str:
    """The text of a whole output."""
    reader = Plain()
    return reader.feed(data) + reader.finish()
