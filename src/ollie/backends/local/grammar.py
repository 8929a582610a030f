"""The grammar that holds a reply to one line of JSON: an answer, or a call of one of the tools.

In the language of the engine's constraint library (LLGuidance, a Lark dialect with `%json` for a JSON Schema). A reply
has one spelling, without optional blanks: fewer tokens, and a reply that becomes history is the very text that the
engine still has in its cache.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ollie.engine.messages import ToolSpec

SEPARATORS = (", ", ": ")
"""Between items, and between a key and its value: the spelling of `json.dumps`."""

_GUIDANCE = {
    "x-guidance": {"whitespace_flexible": False, "item_separator": SEPARATORS[0], "key_separator": SEPARATORS[1]}
}
_NAMED = ("properties",)
_LISTED = ("anyOf", "oneOf")
_KEPT = ("type", "enum", "const", "required")


def grammar(tools: Iterable[ToolSpec]) -> str:
    """The grammar for these tools; the same tools give the same text."""
    rules = ['answer: "{\\"answer\\": " text "}"', 'text: %json {"type": "string", "minLength": 1}']
    names = ["answer"]
    for number, tool in enumerate(tools):
        opening = '{"tool": ' + json.dumps(tool.name) + ', "arguments": '
        rules.append(f'call{number}: {json.dumps(opening)} arguments{number} "}}"')
        rules.append(f"arguments{number}: %json {json.dumps(_GUIDANCE | _arguments(tool.input_schema))}")
        names.append(f"call{number}")
    return "\n".join(["%llguidance {}", f"start: {' | '.join(names)}", *rules, ""])


def _arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object"} | simplified(schema)


def simplified(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a JSON Schema that shapes a text as it is written; whoever runs the tool checks the rest.

    What it leaves out only allows more, apart from keys that the schema does not name, which are refused.
    """
    kept: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    if isinstance(items := schema.get("items"), Mapping):
        kept["items"] = simplified(items)
    for key in _NAMED:
        if isinstance(named := schema.get(key), Mapping):
            kept[key] = {name: _sub(value) for name, value in named.items()}
            kept["additionalProperties"] = False
    for key in _LISTED:
        if isinstance(listed := schema.get(key), list):
            kept["anyOf"] = [_sub(value) for value in listed]
    return kept


def _sub(schema: Any) -> Any:
    return simplified(schema) if isinstance(schema, Mapping) else schema
