"""Statistics of a server as a file of its own tree, for tests from outside and for operators."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from ninep.files import Text
from ninep.server.server import Server

T = TypeVar("T")


def statistics_file(server: Callable[[T], Server], *, name: str = "statistics", mode: int = 0o440) -> Text[T]:
    """A text with a line for each number: `connections=3`, `fids=12`, `outstanding=1`; the reader counts too.

    Args:
        server: `(obj)`: the server, which exists only after its tree.
        name: as served.
        mode: permission bits.
    """

    def render(obj: T, _peer: Any) -> bytes:
        now = asdict(server(obj).statistics())
        return "".join(f"{key}={value}\n" for key, value in now.items()).encode()

    return Text(name, mode, "What is in use: connections, fids, outstanding requests.", render=render)
