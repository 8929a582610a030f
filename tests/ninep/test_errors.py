"""Error texts that are made."""

import pytest

from ninep.errors import unknown


@pytest.mark.parametrize(
    ("word", "known", "text"),
    [
        ("modle", ["backend", "model"], "unknown key: modle (did you mean model? known: backend model)"),
        ("x", ["backend", "model"], "unknown key: x (known: backend model)"),
        ("x" * 100, [], f"unknown key: {'x' * 80} (known: none)"),
        ("x" * 1000, ["x" * 80], f"unknown key: {'x' * 80} (did you mean {'x' * 80}? known: {'x' * 80})"),
    ],
)
def test_unknown(word: str, known: list[str], text: str) -> None:
    """What there is instead, the nearest of it first; only the beginning of a long word is compared."""
    assert unknown("key", word, known) == text
