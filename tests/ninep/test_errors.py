"""Error texts that are made."""

import pytest

from ninep.errors import unknown


@pytest.mark.parametrize(
    ("word", "known", "text"),
    [
        ("modle", ["backend", "model"], "unknown key: modle (did you mean model? known: backend model)"),
        ("x", ["backend", "model"], "unknown key: x (known: backend model)"),
        ("x" * 100, [], f"unknown key: {'x' * 80} (known: none)"),
    ],
)
def test_unknown(word: str, known: list[str], text: str) -> None:
    """What there is instead, the nearest of it first."""
    assert unknown("key", word, known) == text
