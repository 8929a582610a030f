"""What olliesrv answers when it cannot do what it was asked: one short lower-case phrase that names the thing."""

import difflib
from collections.abc import Iterable

from ninep.errors import NinepError


class RefusedError(NinepError):
    """A request that is refused; its text is the ename."""


def gone() -> RefusedError:
    """The object was killed while somebody held it."""
    return RefusedError("file does not exist")


def denied() -> RefusedError:
    """An agent asked for what lies outside its session or its ceiling."""
    return RefusedError("permission denied")


def unknown(kind: str, word: str, known: Iterable[str]) -> RefusedError:
    """`unknown key: modle (did you mean model? known: …)`."""
    words = list(known)
    near = difflib.get_close_matches(word, words, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return RefusedError(f"unknown {kind}: {word[:80]} ({hint}known: {' '.join(words)})")
