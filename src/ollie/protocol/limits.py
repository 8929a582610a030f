"""What fits into a model's context: text that is too long keeps its head and its tail.

A result is cut to 32 KiB. One line in the middle says how much is missing, and where everything that was kept can be
read.
"""

from ollie.protocol.result import TextContent, ToolResult

RESULT_BYTES = 32 * 1024


def cut(text: str, *, path: str | None, limit_bytes: int = RESULT_BYTES, lost_bytes: int = 0) -> str:
    """`text`, or where that is too long its head, one line about what is missing, and its tail.

    Args:
        text: what was kept of the output.
        path: the file that holds all that was kept, None where there is none.
        limit_bytes: what the result may have in UTF-8, the line included; where not even the line fits, the result is
            the beginning of the line.
        lost_bytes: what `text` lacks already, somewhere in its middle; it is counted in the line.

    Returns:
        Text of at most `limit_bytes` in UTF-8, cut between characters.
    """
    data = text.encode(errors="replace")
    if len(data) <= limit_bytes:
        return text
    # The number in the line is known only when the line's own length is: this one is at least as long.
    longest = len(_notice(len(data) + lost_bytes, lost_bytes, path).encode(errors="replace")) + 2
    room = max(limit_bytes - longest, 0)
    head = _start(data, room // 2)
    tail = _end(data, room - len(head.encode()))
    line = _notice(len(data) - len(head.encode()) - len(tail.encode()) + lost_bytes, lost_bytes, path)
    before = "" if not head or head.endswith("\n") else "\n"
    after = "" if not tail or tail.startswith("\n") else "\n"
    return f"{head}{before}{line}{after}{tail}" if room else _start(line.encode(errors="replace"), limit_bytes)


def cut_result(
    result: ToolResult, *, path: str | None, limit_bytes: int = RESULT_BYTES, lost_bytes: int = 0
) -> ToolResult:
    """`result` with at most `limit_bytes` of text in UTF-8; images do not count.

    Texts that are too long together are joined into one, which comes before the images.
    """
    parts = [part for part in result.content if isinstance(part, TextContent)]
    if sum(len(part.text.encode(errors="replace")) for part in parts) <= limit_bytes:
        return result
    text = cut("".join(part.text for part in parts), path=path, limit_bytes=limit_bytes, lost_bytes=lost_bytes)
    images = [part for part in result.content if not isinstance(part, TextContent)]
    return ToolResult((TextContent(text), *images), result.is_error)


def _notice(left_out: int, lost: int, path: str | None) -> str:
    what = f"{left_out} bytes left out"
    if lost:
        what += f", {lost} of them not kept"
    if path is not None:
        what += f"; {'the rest' if lost else 'all of it'}: {path}"
    return f"[... {what} ...]"


def _start(data: bytes, count: int) -> str:
    # An incomplete character can be at the end only: the data was encoded from text.
    return data[:count].decode(errors="ignore")


def _end(data: bytes, count: int) -> str:
    return data[len(data) - count :].decode(errors="ignore")
