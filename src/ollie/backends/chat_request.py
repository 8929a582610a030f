"""Requests of the chat completions API (platform.openai.com/docs/api-reference/chat), as the bytes that are sent.

The messages of a history are encoded once and kept as long as the history keeps them, so that a long conversation does
not cost its whole length again with each request.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Raw, Struct

from ollie.engine.messages import Assistant, ImageContent, Message, Request, TextContent, ToolResult, ToolSpec, User


class _Encoded(Struct, frozen=True):
    """A message, and the images of a tool result, which this API takes in a message of the user only."""

    message: Raw
    images: Raw | None = None


class Requests:
    """Encodes the requests of one backend.

    Args:
        parameters: how sampling keys are called here, where they are not called as in `PARAMETERS`.
    """

    def __init__(self, parameters: Mapping[str, str] | None = None) -> None:
        self._parameters = parameters or {}
        self._encoded: WeakKeyDictionary[Message, _Encoded] = WeakKeyDictionary()

    def encode(self, request: Request, model: str) -> bytes:
        """The body of a streaming request to a model."""
        body: dict[str, Any] = {
            "model": model,
            "messages": self._messages(request),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        body |= {self._parameters.get(key, key): value for key, value in request.parameters.items()}
        return _json(body)

    def _messages(self, request: Request) -> list[Raw]:
        messages = [Raw(_json({"role": "system", "content": request.system}))] if request.system else []
        images: list[Raw] = []
        for message in request.messages:
            if images and not isinstance(message, ToolResult):
                messages += images
                images = []
            encoded = self._encoded.get(message)
            if encoded is None:
                encoded = self._encoded[message] = _encode(message)
            messages.append(encoded.message)
            if encoded.images is not None:
                images.append(encoded.images)
        return messages + images


def _encode(message: Message) -> _Encoded:
    match message:
        case User(text):
            return _Encoded(Raw(_json({"role": "user", "content": text})))
        case Assistant(text=text, calls=calls):
            value: dict[str, Any] = {"role": "assistant", "content": text or None}
            if calls:
                value["tool_calls"] = [
                    {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                    for call in calls
                ]
            return _Encoded(Raw(_json(value)))
        case ToolResult():
            return _encode_result(message)


def _encode_result(result: ToolResult) -> _Encoded:
    text = "".join(part.text for part in result.content if isinstance(part, TextContent))
    pictures = [part for part in result.content if isinstance(part, ImageContent)]
    if pictures and not text:
        text = "(an image, shown below)"
    if result.is_error:
        text = f"error: {text}"
    message = Raw(_json({"role": "tool", "tool_call_id": result.call_id, "content": text}))
    return _Encoded(message, _images(result, pictures) if pictures else None)


def _images(result: ToolResult, pictures: Sequence[ImageContent]) -> Raw:
    content: list[dict[str, Any]] = [{"type": "text", "text": f"Images from {result.name} ({result.call_id}):"}]
    content += [
        {"type": "image_url", "image_url": {"url": f"data:{picture.media_type};base64,{picture.data}"}}
        for picture in pictures
    ]
    return Raw(_json({"role": "user", "content": content}))


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def _json(value: Any) -> bytes:
    """JSON in UTF-8. A lone surrogate has no UTF-8 and is sent as a question mark."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(value))


def _clean(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_clean(key): _clean(item) for key, item in value.items()}
        case list() | tuple():
            return [_clean(item) for item in value]
        case _:
            return value
