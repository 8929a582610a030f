"""What a tool gave, made into what the model is told."""

import base64

from ollie.engine.messages import Content, ImageContent, TextContent, ToolCall, ToolResult
from ollie.protocol import result as protocol
from ollie.protocol.limits import cut_result

_EMPTY = "(no output)"


def result_of(call: ToolCall, outcome: protocol.ToolResult, interrupted: str = "") -> ToolResult:
    """The result of a call: its texts cut to the limit for models, its images in base64.

    Args:
        call: the call as the history has it.
        outcome: what the tool gave. Cut here too, since whoever ran it may not have done so.
        interrupted: why it was ended before its time, empty when it was not. Then the result is an error and says so.
    """
    content = [_content(part) for part in cut_result(outcome, path=None).content]
    content = [part for part in content if isinstance(part, ImageContent) or part.text]
    if interrupted:
        match content:
            case [*before, TextContent(said)]:
                content = [*before, TextContent(f"{said.rstrip()}\n{interrupted}")]
            case _:
                content.append(TextContent(interrupted))
    return ToolResult(
        call.id, call.name, tuple(content) or (TextContent(_EMPTY),), outcome.is_error or bool(interrupted)
    )


def _content(part: protocol.Content) -> Content:
    if isinstance(part, protocol.TextContent):
        return TextContent(part.text.encode(errors="replace").decode())
    return ImageContent(base64.b64encode(part.data).decode(), part.media_type)
