"""`python -m ollie.cli.reference`: the reference of both trees, as a page in Markdown, printed from their tables."""

import sys
from collections.abc import Sequence
from typing import Any

from ninep.tree import Entry
from ollie.olliesrv import ns
from ollie.olliesrv.ns import help as reference
from ollie.toolsrv.ns import ROOT

_TOOLSRV = """
# The name space of toolsrv

A session has a tool server of its own, whose tree is passed through at `session/{session}/toolsrv/`, with fewer rights
for agents. One that is started by hand is used in [Write a tool in five minutes](tools.md).
"""


def page() -> str:
    """The whole page."""
    return "\n".join([reference.page(ns.ENTRIES).rstrip("\n"), _TOOLSRV, *table(ROOT), ""])


def table(entries: Sequence[Entry[Any]]) -> list[str]:
    """The lines of a table with every entry."""
    return [*reference.HEAD, *reference.rows(entries)]


if __name__ == "__main__":
    sys.stdout.write(page())
