"""Words that messages have in common. Command lines import this module: it needs nothing."""

import time


def reason(error: Exception) -> str:
    """What went wrong, as a phrase without number and file name: `no such file or directory`."""
    text = getattr(error, "strerror", None) or str(error) or "unknown error"
    return text[0].lower() + text[1:] if text[1:2].islower() else text


def located(error: Exception) -> str:
    """The same behind the name of the file, where there is one: `/a/b: no such file or directory`."""
    file = getattr(error, "filename", None)
    return f"{file}: {reason(error)}" if file else reason(error)


def moment(seconds: float) -> str:
    """A time since the epoch, in ISO 8601 and UTC: `2026-01-02T12:00:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
