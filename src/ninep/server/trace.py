"""What a server tells of its messages: a line for each."""

from collections.abc import Callable

from ninep import text
from ninep._wire import Buffer
from ninep.errors import ProtocolError
from ninep.messages import decode


def tell(trace: Callable[[str], None], direction: str, frame: Buffer) -> None:
    """The line of a whole message that was received, `<-`, or is sent, `->`."""
    data = bytes(frame)
    try:
        line = text.format_message(decode(data), data_limit=text.TRACE_BYTES)
    except ProtocolError as error:
        line = f"{error}: {data[:64].hex()}"
    trace(f"{direction} {line}")
