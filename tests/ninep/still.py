"""A tree whose waits need no loop: for sessions that are driven by hand."""

from collections.abc import Awaitable, Generator
from typing import Any

from ninep.files import Control, Dir, Each, Entry, Level, Peer, Role, Sink, StoredText, Text, Tree
from ninep.testing.things import MemoryText
from ninep.tree import Place


class Still:
    """Waits until whoever drives it makes an end of it."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Thing:
    """The object of `slow/kept`."""

    number = 1


_KEPT = Thing()


async def _still(*_whatever: Any) -> Any:
    await Still()


def _find(_note: MemoryText, _peer: Any, name: str) -> Thing | Awaitable[Thing | None]:
    return _KEPT if name == "kept" else _still()


_A: tuple[Entry[MemoryText], ...] = (
    StoredText("note", 0o660, "Text kept.", buffer=lambda note: note),
    Level("level", 0o440, "Waits.", wait=_still),
    Control("ctl", 0o660, "Commands that wait.", command=_still),
)
_SLOW: tuple[Entry[MemoryText], ...] = (
    Text("text", 0o440, "To open it waits.", render=_still),
    Sink("sink", 0o220, "What is written waits to be taken.", take=_still),
    Each(
        "{thing}",
        "All but `kept` have to be waited for, and so has every change.",
        _find,
        lambda _note, _peer: [("kept", _KEPT)],
        entries=(),
        remove=_still,
        rename=_still,
        create=_still,
    ),
)
_ROOT: tuple[Entry[MemoryText], ...] = (
    Text("readme", 0o444, "A text.", render=lambda _note, _peer: b"text\n"),
    Dir("thing", "One directory.", (Dir("a", "Another.", _A),)),
    Dir("slow", "What waits.", _SLOW, mode=0o770),
)


def still_root(note: MemoryText | None = None) -> Place:
    """The root, with `readme`, `thing/a/{note,level,ctl}` and `slow/{text,sink,kept}`.

    Its times are 0, so that two are the same.
    """
    tree = Tree(_ROOT, note or MemoryText())
    tree.started = 0
    return tree.root(Peer("glenda", "", Role.USER))
