"""`help`: what is served, printed from the tables that serve it.

`walk` gives the lines of it, and is what tests hold the live tree against.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ninep.files import Command, Control
from ninep.tree import Dir, Each, Entry


@dataclass(frozen=True)
class Line:
    """One entry of the tree.

    Args:
        path: as it is walked, `session/{session}/id`; a directory ends in `/`.
        mode: its permission bits.
        kind: its kind of file, or `dir`.
        about: one sentence.
        commands: what may be written, where it is a table of commands.
    """

    path: str
    mode: int
    kind: str
    about: str
    commands: Sequence[Command[Any]] = ()

    @property
    def permissions(self) -> str:
        """As `ls -l` shows them: `-r--r-----`."""
        bits = zip(range(8, -1, -1), "rwxrwxrwx", strict=True)
        return ("d" if self.path.endswith("/") else "-") + "".join(c if self.mode >> n & 1 else "-" for n, c in bits)


def walk(entries: Sequence[Entry[Any]], above: str = "") -> Iterator[Line]:
    """Every entry of a table and of the tables below it, files before directories."""
    for entry in sorted(entries, key=lambda entry: isinstance(entry, Dir | Each)):
        if isinstance(entry, Dir | Each):
            path = f"{above}{entry.name}/"
            yield Line(path, entry.mode, "dir", entry.about)
            yield from walk(entry.entries, path)
        else:
            commands = entry.table if isinstance(entry, Control) else ()
            yield Line(above + entry.name, entry.mode, entry.kind, entry.about, commands)


def text(entries: Sequence[Entry[Any]]) -> bytes:
    """The reference as plain text: a table of the files, then one for each file that takes commands."""
    lines = list(walk(entries))
    rows = _columns([(line.permissions, line.kind, line.path, line.about) for line in lines])
    for line in lines:
        if line.commands:
            rows += ["", f"Commands of {line.path}", ""]
            rows += _columns([(command.usage, command.about) for command in line.commands])
    return "\n".join([*rows, ""]).encode()


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
