"""`help`: what is served, printed from the tables that serve it.

`text` is what the file holds, `page` the same as a page of the documentation. `walk` gives the lines of both, and is
what tests hold the live tree against.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ninep.tree import Dir, Each, Entry
from ollie.olliesrv import server
from ollie.olliesrv.sessions import control, session_control
from ollie.olliesrv.sessions.commands import Command

# The control files, and what may be written to them.
CONTROLS: Sequence[tuple[str, Sequence[Command[Any]]]] = (
    ("ctl", server.COMMANDS),
    ("session/{session}/ctl", session_control.COMMANDS),
    ("session/{session}/agent/{agent}/ctl", control.COMMANDS),
)

# The head of a table of files.
HEAD: Sequence[str] = ("| path | permissions | kind | |", "|---|---|---|---|")


@dataclass(frozen=True)
class Line:
    """One entry of the tree.

    Args:
        path: as it is walked, `session/{session}/id`; a directory ends in `/`.
        mode: its permission bits.
        kind: its kind of file, or `dir`.
        about: one sentence.
    """

    path: str
    mode: int
    kind: str
    about: str

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
            yield Line(above + entry.name, entry.mode, entry.kind, entry.about)


def text(entries: Sequence[Entry[Any]]) -> bytes:
    """The reference as plain text."""
    lines = list(walk(entries))
    width = max(len(line.path) for line in lines)
    kinds = max(len(line.kind) for line in lines)
    parts = [f"{line.permissions}  {line.kind:{kinds}}  {line.path:{width}}  {line.about}" for line in lines]
    for path, commands in CONTROLS:
        parts += ["", f"Commands of {path}", ""]
        parts += _columns((f"{command.name} {command.argument}".rstrip(), command.about) for command in commands)
    return "\n".join([*parts, ""]).encode()


def page(entries: Sequence[Entry[Any]]) -> str:
    """The reference as a page in Markdown."""
    parts = [
        "# The name space of olliesrv",
        "",
        "Printed from the tables that serve it. Files belong to the user who runs the server and to the group `agent`.",
        "",
        *HEAD,
        *rows(entries),
    ]
    for path, commands in CONTROLS:
        parts += ["", f"## Commands of `{path}`", "", "| command | |", "|---|---|"]
        for command in commands:
            parts.append(f"| `{f'{command.name} {command.argument}'.rstrip()}` | {_cell(command.about)} |")
    return "\n".join([*parts, ""])


def rows(entries: Sequence[Entry[Any]]) -> list[str]:
    """A row of that page's table for each entry."""
    return [f"| `{line.path}` | `{line.permissions}` | {line.kind} | {_cell(line.about)} |" for line in walk(entries)]


def _columns(pairs: Iterable[tuple[str, str]]) -> list[str]:
    rows = list(pairs)
    width = max(len(left) for left, _ in rows)
    return [f"{left:{width}}  {right}" for left, right in rows]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
