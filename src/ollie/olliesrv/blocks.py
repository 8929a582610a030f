r"""The notation of `chat.raw`: events as blocks of text that a person can read and a parser gets back exactly.

A block is a marker line `[[[kind key=value …]]]` and a payload. A payload that is not empty is followed by one newline
of the notation's own, so that the next marker begins a line whatever the payload ends in. A payload line that begins
with `[[[`, after any number of backslashes, is written with one more backslash before it. A value is written bare
where that is unambiguous, else as a JSON string.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

Value = str | int | float

_VALUE = r'"(?:[^"\\]|\\.)*"|[^\s"\]]+'
_MARKER = re.compile(rf"\[\[\[([a-z]+)((?: [a-z_]+=(?:{_VALUE}))*)\]\]\]")
_PAIR = re.compile(rf" ([a-z_]+)=({_VALUE})")
_BARE = re.compile(r"[!#-\\^-~]+")  # printable ASCII without the quote and the closing bracket
_ESCAPED = re.compile(r"\\*\[\[\[")
_UNDECIDED = re.compile(r"\\*\[{0,2}")


@dataclass(frozen=True)
class Block:
    """One event: its kind, the values of its marker, and its payload."""

    kind: str
    values: Mapping[str, str] = field(default_factory=dict)
    payload: str = ""


class Writer:
    """Writes blocks whose payload comes in pieces. Each method returns the text to append to what was written."""

    def __init__(self) -> None:
        self.open = ""  # the kind of the block that is open
        self._empty = True
        self._held: str | None = None  # the beginning of a line that may turn out to need a backslash; None in a line

    def begin(self, kind: str, values: Mapping[str, Value] | None = None) -> str:
        """End the block that is open, and begin another."""
        ended = self.end()
        self.open, self._empty, self._held = kind, True, ""
        return ended + marker(kind, values or {})

    def text(self, piece: str) -> str:
        """Add to the payload of the block that is open."""
        assert self.open
        if not piece:
            return ""
        self._empty = False
        *whole, last = piece.split("\n")
        done = "".join(self._piece(line) + self._newline() for line in whole)
        return done + self._piece(last)

    def end(self) -> str:
        """End the block that is open, if one is."""
        rest = "" if self._empty else (self._held or "") + "\n"
        self.open, self._empty, self._held = "", True, None
        return rest

    def _piece(self, piece: str) -> str:
        """A part of one line; its beginning is held back until it is known whether it needs a backslash."""
        if self._held is None:
            return piece
        line = self._held + piece
        if _UNDECIDED.fullmatch(line):
            self._held = line
            return ""
        self._held = None
        return _escape(line)

    def _newline(self) -> str:
        rest = self._held or ""
        self._held = ""
        return rest + "\n"


def marker(kind: str, values: Mapping[str, Value]) -> str:
    """A marker line, newline included."""
    pairs = "".join(f" {key}={_quote(str(value))}" for key, value in values.items())
    return f"[[[{kind}{pairs}]]]\n"


def write(blocks: Iterable[Block]) -> str:
    """Whole blocks as text."""
    writer = Writer()
    return "".join(
        writer.begin(block.kind, block.values) + writer.text(block.payload) + writer.end() for block in blocks
    )


def parse(text: str) -> Iterator[Block]:
    """The blocks of a text; what stands before its first marker is left out, its last block may be unfinished."""
    kind, values, lines = "", "", list[str]()
    for line in text.removesuffix("\n").split("\n"):
        match = _MARKER.fullmatch(line)
        if match is None:
            lines.append(line[1:] if line.startswith("\\") and _ESCAPED.match(line) else line)
            continue
        if kind:
            yield Block(kind, _values(values), "\n".join(lines))
        kind, values, lines = match[1], match[2], []
    if kind:
        yield Block(kind, _values(values), "\n".join(lines))


def tail(data: bytes, limit_bytes: int) -> bytes:
    """The end of a text of blocks, from the first marker within the limit; a longer block is cut at a line."""
    if len(data) <= limit_bytes:
        return data
    cut = data[len(data) - limit_bytes - 1 :]  # with the byte before, which may be the newline before a marker
    at = cut.find(b"\n[[[")
    at = cut.find(b"\n") if at < 0 else at
    return cut[at + 1 :]


def _escape(line: str) -> str:
    return "\\" + line if _ESCAPED.match(line) else line


def _quote(value: str) -> str:
    return value if _BARE.fullmatch(value) else json.dumps(value)


def _values(text: str) -> dict[str, str]:
    return {key: json.loads(value) if value[0] == '"' else value for key, value in _PAIR.findall(text)}
