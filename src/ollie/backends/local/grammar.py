"""The grammar that holds a reply to one line of JSON: an answer, or a call of one of the tools.

    {"about": "talk", "answer": TEXT}
    {"about": "computer", "tool": NAME, "arguments": {…}}

and, when it is not the first reply to a request, the same without what it is about.

In the language of the engine's constraint library (LLGuidance, a Lark dialect with `%json` for a JSON Schema). A reply
has one spelling, without optional blanks: fewer tokens, and a reply that becomes history is the very text that the
engine still has in its cache.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ollie.engine.messages import ToolSpec

SEPARATORS = (", ", ": ")
"""Between items, and between a key and its value: the spelling of `json.dumps`."""

_GUIDANCE = {
    "x-guidance": {"whitespace_flexible": False, "item_separator": SEPARATORS[0], "key_separator": SEPARATORS[1]}
}
_ALTERNATIVES = ("anyOf", "oneOf")
_KEPT = ("type", "enum", "const", "required")


def opening(about: Literal["computer", "talk"], *, first: bool) -> str:
    """How a reply begins; the first one to a request says what that is about."""
    return f'{{"about": "{about}", ' if first else "{"


def grammar(tools: Iterable[ToolSpec], *, first: bool) -> str:
    """The grammar for these tools; the same tools give the same text. `first`: for the first reply to a request."""
    answer = opening("talk", first=first) + '"answer": '
    rules = [f'answer: {json.dumps(answer)} text "}}"', 'text: %json {"type": "string", "minLength": 1}']
    names = ["answer"]
    for number, tool in enumerate(tools):
        call = f'{opening("computer", first=first)}"tool": {json.dumps(tool.name)}, "arguments": '
        rules.append(f'call{number}: {json.dumps(call)} arguments{number} "}}"')
        rules.append(f"arguments{number}: %json {json.dumps(_GUIDANCE | simplified(offered(tool.input_schema)))}")
        names.append(f"call{number}")
    return "\n".join(["%llguidance {}", f"start: {' | '.join(names)}", *rules, ""])


def offered(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What is left of a tool's schema for such a model: without switches, which it turns on at random.

    A switch is a boolean argument that may be left out.
    """
    properties = {
        name: value
        for name, value in schema.get("properties", {}).items()
        if name in schema.get("required", ()) or not (isinstance(value, Mapping) and value.get("type") == "boolean")
    }
    return {**schema, "type": "object", "properties": properties}


def simplified(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a JSON Schema that shapes a text as it is written; whoever runs the tool checks the rest.

    What it leaves out only allows more, apart from keys that the schema does not name, which are refused.
    """
    kept: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    if isinstance(items := schema.get("items"), Mapping):
        kept["items"] = simplified(items)
    if isinstance(properties := schema.get("properties"), Mapping) and properties:
        kept["properties"] = {name: _sub(value) for name, value in properties.items()}
        kept["additionalProperties"] = False
    for key in _ALTERNATIVES:
        if isinstance(listed := schema.get(key), list):
            kept["anyOf"] = [_sub(value) for value in listed]
    return kept


def _sub(schema: Any) -> Any:
    return simplified(schema) if isinstance(schema, Mapping) else schema
