"""The model's reply, read while it is generated.

With tools, a reply is one line of JSON (see `grammar.py`). The text of an answer is passed on as it comes, unescaped; a
call is passed on when the reply ends. Pure: however the reply is cut into pieces, the same texts come out.
"""

import json
import re

from ollie.engine.messages import CallDelta, StreamEvent, TextDelta

_OPENING = re.compile(r'\s*\{\s*(?:"about"\s*:\s*"\w*"\s*,\s*)?"(answer|tool)"\s*:\s*"')
_ARGUMENTS = re.compile(r'\s*,\s*"arguments"\s*:\s*')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_REPLACEMENT = "\ufffd"


class JsonString:
    """Unescapes the inside of a JSON string piece by piece; `closed` once its closing quote was seen.

    A lone surrogate becomes U+FFFD, as does an escape that JSON does not know.
    """

    def __init__(self) -> None:
        self.closed = False
        self._rest = ""  # an escape that has not come whole
        self._high = 0  # a high surrogate that waits for its low one

    def feed(self, piece: str) -> str:
        """The text that `piece` adds; what follows the closing quote is dropped."""
        source = self._rest + piece
        self._rest = ""
        out: list[str] = []
        at = 0
        while at < len(source) and not self.closed:
            if source[at] != "\\":
                at = self._plain(source, at, out)
                continue
            size = 6 if source[at + 1 : at + 2] == "u" else 2
            if len(source) < at + size:
                self._rest = source[at:]
                break
            self._escape(source[at + 1 : at + size], out)
            at += size
        return "".join(out)

    def _plain(self, source: str, at: int, out: list[str]) -> int:
        """Take the characters up to the next escape or the closing quote; where to go on."""
        self._lone(out)
        ends = [end for end in (source.find("\\", at), source.find('"', at)) if end >= 0]
        end = min(ends, default=len(source))
        out.append(_scalar(source[at:end]))
        self.closed = source[end : end + 1] == '"'
        return end

    def _escape(self, escape: str, out: list[str]) -> None:
        if escape[0] != "u":
            self._lone(out)
            out.append(_ESCAPES.get(escape, _REPLACEMENT))
            return
        unit = int(escape[1:], 16) if re.fullmatch("[0-9a-fA-F]{4}", escape[1:]) else 0xFFFD
        if self._high and 0xDC00 <= unit < 0xE000:
            out.append(chr(0x10000 + (self._high - 0xD800) * 0x400 + unit - 0xDC00))
            self._high = 0
            return
        self._lone(out)
        if 0xD800 <= unit < 0xDC00:
            self._high = unit
        else:
            out.append(_scalar(chr(unit)))

    def _lone(self, out: list[str]) -> None:
        """A high surrogate that no low one followed."""
        if self._high:
            out.append(_REPLACEMENT)
            self._high = 0


class Reply:
    """Turns pieces of a reply into events; `call_id` is the id of the call, should it be one.

    `plain`: the reply to a request without tools is text, passed on as it is.
    """

    def __init__(self, call_id: str, *, plain: bool = False) -> None:
        self._call_id = call_id
        self._head = ""  # what came before the kind of the reply was known; the whole reply, if it is a call
        self._answer: JsonString | None = None
        self._plain = plain

    def feed(self, piece: str) -> list[StreamEvent]:
        """The events that `piece` gives: text of an answer, nothing for a call."""
        if self._plain:
            return _texts(_scalar(piece))
        if self._answer is not None:
            return _texts(self._answer.feed(piece))
        self._head += piece
        opening = _OPENING.match(self._head)
        if opening is None or opening[1] != "answer":
            return []
        self._answer = JsonString()
        return _texts(self._answer.feed(self._head[opening.end() :]))

    def finish(self) -> list[StreamEvent]:
        """The events that the end of the reply gives: the call.

        The arguments of a call that was cut are passed on as they are; a reply that is neither kind (a model without
        constraint could give one) is passed on as text.
        """
        if self._plain or self._answer is not None or not self._head:
            return []
        call = _call(self._head)
        if call is None:
            return _texts(_scalar(self._head))
        name, arguments = call
        return [CallDelta(index=0, id=self._call_id, name=name, arguments=arguments)]


def _call(reply: str) -> tuple[str, str] | None:
    """Name and arguments of a call, None when `reply` is none or was cut before the arguments."""
    opening = _OPENING.match(reply)
    if opening is None:
        return None
    try:
        name, end = json.JSONDecoder().raw_decode(reply, opening.end() - 1)
    except ValueError:
        return None
    separator = _ARGUMENTS.match(reply, end)
    if separator is None:
        return None
    arguments = reply[separator.end() :]
    try:
        end = json.JSONDecoder().raw_decode(arguments)[1]
    except ValueError:
        return _scalar(name), _scalar(arguments)
    return _scalar(name), _scalar(arguments[:end])


def _texts(text: str) -> list[StreamEvent]:
    return [TextDelta(text)] if text else []


def _scalar(text: str) -> str:
    """`text` without lone surrogates."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
