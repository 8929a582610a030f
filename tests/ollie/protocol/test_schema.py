"""Arguments by schema: conversion of text, defaults, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.protocol.schema import ArgumentError, Schema, SchemaError

_GREP = Schema(
    {
        "properties": {
            "pattern": {"type": "string"},
            "path": {"type": "string", "default": "."},
            "limit": {"type": "integer", "minimum": 1},
        },
        "required": ["pattern"],
    }
)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "5", "5"),
        ({"type": "string"}, "true", "true"),
        ({"type": "string"}, "", ""),
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, " -5 ", -5),
        ({"type": "number"}, "5", 5),
        ({"type": "number"}, "0.5", 0.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "null"}, "null", None),
        ({"type": "array"}, '["a", 1]', ["a", 1]),
        ({"type": "object"}, '{"a": null}', {"a": None}),
        ({"type": "object"}, '{"a": "two\nlines"}', {"a": "two\nlines"}),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "integer"]}, "5", 5),
        ({"type": ["integer", "string"]}, "five", "five"),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({}, "5", 5),
        ({}, "plain text", "plain text"),
    ],
)
def test_convert(schema: dict[str, object], text: str, value: object) -> None:
    """Text becomes what the property's type says."""
    found = Schema({"properties": {"x": schema}}).convert({"x": text})["x"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", "x"),
        ("integer", ""),
        ("integer", "0.5"),
        ("integer", "1_000"),
        ("integer", "true"),
        ("number", "NaN"),
        ("number", "1e999"),
        ("boolean", "1"),
        ("boolean", "yes"),
        ("array", "a,b"),
        ("object", "[" * 100_000),
    ],
)
def test_convert_refuses(kind: str, text: str) -> None:
    """Text that is not of the type is refused, with the argument's name."""
    with pytest.raises(ArgumentError, match=f"argument x must be {kind}: "):
        Schema({"properties": {"x": {"type": kind}}}).convert({"x": text})


@given(st.text())
def test_convert_of_a_string_is_the_text(text: str) -> None:
    """A string argument is never interpreted."""
    assert _GREP.convert({"pattern": text, "unknown": text}) | {"unknown": 0} == {"pattern": text, "unknown": 0}


def test_check_fills_in_defaults() -> None:
    """Defaults are filled in, and the caller's arguments stay as they are."""
    arguments = {"pattern": "x"}
    assert _GREP.check(arguments) == {"pattern": "x", "path": "."}
    assert arguments == {"pattern": "x"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "missing argument: pattern"),
        ({"pattern": "x", "color": 1}, "unknown argument: color (known: pattern path limit)"),
        ({"pattern": 5}, "argument pattern must be string"),
        ({"pattern": None}, "argument pattern must be string"),
        ({"pattern": "x", "limit": 0}, "argument limit must be bigger than or equal to 1"),
        ({"pattern": "x", "limit": True}, "argument limit must be integer"),
    ],
)
def test_check_refuses(arguments: dict[str, object], text: str) -> None:
    """Arguments that do not fit are refused, in words for whoever called."""
    with pytest.raises(ArgumentError) as caught:
        _GREP.check(arguments)
    assert str(caught.value) == text


def test_check_names_the_place() -> None:
    """Within arrays and objects the place is named."""
    schema = Schema({"properties": {"files": {"type": "array", "items": {"type": "string"}}}})
    with pytest.raises(ArgumentError, match=r"argument files\[1\] must be string"):
        schema.check({"files": ["a", 1]})


def test_tool_without_arguments() -> None:
    """A tool that says nothing about its arguments takes none."""
    assert Schema(None).check({}) == {}
    with pytest.raises(ArgumentError, match=r"unknown argument: x \(known: none\)"):
        Schema(None).check({"x": 1})


def test_open_schema() -> None:
    """A tool may take arguments that it does not name."""
    assert Schema({"additionalProperties": True}).check({"x": 1}) == {"x": 1}


def test_rules_over_several_arguments() -> None:
    """A rule about all arguments together is told as such."""
    with pytest.raises(ArgumentError, match="arguments must contain at least 1 properties"):
        Schema({"additionalProperties": True, "minProperties": 1}).check({})


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (5, "input is not a JSON schema"),
        ({1: 2}, "input is not a JSON schema"),
        ({"type": "string"}, "input is not a schema of type object"),
        ({"properties": []}, "properties of input are not schemas"),
        ({"properties": {"a": 5}}, "properties of input are not schemas"),
        ({"properties": {"a": {"type": "text"}}}, "input is not a JSON schema: Unknown type"),
        ({"properties": {"a": {"type": "string", "pattern": "("}}}, "input is not a JSON schema: missing"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, "refers to http://127.0.0.1:9/x, which is not in it"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "refers to file:///etc/passwd, which is not in it"),
        ({"properties": {"a": {"$ref": "ftp://127.0.0.1:9/x"}}}, "refers to ftp://127.0.0.1:9/x, which is not in it"),
        ({"properties": {"a": {"$ref": "#/nowhere"}}}, "input is not a JSON schema"),
    ],
)
def test_broken_schemas(source: object, text: str) -> None:
    """What is no schema of arguments is refused, and nothing is fetched to find out."""
    with pytest.raises(SchemaError, match=text):
        Schema(source)
