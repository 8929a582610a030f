"""The grammar of replies."""

import json

import pytest

from ollie.backends.local.grammar import grammar, offered, simplified
from ollie.engine.messages import ToolSpec

SHELL = ToolSpec(
    "shell",
    "Run a command.",
    {
        "type": "object",
        "properties": {"cmd": {"type": "string", "description": "what to run"}, "background": {"type": "boolean"}},
        "required": ["cmd"],
    },
)


def test_a_first_reply_says_what_it_is_about() -> None:
    """Both kinds of reply begin with it, and later ones do not have it."""
    first = grammar([SHELL], first=True)
    later = grammar([SHELL], first=False)
    assert json.dumps('{"about": "talk", "answer": ') in first
    assert json.dumps('{"about": "computer", "tool": "shell", "arguments": ') in first
    assert "about" not in later


def test_without_tools_only_an_answer_is_left() -> None:
    """Which is how a model that goes round in circles is stopped."""
    assert "start: answer\n" in grammar([], first=False)


def test_optional_switches_are_not_offered() -> None:
    """A boolean that may be left out is left out; a required one stays."""
    assert list(offered(SHELL.input_schema)["properties"]) == ["cmd"]
    required = {**SHELL.input_schema, "required": ["cmd", "background"]}
    assert list(offered(required)["properties"]) == ["cmd", "background"]


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"type": "string", "minLength": 3, "pattern": "^a", "description": "x"}, {"type": "string"}),
        ({"type": "integer", "minimum": 1}, {"type": "integer"}),
        ({"enum": ["a", 1]}, {"enum": ["a", 1]}),
        (
            {"type": "array", "items": {"type": "string", "format": "uri"}},
            {"type": "array", "items": {"type": "string"}},
        ),
        ({"oneOf": [{"type": "null"}, {"const": 2}]}, {"anyOf": [{"type": "null"}, {"const": 2}]}),
        ({"type": "object"}, {"type": "object"}),
        (
            {"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}, "b": True}},
            {"type": "object", "properties": {"a": {"type": "string"}, "b": True}, "additionalProperties": False},
        ),
    ],
)
def test_a_schema_keeps_what_shapes_a_text(schema: dict[str, object], kept: dict[str, object]) -> None:
    """Everything else is for whoever checks the arguments."""
    assert simplified(schema) == kept
