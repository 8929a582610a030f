"""Reading YAML."""

import pytest

from ollie.protocol.yaml_text import YamlError, load


def test_load() -> None:
    """Plain values, from text and from bytes."""
    assert load("a: [1, true, x]") == load(b"a: [1, true, x]") == {"a": [1, True, "x"]}
    assert load("") is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1\nb: c: d", "line 2: mapping values are not allowed in this context"),
        ("a: [", "line 1: did not find expected node content"),
        ("a: !!python/object:os.system x", "line 1: could not determine a constructor for the tag "),
        ("a: 2026-99-99", "month must be in 1..12"),
        (b"a: \xff", "not UTF-8"),
        ("[" * 100_000, ""),
    ],
)
def test_what_is_not_yaml(text: str | bytes, error: str) -> None:
    """One line, with the number of the line where the text has one."""
    with pytest.raises(YamlError) as raised:
        load(text)
    assert str(raised.value).startswith(error)
    assert "\n" not in str(raised.value)
