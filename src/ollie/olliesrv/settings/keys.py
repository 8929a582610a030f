"""The keys of an agent's `cfg`: their types, and how a text becomes a value.

An agent stores only what was set for it. An empty value takes a setting back, so that the profile's, the server's or
the backend's counts again.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from ollie.backends.interface import PARAMETERS, parse_parameter
from ollie.olliesrv.errors import RefusedError, unknown
from ollie.store.rows import Setting


@dataclass(frozen=True)
class Key:
    """A key of `cfg`: what its value is read with, and what it means."""

    read: Callable[[str, str], Setting]
    about: str


def _text(_key: str, text: str) -> str:
    return text


def _count(key: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise RefusedError(f"{key} must be a whole number from 0: {text[:80]}")
    return int(text)


def _amount(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise RefusedError(f"{key} must be a number from 0: {text[:80]}")
    return value


def _parameter(key: str, text: str) -> Setting:
    try:
        value: Setting = parse_parameter(key, text)
    except ValueError as error:
        raise RefusedError(str(error)) from None
    return value


KEYS: Mapping[str, Key] = {
    "backend": Key(_text, "the backend that it asks"),
    "model": Key(_text, "the model that it asks"),
    "agent": Key(_text, "its profile"),
    "cwd": Key(_text, "its working directory"),
    "system": Key(_text, "its system prompt, in place of the profile's"),
    "sandbox": Key(_text, "the sandbox of its tools, in place of each tool's own"),
    **{key: Key(_parameter, "a sampling parameter of the backend") for key in PARAMETERS},
    "max_steps": Key(_count, "requests to the model in one turn; 0: no bound"),
    "max_cost_usd": Key(_amount, "what it may cost in all; 0: no bound"),
    "max_turn_s": Key(_amount, "seconds that a turn may take; 0: no bound"),
}
"""Every key of `cfg`, in the order in which they are shown."""


def read(pairs: Mapping[str, str]) -> dict[str, Setting | None]:
    """The values of what was written; None for a key that is taken back.

    Raises:
        RefusedError: an unknown key, with the nearest known one; or a value that cannot be, with what it must be.
    """
    values: dict[str, Setting | None] = {}
    for key, text in pairs.items():
        if key not in KEYS:
            raise unknown("key", key, KEYS)
        values[key] = KEYS[key].read(key, text) if text else None
    return values


def show(value: Setting | None) -> str:
    """A value as it is written."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
