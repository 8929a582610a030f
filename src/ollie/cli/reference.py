"""`python -m ollie.cli.reference`: the reference of both trees, as a page in Markdown, printed from their tables."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ninep.tree import Entry
from ollie.olliesrv import ns
from ollie.olliesrv.ns.help import walk
from ollie.toolsrv.ns import ROOT

_OLLIESRV = """\
# The name space of olliesrv

Printed from the tables that serve it. Files belong to the user who runs the server and to the group `agent`.
"""
_TOOLSRV = """
# The name space of toolsrv

A session has a tool server of its own, whose tree is passed through at `session/{session}/toolsrv/`, with fewer rights
for agents. One that is started by hand is used in [Write a tool in five minutes](tools.md).
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_OLLIESRV, *tables(ns.ENTRIES), _TOOLSRV, *tables(ROOT), ""])


def tables(entries: Sequence[Entry[Any]]) -> Iterator[str]:
    """The lines of a table with every entry, and of one for each file that takes commands."""
    lines = list(walk(entries))
    yield from ("| path | permissions | kind | |", "|---|---|---|---|")
    for line in lines:
        yield f"| `{line.path}` | `{line.permissions}` | {line.kind} | {_cell(line.about)} |"
    for line in lines:
        if line.commands:
            yield from ("", f"## Commands of `{line.path}`", "", "| command | |", "|---|---|")
            yield from (f"| `{command.usage}` | {_cell(command.about)} |" for command in line.commands)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
