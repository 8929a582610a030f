"""Arguments against a tool's schema: text becomes values, and values are checked before anything runs."""

import json
import math
from collections.abc import Mapping

import fastjsonschema

from ninep.errors import unknown


class SchemaError(ValueError):
    """A schema that is none; its text says what is wrong."""


class ArgumentError(ValueError):
    """Arguments that a tool does not take; its text says which one and why."""


class Schema:
    """The JSON Schema of a tool's arguments, ready to check.

    Arguments that it does not name are refused unless it says `additionalProperties`: an argument that is silently
    ignored would let a model believe that it did something.

    Args:
        source: a schema of type object; None or empty for a tool without arguments.

    Raises:
        SchemaError: when it is no such schema.
    """

    def __init__(self, source: object) -> None:
        if source is None:
            source = {}
        if not isinstance(source, dict) or not all(isinstance(key, str) for key in source):
            raise SchemaError("input is not a JSON schema")
        self.source: dict[str, object] = {"type": "object", "properties": {}, "additionalProperties": False} | source
        if self.source["type"] != "object":
            raise SchemaError("input is not a schema of type object")
        properties = self.source["properties"]
        if not isinstance(properties, dict) or not all(isinstance(value, dict) for value in properties.values()):
            raise SchemaError("properties of input are not schemas")
        self.properties: dict[str, dict[str, object]] = properties
        try:
            self._validate = fastjsonschema.compile(self.source, handlers=_FETCHERS)
        except Exception as error:  # noqa: BLE001  whatever the code generator stumbles over: TypeError, re.error, …
            raise SchemaError(f"input is not a JSON schema: {error}") from None

    def convert(self, fields: Mapping[str, str]) -> dict[str, object]:
        """Text to values, each as its property says; what is not named stays text.

        Raises:
            ArgumentError: `argument n must be integer: x`, and the like.
        """
        return {name: _converted(name, text, self.properties.get(name, {})) for name, text in fields.items()}

    def check(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The arguments with the defaults filled in.

        Raises:
            ArgumentError: `missing argument: pattern`, `unknown argument: x (known: pattern path)`, `argument n must be
                integer`.
        """
        if self.source["additionalProperties"] is False:
            for name in arguments:
                if name not in self.properties:
                    raise ArgumentError(unknown("argument", name, self.properties))
        missing = [str(name) for name in _list(self.source.get("required")) if name not in arguments]
        if missing:
            raise ArgumentError(f"missing argument: {', '.join(missing)}")
        try:
            checked: dict[str, object] = self._validate(dict(arguments))
        except fastjsonschema.JsonSchemaValueException as error:
            # Its messages begin with the path: data.pattern, data.files[0].
            raise ArgumentError(f"argument{'s' if error.name == 'data' else ''} {_named(error.message)}") from None
        return checked


def _named(message: str) -> str:
    return message.removeprefix("data").removeprefix(".").strip()


def _refuse(uri: str) -> object:
    raise SchemaError(f"refers to {uri}, which is not in it")


# Every scheme that urllib would fetch: a schema is whole, or it is refused.
_FETCHERS = dict.fromkeys(("http", "https", "ftp", "file", "data"), _refuse)


def _converted(name: str, text: str, schema: Mapping[str, object]) -> object:
    """The value that `text` stands for; text is a string only where no narrower type fits."""
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        value = text
    if any(_is_a(kind, value) for kind in kinds if kind != "string"):
        return value
    if "string" in kinds or text in _list(schema.get("enum")):
        return text
    if kinds:
        raise ArgumentError(f"argument {name} must be {' or '.join(map(str, kinds))}: {text[:60]}")
    return value


def _is_a(kind: object, value: object) -> bool:
    match value:
        case None:
            return kind == "null"
        case bool():
            return kind == "boolean"
        case int():
            return kind in {"integer", "number"}
        case float():
            return kind == "number" and math.isfinite(value)
        case list():
            return kind == "array"
        case dict():
            return kind == "object"
        case _:
            return False


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
