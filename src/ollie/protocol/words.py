"""Words that messages have in common. Command lines import this module: it needs nothing."""


def reason(error: OSError) -> str:
    """What went wrong, as a phrase without number and file name: `no such file or directory`."""
    text = error.strerror or str(error) or "unknown error"
    return text[0].lower() + text[1:] if text[1:2].islower() else text
