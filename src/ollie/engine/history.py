"""A history that every provider accepts.

Valid means: each call of an `Assistant` is answered by exactly one `ToolResult` right behind it, in the order of the
calls; no result stands elsewhere; call ids are unique in the whole history; names are made of the characters that
providers accept, and arguments are a JSON object; an `Assistant` has text or calls.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from ollie.engine.messages import Assistant, Message, ToolCall, ToolResult

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_NAME: Final = "unnamed"


def problem(history: Sequence[Message]) -> str:
    """What is wrong with a history, for tests and for whoever loads one; empty when it is valid."""
    awaited: list[ToolCall] = []
    seen: set[str] = set()
    for number, message in enumerate(history):
        if isinstance(message, ToolResult):
            if not awaited or awaited[0].id != message.call_id:
                return f"message {number} is a result that nothing waits for: {message.call_id}"
            awaited.pop(0)
            continue
        if awaited:
            return f"message {number} stands where a result should be: {awaited[0].id}"
        if isinstance(message, Assistant):
            if not message.text and not message.calls:
                return f"message {number} is empty"
            for call in message.calls:
                if call.id in seen or not call.id:
                    return f"message {number} has a call whose id is not unique: {call.id}"
                if not _NAME.fullmatch(call.name) or parse_arguments(call.arguments) is None:
                    return f"message {number} has a malformed call: {call.id}"
                seen.add(call.id)
            awaited = list(message.calls)
    return f"a call has no result: {awaited[0].id}" if awaited else ""


def call_ids(history: Iterable[Message]) -> set[str]:
    """Every call id in a history."""
    return {call.id for message in history if isinstance(message, Assistant) for call in message.calls}


def parse_arguments(text: str) -> dict[str, Any] | None:
    """The arguments of a call; None when they are not a JSON object. No text at all is an empty object."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None


def fit_name(name: str) -> str:
    """A name that providers accept in a history, as near to the given one as possible."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or _NO_NAME


def fit_id(wanted: str, used: set[str]) -> str:
    """A call id that is not used yet: the wanted one, else one made from it."""
    if wanted and wanted not in used:
        return wanted
    stem = wanted or "call"
    number = len(used) + 1
    while f"{stem}_{number}" in used:
        number += 1
    return f"{stem}_{number}"
