"""Ids and names of sessions and agents.

An id is a UUIDv7 (RFC 9562, section 5.7): it begins with the millisecond in which it was made, so that ids sort by
creation. A name is what people type in paths; no name can be mistaken for an id.
"""

import os
import re
import time
import uuid

from ollie.olliesrv.errors import RefusedError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = frozenset({"new", "idx"})
_NAME_RULE = "1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit; not new, idx or an id"


def new_id() -> str:
    """A UUIDv7, 36 characters in lower case."""
    random = int.from_bytes(os.urandom(10))
    value = (time.time_ns() // 1_000_000) << 80 | random
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def check_name(name: str) -> str:
    """The name itself; `bad name: …` with the rule where a session or an agent cannot have it."""
    if not _NAME.fullmatch(name) or name in _RESERVED or is_id(name):
        raise RefusedError(f"bad name: {name[:80]} ({_NAME_RULE})")
    return name


def is_id(text: str) -> bool:
    """Whether a text reads as a UUID, in any notation."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
