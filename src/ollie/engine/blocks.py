r"""The notation of chat.raw: blocks of a marker line and a payload.

    [[[tool id=call_1 name=shell]]]
    {"cmd": "ls"}

A marker is a line of its own: a kind, then `key=value` pairs; a value that is not plain is a JSON string. A payload
line that could be taken for a marker, `[[[` behind any number of backslashes, is written with one backslash more. A
payload that is not empty is followed by one newline, which is not part of it. So the notation holds any payload
exactly, and it can be written while the payload still comes: what was written is never changed.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

_PLAIN: Final = re.compile(r"[A-Za-z0-9._:/+-]+")
_PAIR: Final = re.compile(r' ([a-z_]+)=("(?:[^"\\]|\\.)*"|[A-Za-z0-9._:/+-]+)')
_MARKER: Final = re.compile(rf"\[\[\[([a-z]+)((?:{_PAIR.pattern})*)\]\]\]")
_LIKE_MARKER: Final = re.compile(r"^(?=\\*\[\[\[)", re.MULTILINE)
_ESCAPED: Final = re.compile(r"^\\(?=\\*\[\[\[)", re.MULTILINE)
_UNDECIDED: Final = re.compile(r"\\*\[{0,2}")


class BlockError(ValueError):
    """Bytes that are no blocks; its text says where."""


class Block(Struct, frozen=True):
    """A block: its kind, its attributes as text, its payload."""

    kind: str
    attributes: Mapping[str, str]
    text: str = ""


class Writer(Struct, frozen=True):
    """How far a file of blocks is written.

    Args:
        kind: of the block that is open; empty when none is.
        any: it has payload.
        fresh: the file ends at the beginning of a line.
        held: the beginning of a payload line that is not written yet, since it may have to be escaped.
    """

    kind: str = ""
    any: bool = False
    fresh: bool = True
    held: str = ""

    def begin(self, kind: str, attributes: Mapping[str, str] | None = None) -> "tuple[Writer, str]":
        """End the open block and begin another; returns what to append to the file."""
        _, ending = self.end()
        pairs = "".join(f" {key}={_value(value)}" for key, value in (attributes or {}).items())
        return Writer(kind), f"{ending}[[[{kind}{pairs}]]]\n"

    def more(self, payload: str) -> "tuple[Writer, str]":
        """Add payload to the open block; returns what to append to the file."""
        if not payload:
            return self, ""
        text = self.held + payload
        if not self.fresh:
            start = text.find("\n") + 1
            if not start:
                return self, text
        else:
            start = 0
        last = text.rfind("\n") + 1
        held = text[last:] if last >= start and _UNDECIDED.fullmatch(text, last) else ""
        text = text[: len(text) - len(held)]
        out = text[:start] + _LIKE_MARKER.sub(r"\\", text[start:])
        return Writer(self.kind, any=True, fresh=bool(held) or not out or out.endswith("\n"), held=held), out

    def end(self) -> "tuple[Writer, str]":
        """End the open block, if one is; returns what to append to the file."""
        return Writer(), f"{self.held}\n" if self.any else ""


def written(block: Block) -> str:
    """A whole block as text."""
    writer, marker = Writer().begin(block.kind, block.attributes)
    writer, payload = writer.more(block.text)
    return marker + payload + writer.end()[1]


def parse(data: bytes) -> list[Block]:
    """The blocks of a file, or of what is written of it so far.

    Raises:
        BlockError: `line N is no marker: …`, `text before the first marker`, `not UTF-8`.
    """
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise BlockError("not UTF-8") from None
    blocks: list[Block] = []
    payload: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.startswith("[[["):
            payload.append(line)
            continue
        _close(blocks, payload)
        marker = _MARKER.fullmatch(line)
        if marker is None:
            raise BlockError(f"line {number} is no marker: {line[:80]}")
        blocks.append(Block(marker[1], {key: _text(value) for key, value in _PAIR.findall(marker[2])}))
        payload = []
    if payload and not payload[-1]:
        payload.pop()
    _close(blocks, payload)
    return blocks


def tail(data: bytes) -> bytes:
    """The data from its first marker on: the end of a file, cut at a block. Empty when it has none."""
    if data.startswith(b"[[["):
        return data
    at = data.find(b"\n[[[")
    return data[at + 1 :] if at >= 0 else b""


def _close(blocks: list[Block], payload: list[str]) -> None:
    """Give the last block its payload."""
    text = _ESCAPED.sub("", "\n".join(payload))
    if blocks:
        blocks[-1] = Block(blocks[-1].kind, blocks[-1].attributes, text)
    elif text:
        raise BlockError("text before the first marker")


def _value(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _text(value: str) -> str:
    text: str = json.loads(value) if value.startswith('"') else value
    return text
