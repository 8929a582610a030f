"""file_read: a text file, or a part of it by lines."""

import codecs
import sys
from typing import IO

from ollie.tools import files, program
from ollie.tools.program import Arguments, ToolError

# Below what a result may have, so that this tool says what is missing and nothing else cuts it.
LIMIT_BYTES = 30 * 1024
COUNTED_BYTES = 256 * 1024 * 1024


def main() -> int:
    """Run the tool."""
    return program.run(read)


def read(arguments: Arguments) -> str:
    """Lines of the file `path` from line `offset` on: `limit` of them, or as many as fit into 30 KiB.

    Lines in brackets at the end say what is left, and what is not shown as it is.
    """
    path = files.located(arguments["path"])
    first, limit = int(arguments.get("offset", 1)), int(arguments.get("limit", sys.maxsize))
    size = files.status(path).st_size
    with open(path, "rb") as file:
        if files.is_binary(file.peek()):
            raise ToolError(f"{path}: is binary, {size} bytes")
        window = _Window(first, limit)
        window.read(file)
    if window.lines == 0:
        return f"[{path} is empty]\n"
    if first > window.lines:
        raise ToolError(f"{path}: has {window.lines} lines, so there is no line {first}")
    return window.text()


class _Window:
    """The lines asked for, as many as fit, and how many there are in all.

    Args:
        first: the number of the first line.
        limit: how many lines.
        counted_bytes: so much of the file is read to count its lines.
    """

    def __init__(self, first: int, limit: int, counted_bytes: int = COUNTED_BYTES) -> None:
        self.lines = 0
        self._first = first
        self._limit = limit
        self._counted_bytes = counted_bytes
        self._kept: list[bytes] = []
        self._room = LIMIT_BYTES
        self._last = first - 1  # the last line that was kept
        self._cut = 0  # bytes missing at its end
        self._more = ""  # when not all lines were counted

    def read(self, file: IO[bytes]) -> None:
        """Go over the file; a line that is longer than all the room comes in pieces."""
        begins, seen = True, 0
        while piece := file.readline(LIMIT_BYTES):
            if begins:
                self.lines += 1
                self._take(piece)
            elif self._last == self.lines:
                self._cut += len(piece)
            begins = piece.endswith(b"\n")
            seen += len(piece)
            if begins and seen > self._counted_bytes and self.lines > max(self._last, self._first):
                self._more = "more than "
                return

    def _take(self, piece: bytes) -> None:
        """Keep a line, or the first piece of one, when it is asked for, fits, and none before it was left out."""
        wanted = self._first <= self.lines < self._first + self._limit
        if wanted and self._last == self.lines - 1 and len(piece) <= self._room:
            self._kept.append(piece)
            self._room -= len(piece)
            self._last = self.lines

    def text(self) -> str:
        """The lines, and what is to be said about them."""
        data = b"".join(self._kept)
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=not self._cut)
        notes = []
        if self._cut:
            notes.append(f"line {self._last} is too long: {self._cut} more bytes of it are not shown")
        if self._first > 1 or self._last < self.lines:
            left = f"; go on with offset {self._last + 1}" if self._last < self.lines else ""
            notes.append(f"lines {self._first}-{self._last} of {self._more}{self.lines}{left}")
        if "\ufffd" in text and "\ufffd".encode() not in data:
            notes.append("not UTF-8: \ufffd stands for what is not")
        if notes and not text.endswith("\n"):
            text += "\n"
        return text + "".join(f"[{note}]\n" for note in notes)


if __name__ == "__main__":
    sys.exit(main())
