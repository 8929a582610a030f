"""What a tool call gives: text and images, and whether it failed.

    {"content": [{"type": "text", "text": "tool output"}], "isError": false}

Images carry `data` in base64 and `mimeType`.
"""

import base64
import binascii
import json
from dataclasses import dataclass


class ResultError(ValueError):
    """Something that is not a ToolResult; its text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class TextContent:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image.

    Args:
        data: the bytes of the file.
        media_type: such as `image/png`.
    """

    data: bytes
    media_type: str


Content = TextContent | ImageContent


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one tool call.

    Args:
        content: what the tool gave, in order; may be empty.
        is_error: the call failed; the content says how.
    """

    content: tuple[Content, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """Its texts, joined."""
        return "".join(part.text for part in self.content if isinstance(part, TextContent))

    def to_json(self) -> bytes:
        """One JSON object in UTF-8, no newline; what has no UTF-8 form becomes `?`."""
        value = {"content": [_to_value(part) for part in self.content], "isError": self.is_error}
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def text(value: str, *, is_error: bool = False) -> ToolResult:
    """A result of one text."""
    return ToolResult((TextContent(value),), is_error)


def from_json(data: bytes | str) -> ToolResult:
    """The result that `to_json` wrote, or a tool with `output: blocks` did; unknown keys are ignored.

    Raises:
        ResultError: `result is not JSON: …`, `result has no list "content"`, `content N has type …`, and the like.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"result is not JSON: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("content"), list):
        raise ResultError('result has no list "content"')
    is_error = value.get("isError", False)
    if not isinstance(is_error, bool):
        raise ResultError("isError is not true or false")
    return ToolResult(tuple(_from_value(n, part) for n, part in enumerate(value["content"], 1)), is_error)


def _to_value(part: Content) -> dict[str, str]:
    if isinstance(part, TextContent):
        return {"type": "text", "text": part.text}
    return {"type": "image", "data": base64.b64encode(part.data).decode(), "mimeType": part.media_type}


def _from_value(number: int, value: object) -> Content:
    if not isinstance(value, dict):
        raise ResultError(f"content {number} is not an object")
    match value.get("type"):
        case "text":
            return TextContent(_string(number, value, "text"))
        case "image":
            encoded = _string(number, value, "data")
            try:
                data = base64.b64decode(encoded, validate=True)
            except (binascii.Error, ValueError):
                raise ResultError(f"data of content {number} is not base64") from None
            media_type = _string(number, value, "mimeType")
            if not media_type.startswith("image/"):
                raise ResultError(f"mimeType of content {number} is not that of an image: {media_type[:80]}")
            return ImageContent(data, media_type)
        case other:
            raise ResultError(f"content {number} has type {other!r}, neither text nor image")


def _string(number: int, value: dict[str, object], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise ResultError(f'content {number} has no text "{key}"')
    return found
