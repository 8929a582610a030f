r"""A message as one line of text, and back: the trace and the transcripts of tests.

    Tversion tag=~ msize=8192 version="9P2000"
    Twalk tag=1 fid=0 newfid=1 wname=["session" "new"]
    Rwalk tag=1 wqid=[80.0.0 0.0.10002]
    Rread tag=3 data="idle\n"
    Twstat tag=4 fid=1 stat={length=0}

Numbers are decimal, or `0x…` and `0o…` when read; `~` is the largest number of its place (NOTAG, NOFID). A qid is its
type in hexadecimal, version in decimal and path in hexadecimal. Strings and data are quoted, with the escapes
`\n \t \r \" \\ \xNN`. A stat lists what is not a "don't touch" value. `parse_message(format_message(m)) == m`.
"""

from dataclasses import fields
from typing import Any

from ninep import _wire
from ninep.messages import MESSAGES, Message, Qid, Stat

TRACE_BYTES = 128

_MAXIMA = {
    "tag": _wire.MAX16,
    "oldtag": _wire.MAX16,
    "type": _wire.MAX16,
    "length": _wire.MAX64,
    "offset": _wire.MAX64,
}
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_UNESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_NULL = Stat()


class NotationError(ValueError):
    """A line that is no message; its text says where."""


def format_message(message: Message, data_limit: int | None = None) -> str:
    """One line. Data longer than `data_limit` bytes is cut, with `+N` for the rest: such a line cannot be read back."""
    words = [type(message).__name__]
    words += [
        f"{field.name}={_format(field.name, getattr(message, field.name), data_limit)}" for field in fields(message)
    ]
    return " ".join(words)


def _format(name: str, value: Any, data_limit: int | None) -> str:
    if isinstance(value, int):
        return "~" if value == _MAXIMA.get(name, _wire.MAX32) else str(value)
    if isinstance(value, bytes):
        if data_limit is not None and len(value) > data_limit:
            return f"{_quote(value[:data_limit])}+{len(value) - data_limit}"
        return _quote(value)
    if isinstance(value, str):
        return _quote(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, Qid):
        return f"{value.type:x}.{value.vers}.{value.path:x}"
    if isinstance(value, Stat):
        parts = [(field.name, getattr(value, field.name)) for field in fields(value)]
        return "{" + " ".join(f"{n}={_format(n, v, None)}" for n, v in parts if v != getattr(_NULL, n)) + "}"
    return "[" + " ".join(_format(name, item, data_limit) for item in value) + "]"


def _quote(data: bytes) -> str:
    return '"' + "".join(map(_escape, data.decode("utf-8", "surrogateescape"))) + '"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


def parse_message(line: str) -> Message:
    """The message that a line stands for; NotationError when it is none."""
    name, _, rest = line.strip().partition(" ")
    cls = MESSAGES.get(name)
    if cls is None:
        raise NotationError(f"no message is called {name!r}")
    given = dict(_Reader(rest).pairs(""))
    kinds = {field.name: field.type for field in fields(cls)}
    if given.keys() != kinds.keys():
        raise NotationError(f"{name} has the fields {', '.join(kinds)}")
    try:
        return cls(**{key: _convert(key, kinds[key], value) for key, value in given.items()})
    except (TypeError, ValueError) as error:
        raise NotationError(f"{line.strip()}: {error}") from None


def _convert(name: str, kind: Any, value: Any) -> Any:
    if kind is int:
        return _number(name, value)
    if kind is bytes or kind is str:
        if not isinstance(value, bytes):
            raise NotationError(f"{name} is a quoted string")
        return value if kind is bytes else value.decode("utf-8", "surrogateescape")
    if kind is Qid:
        return _qid(value)
    if kind is Stat:
        kinds = {field.name: field.type for field in fields(Stat)}
        return Stat(**{key: _convert(key, kinds[key], item) for key, item in value})
    (item_kind, _) = kind.__args__
    return tuple(_convert(name, item_kind, item) for item in value)


def _number(name: str, value: str) -> int:
    return _MAXIMA.get(name, _wire.MAX32) if value == "~" else int(value, 0)


def _qid(value: str) -> Qid:
    kind, vers, path = value.split(".")
    return Qid(int(kind, 16), int(vers), int(path, 16))


class _Reader:
    """Reads `name=value` pairs: words, quoted strings, lists in brackets, pairs in braces."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0

    def pairs(self, close: str) -> list[tuple[str, Any]]:
        """Up to `close`, or to the end of the line."""
        found: list[tuple[str, Any]] = []
        while not self._closes(close):
            name = self._word("=")
            self._at += 1
            found.append((name, self._value()))
        return found

    def _closes(self, close: str) -> bool:
        while self._line[self._at : self._at + 1] == " ":
            self._at += 1
        if self._at >= len(self._line):
            if close:
                raise NotationError(f"{close!r} is missing")
            return True
        if close and self._line[self._at] == close:
            self._at += 1
            return True
        return False

    def _word(self, end: str) -> str:
        start = self._at
        while self._at < len(self._line) and self._line[self._at] not in f"{end} ]}}":
            self._at += 1
        if end and self._line[self._at : self._at + 1] != end:
            raise NotationError(f"{end!r} is missing after {self._line[start : self._at]!r}")
        return self._line[start : self._at]

    def _value(self) -> Any:
        opening = self._line[self._at : self._at + 1]
        if opening not in {'"', "[", "{"} or not opening:
            return self._word("")
        self._at += 1
        if opening == '"':
            return self._string()
        if opening == "{":
            return self.pairs("}")
        items = []
        while not self._closes("]"):
            items.append(self._value())
        return items

    def _string(self) -> bytes:
        data = bytearray()
        while True:
            char = self._line[self._at : self._at + 1]
            self._at += 1
            if not char:
                raise NotationError("a string does not end")
            if char == '"':
                return bytes(data)
            if char == "\\":
                data += self._escaped()
            else:
                data += char.encode("utf-8", "surrogateescape")

    def _escaped(self) -> bytes:
        char = self._line[self._at : self._at + 1]
        self._at += 1
        if char == "x":
            self._at += 2
            return bytes.fromhex(self._line[self._at - 2 : self._at])
        if char not in _UNESCAPES:
            raise NotationError(f"\\{char} is no escape")
        return _UNESCAPES[char].encode()
