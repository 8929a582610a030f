"""Words that messages have in common. Command lines import this module: it needs nothing."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_QUOTED = 80  # characters of what somebody wrote


def unknown(kind: str, word: str, known: "Iterable[str]") -> str:
    """`unknown key: modle (did you mean model? known: backend model)`."""
    import difflib  # noqa: PLC0415  only what went wrong needs it

    words = list(known)
    near = difflib.get_close_matches(word, words, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown {kind}: {word[:_QUOTED]} ({hint}known: {' '.join(words) or 'none'})"


def reason(error: Exception) -> str:
    """What went wrong, as a phrase without number and file name: `no such file or directory`."""
    text = getattr(error, "strerror", None) or str(error) or "unknown error"
    return text[0].lower() + text[1:] if text[1:2].islower() else text


def located(error: Exception) -> str:
    """The same behind the name of the file, where there is one: `/a/b: no such file or directory`."""
    file = getattr(error, "filename", None)
    return f"{file}: {reason(error)}" if file else reason(error)
