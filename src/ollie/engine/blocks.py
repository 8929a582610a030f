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
from msgspec.structs import replace

from ollie.engine.reader import BlockError, Reader

__all__ = ["Block", "BlockError", "Writer", "parse", "tail", "written"]

_PLAIN: Final = re.compile(r"[A-Za-z0-9._:/+-]+")
_LIKE_MARKER: Final = re.compile(r"^(?=\\*\[\[\[)", re.MULTILINE)
_UNDECIDED: Final = re.compile(r"\\*\[{0,2}")


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
    """The blocks of a file, or of what is written of it so far; a `BlockError` as of `Reader.feed`."""
    blocks: list[Block] = []
    payload: list[str] = []
    for part in Reader(strict=True).feed(data, final=True):
        if isinstance(part, str):
            payload.append(part)
        else:
            _close(blocks, payload)
            blocks.append(Block(part.kind, part.attributes))
    _close(blocks, payload)
    return blocks


def tail(data: bytes, limit_bytes: int) -> bytes:
    """The end of a file, from a marker on; from the beginning of a line where there is none.

    Args:
        data: the file, or its end with at least a byte more than the limit.
        limit_bytes: how much is given at most.
    """
    if len(data) <= limit_bytes:
        return data
    data = data[-limit_bytes - 1 :]
    at = data.find(b"\n[[[")
    return data[max(at if at >= 0 else data.find(b"\n"), 0) + 1 :]


def _close(blocks: list[Block], payload: list[str]) -> None:
    """Give the last block its payload."""
    if payload:
        blocks[-1] = replace(blocks[-1], text="".join(payload))
        payload.clear()


def _value(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
