"""What a prompt may be, whoever is prompted."""

from ollie.olliesrv.errors import RefusedError


def check_length(size_bytes: int, limit_bytes: int) -> None:
    """Raise `prompt is longer than N bytes (max_prompt_bytes)`."""
    if size_bytes > limit_bytes:
        raise RefusedError(f"prompt is longer than {limit_bytes} bytes (max_prompt_bytes)")


def check_words(text: str) -> None:
    """Raise `prompt is empty`, also for one of nothing but blanks."""
    if not text.strip():
        raise RefusedError("prompt is empty")


def read(data: bytes, limit_bytes: int) -> str:
    """The text of a prompt in UTF-8, without newlines at its end.

    Raises:
        RefusedError: `prompt is longer than N bytes (max_prompt_bytes)`, `prompt is not UTF-8`, `prompt is empty`.
    """
    check_length(len(data), limit_bytes)
    try:
        text = data.decode().rstrip("\n")
    except UnicodeDecodeError:
        raise RefusedError("prompt is not UTF-8") from None
    check_words(text)
    return text
