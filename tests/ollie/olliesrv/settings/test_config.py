"""Reading config.yaml."""

from pathlib import Path

import pytest

from ollie.olliesrv.settings.config import Config, ConfigError, load, parse


def test_no_file_gives_the_defaults(tmp_path: Path) -> None:
    """So does an empty one."""
    assert load(str(tmp_path / "config.yaml")) == Config()
    assert parse(b"") == parse(b"# nothing\n") == Config()


def test_values_are_typed() -> None:
    """A whole number will do for seconds."""
    config = parse(b"backend: replay\nmax_steps: 7\ntoolsrv_idle_s: 5\nbackends: {replay: {script: x.yaml}}\n")
    assert (config.backend, config.max_steps, config.toolsrv_idle_s) == ("replay", 7, 5.0)
    assert config.backends == {"replay": {"script": "x.yaml"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"modle: x", r"unknown key: modle \(did you mean model\? known: max_steps "),
        (b"max_steps: many", r"expected `int`, got `str` - at `max_steps`"),
        (b"max_steps: -1", r"expected `int` >= 0 - at `max_steps`"),
        (b"max_steps: true", r"expected `int`, got `bool` - at `max_steps`"),
        (b"- x", r"not a mapping of keys to values"),
        (b"a: [", r"line 1: "),
        (b"1: 2", r"unknown key: 1 "),
        (b"\xff", r"not UTF-8"),
    ],
)
def test_what_cannot_be_is_one_line_that_says_what(text: bytes, message: str) -> None:
    """With the nearest known key where a key is unknown."""
    with pytest.raises(ConfigError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_the_error_names_the_file(tmp_path: Path) -> None:
    """Also when it cannot be read."""
    path = tmp_path / "config.yaml"
    path.write_text("max_stepps: 1\n")
    with pytest.raises(ConfigError, match=f"^{path}: unknown key: max_stepps"):
        load(str(path))
    with pytest.raises(ConfigError, match=f"^{tmp_path}: is a directory"):
        load(str(tmp_path))
