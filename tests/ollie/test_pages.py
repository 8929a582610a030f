"""The pages: what they show is run as it stands there."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House

from ollie.cli import reference
from ollie.olliesrv import ns
from ollie.toolsrv.ns import ROOT

DOCS = Path(__file__).parents[2] / "docs"
FILE = re.compile(r"\*\*`tools/([^`]+)`\*\*\n\n```\w+\n(.*?)```\n", re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)```\n", re.DOTALL)
MARK = "-- next --"


def commands(page: str) -> Iterator[tuple[str, str]]:
    """What is typed after `$ `, and what is shown below it."""
    for block in CONSOLE.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def shows(shown: str) -> str:
    """A regular expression for an output, in which `...` stands for anything."""
    return ".*".join(map(re.escape, shown.split("...")))


def test_the_page_about_tools(house: House) -> None:
    """Every file is written, every command is typed in its order, and each gives what the page says."""
    page = (DOCS / "tools.md").read_text()
    directory = house.config / "tools"
    directory.mkdir()
    for name, content in FILE.findall(page):
        (directory / name).write_text(content)
        if not name.endswith(".yaml"):
            (directory / name).chmod(0o755)
    typed = list(commands(page))
    assert len(typed) >= 20
    script = "".join(f"{command} 2>&1\necho; echo '{MARK}'\n" for command, _ in typed)
    done = house.run("bash", "-c", script, OLLIE_CFG_PATH=str(house.config))
    outputs = done.stdout.split(f"\n{MARK}\n")
    for (command, shown), output in zip(typed, outputs, strict=False):
        assert re.fullmatch(shows(shown), output, re.DOTALL), f"$ {command}\n{output}\n{done.stderr}"
    assert len(outputs) == len(typed) + 1


def test_the_reference_is_what_the_tables_say() -> None:
    """Run with UPDATE_SNAPSHOTS=1 to print it anew."""
    if os.environ.get("UPDATE_SNAPSHOTS"):
        (DOCS / "reference.md").write_text(reference.page())
    assert (DOCS / "reference.md").read_text() == reference.page()


def test_the_reference_has_both_trees() -> None:
    """Each file of each tree is in it, and each command."""
    lines = reference.page().splitlines()
    assert all(line in lines for entries in (ns.ENTRIES, ROOT) for line in reference.tables(entries))
    assert "| `proc/{pid}/out` | `-r--r-----` | log | Its output as it comes. |" in lines
    assert "| `model [name]` | show or change the model |" in lines
    assert "## Commands of `proc/{pid}/ctl`" in lines


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_lead_somewhere(page: str) -> None:
    """Every link to another page has its page."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (DOCS / page).read_text()):
        assert (DOCS / target).exists(), target
