"""All shipped tools together: they are whole, small, and what they say is short."""

import json
import subprocess
import sys

import pytest

from ollie.protocol import paths
from ollie.protocol.discovery import Catalog
from ollie.protocol.metadata import Python, ToolInfo


def test_every_tool_is_whole() -> None:
    """No shipped tool is broken on this host."""
    shipped = paths.shipped("tools")
    found = Catalog([shipped], shipped).tools()
    assert {"shell", "file_read", "file_write", "file_edit", "glob", "grep", "fetch", "image_view"} <= set(found)
    assert all(isinstance(tool, ToolInfo) for tool in found.values())


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("shell", "write"),
        ("file_read", "read"),
        ("file_write", "write"),
        ("file_edit", "write"),
        ("glob", "read"),
        ("grep", "read"),
        ("fetch", "read"),
        ("image_view", "read"),
    ],
)
def test_effects(name: str, effect: str, catalog: dict[str, ToolInfo]) -> None:
    """Only what changes nothing may run beside others."""
    assert catalog[name].effect == effect


def test_descriptions_are_short(catalog: dict[str, ToolInfo]) -> None:
    """A small model reads all of them with every request."""
    for tool in catalog.values():
        assert len(json.dumps(tool.public())) < 800
        assert "\n" not in tool.description


def test_modules_import_little(catalog: dict[str, ToolInfo]) -> None:
    """The launcher imports the tools' modules for good: the standard library only, and of that what is small."""
    modules = [tool.run.module for tool in catalog.values() if isinstance(tool.run, Python)]
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(out.split())
    assert not loaded & {"asyncio", "yaml", "fastjsonschema", "msgspec", "pathlib", "dataclasses", "typing_extensions"}
    assert {name.partition(".")[2].partition(".")[0] for name in loaded if name.startswith("ollie.")} == {"tools"}
