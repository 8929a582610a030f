"""Reading the notation of `blocks.py` as it comes, in pieces that are cut anywhere.

Command lines import this module: it needs nothing that is slow to import.
"""

import codecs
import re

_PAIR = re.compile(r' ([a-z_]+)=("(?:[^"\\]|\\.)*"|[A-Za-z0-9._:/+-]+)')
_MARKER = re.compile(rf"\[\[\[([a-z]+)((?:{_PAIR.pattern})*)\]\]\]")


class BlockError(ValueError):
    """Bytes that are no blocks; its text says where."""


class Marker:
    """Where a block begins: its kind, and its attributes as text."""

    __slots__ = ("attributes", "kind")

    def __init__(self, kind: str, attributes: dict[str, str]) -> None:
        self.kind = kind
        self.attributes = attributes


class Reader:
    """Takes the pieces of a file of blocks, and gives its markers and the payload behind each.

    Args:
        strict: raise a `BlockError` for what is no block. Else a line that is only like a marker is one of no kind,
            and what is no UTF-8 is replaced.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict" if strict else "replace")
        self._held = ""  # the beginning of a line that may still become a marker
        self._inside = False  # the beginning of this line was payload, and is out
        self._first = True  # no line of the payload was seen
        self._begun = False  # a marker was seen
        self._line = 1

    def feed(self, data: bytes, *, final: bool = False) -> list[Marker | str]:
        """The markers that this piece completes, and the payload that it adds; both in their order.

        Args:
            data: the piece.
            final: it is the last one.

        Raises:
            BlockError: if strict: `line N is no marker: …`, `text before the first marker`, `not UTF-8`.
        """
        try:
            *lines, rest = (self._held + self._decoder.decode(data, final)).split("\n")
        except UnicodeDecodeError:
            raise BlockError("not UTF-8") from None
        self._held = ""
        parts: list[Marker | str] = []
        for line in lines:
            parts.append(self._part(line))
            self._inside = False
            self._line += 1
        if not self._inside and not final and _may_be_marker(rest):
            self._held = rest
        elif rest:
            parts.append(self._part(rest))
            self._inside = True
        return [part for part in parts if part]

    def _part(self, text: str) -> Marker | str:
        """What a line is, or the next part of one whose beginning is out."""
        if self._inside:
            return text
        if text.startswith("[[["):
            self._first, self._begun = True, True
            return self._marker(text)
        if text.startswith("\\") and text.lstrip("\\").startswith("[[["):
            text = text[1:]
        text = text if self._first else f"\n{text}"
        if text and self._strict and not self._begun:
            raise BlockError("text before the first marker")
        self._first = False
        return text

    def _marker(self, line: str) -> Marker:
        found = _MARKER.fullmatch(line)
        try:
            if found:
                return Marker(found[1], {key: _text(value) for key, value in _PAIR.findall(found[2])})
        except ValueError:  # a quoted value that is no JSON string
            pass
        if self._strict:
            raise BlockError(f"line {self._line} is no marker: {line[:80]}")
        return Marker("", {})


def _may_be_marker(beginning: str) -> bool:
    """Whether the beginning of a line does not tell yet what the line is."""
    rest = beginning.lstrip("\\")
    return rest.startswith("[[[") or "[[[".startswith(rest)


def _text(value: str) -> str:
    if not value.startswith('"'):
        return value
    import json  # noqa: PLC0415  hardly any value is quoted

    text: str = json.loads(value)
    return text
