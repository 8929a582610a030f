r"""Records: what is written to a `new` file, and to `cfg`.

A record is `key=value` pairs separated by blanks or newlines. A value may be quoted as in a shell: `'…'` keeps
everything, `"…"` keeps blanks, and a backslash keeps the character after it. `prompt=` is different: it takes the rest
of its line as it stands, in which `\n` is a newline and `\\` a backslash.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ollie.olliesrv.errors import RefusedError, unknown

_REST: Final = "prompt"
_BLANKS: Final = " \t\r\n"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")


def parse_record(data: bytes, known: Sequence[str]) -> dict[str, str]:
    """The pairs of a record, in the order they were written.

    Args:
        data: the record, UTF-8.
        known: the keys it may have.

    Raises:
        RefusedError: `record is not UTF-8`, `NUL in record`, `unknown key: K (known: …)`, `key given twice: K`,
            `expected key=value: WORD`, `unclosed quote: K`.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise RefusedError("record is not UTF-8") from None
    if "\0" in text:
        raise RefusedError("NUL in record")
    record: dict[str, str] = {}
    at = _skip(text, 0)
    while at < len(text):
        key, at = _key(text, at)
        if key not in known:
            raise unknown("key", key, known)
        if key in record:
            raise RefusedError(f"key given twice: {key}")
        record[key], at = _rest(text, at) if key == _REST else _word(text, at, key)
        at = _skip(text, at)
    return record


def format_record(record: Mapping[str, str]) -> bytes:
    """The record as it is written: `parse_record` gives the same pairs back."""
    lines = (f"{key}={_escape(value) if key == _REST else _quote(value)}\n" for key, value in record.items())
    return "".join(lines).encode()


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _key(text: str, at: int) -> tuple[str, int]:
    end = at
    while end < len(text) and text[end] not in _BLANKS:
        if text[end] == "=":
            return text[at:end], end + 1
        end += 1
    raise RefusedError(f"expected key=value: {text[at:end]}")


def _word(text: str, at: int, key: str) -> tuple[str, int]:
    """A value quoted as in a shell, and where it ends."""
    pieces: list[str] = []
    while at < len(text) and text[at] not in _BLANKS:
        if text[at] == "\\":
            pieces.append(text[at + 1 : at + 2])
            at += 2
        elif text[at] == "'":
            end = text.find("'", at + 1)
            if end < 0:
                raise RefusedError(f"unclosed quote: {key}")
            pieces.append(text[at + 1 : end])
            at = end + 1
        elif text[at] == '"':
            piece, at = _double(text, at + 1, key)
            pieces.append(piece)
        else:
            pieces.append(text[at])
            at += 1
    return "".join(pieces), min(at, len(text))


def _double(text: str, at: int, key: str) -> tuple[str, int]:
    """The inside of double quotes: a backslash is special before `"`, `$`, a backquote and itself only."""
    pieces: list[str] = []
    while at < len(text):
        if text[at] == '"':
            return "".join(pieces), at + 1
        if text[at] == "\\" and text[at + 1 : at + 2] in ('"', "\\", "$", "`"):
            at += 1
        pieces.append(text[at])
        at += 1
    raise RefusedError(f"unclosed quote: {key}")


def _rest(text: str, at: int) -> tuple[str, int]:
    r"""The rest of a line with `\n` and `\\` taken as what they mean; a backslash before anything else is itself."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    parts = text[at:end].split("\\\\")
    return "\\".join(part.replace("\\n", "\n") for part in parts), end


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _quote(value: str) -> str:
    if value and _PLAIN.issuperset(value):
        return value
    return "'" + value.replace("'", "'\\''") + "'"
