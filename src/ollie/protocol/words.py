"""Words that messages have in common, those of ninep included. Command lines import this module: it needs nothing."""

from ninep.errors import unknown

__all__ = ["located", "reason", "unknown"]


def reason(error: Exception) -> str:
    """What went wrong, as a phrase without number and file name: `no such file or directory`."""
    text = getattr(error, "strerror", None) or str(error) or "unknown error"
    return text[0].lower() + text[1:] if text[1:2].islower() else text


def located(error: Exception) -> str:
    """The same behind the name of the file, where there is one: `/a/b: no such file or directory`."""
    file = getattr(error, "filename", None)
    return f"{file}: {reason(error)}" if file else reason(error)
