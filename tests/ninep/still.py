"""A tree whose waits need no loop: for sessions that are driven by hand."""

from collections.abc import Generator
from typing import Any

from ninep.files import Control, Dir, Entry, Level, Peer, Role, StoredText, Text, Tree
from ninep.testing.sample import MemoryText
from ninep.tree import Place


class Still:
    """Waits until whoever drives it makes an end of it."""

    def __await__(self) -> Generator[None, None, None]:
        yield


async def _wait(_note: MemoryText, _peer: Any) -> bytes:
    await Still()
    return b""


async def _command(_note: MemoryText, _peer: Any, _text: str) -> str:
    await Still()
    return ""


_A: tuple[Entry[MemoryText], ...] = (
    StoredText("note", 0o660, "Text kept.", buffer=lambda note: note),
    Level("level", 0o440, "Waits.", wait=_wait),
    Control("ctl", 0o660, "Commands that wait.", command=_command),
)
_ROOT: tuple[Entry[MemoryText], ...] = (
    Text("readme", 0o444, "A text.", render=lambda _note, _peer: b"text\n"),
    Dir("thing", "One directory.", (Dir("a", "Another.", _A),)),
)


def still_root(note: MemoryText | None = None) -> Place:
    """The root, with `readme` and `thing/a/{note,level,ctl}`; its times are 0, so that two are the same."""
    tree = Tree(_ROOT, note or MemoryText())
    tree.started = 0
    return tree.root(Peer("glenda", "", Role.USER))
