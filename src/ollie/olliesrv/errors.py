"""What olliesrv answers when it cannot do what it was asked: one short lower-case phrase that names the thing."""

from collections.abc import Iterable

from ninep import errors
from ninep.errors import NOT_FOUND, PERMISSION_DENIED, NinepError


class RefusedError(NinepError):
    """A request that is refused; its text is the ename."""


def gone() -> RefusedError:
    """The object was killed while somebody held it."""
    return RefusedError(NOT_FOUND)


def denied() -> RefusedError:
    """An agent asked for what lies outside its session or its ceiling."""
    return RefusedError(PERMISSION_DENIED)


def unknown(kind: str, word: str, known: Iterable[str]) -> RefusedError:
    """As `ninep.errors.unknown`, refused."""
    return RefusedError(errors.unknown(kind, word, known))
