"""The catalog over real directories."""

import os
from pathlib import Path

import pytest

from ollie.protocol.discovery import Broken, Catalog
from ollie.protocol.metadata import Host, Script, ToolInfo

_HOST = Host("linux", "x86_64", "/usr/bin:/bin")
_YAML = "{description: %s, command: 'true'}"


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    user, shipped = tmp_path / "user", tmp_path / "shipped"
    user.mkdir()
    shipped.mkdir()
    return user, shipped


def _catalog(dirs: tuple[Path, Path]) -> Catalog:
    return Catalog([str(dirs[0]), str(dirs[0] / "missing"), str(dirs[1])], str(dirs[1]), _HOST)


def test_first_name_wins(dirs: tuple[Path, Path]) -> None:
    """A tool of the user's hides a shipped one of that name, also when it is broken."""
    for directory in dirs:
        (directory / "a.yaml").write_text(_YAML % directory.name)
    (dirs[0] / "b.yaml").write_text("{")
    (dirs[1] / "b.yaml").write_text(_YAML % "shipped")
    (dirs[1] / "c.yml").write_text(_YAML % "shipped")
    tools = _catalog(dirs).tools()
    assert list(tools) == ["a", "b", "c"]
    a, b, c = tools.values()
    assert isinstance(a, ToolInfo)
    assert a.description == "user"
    assert isinstance(b, Broken)
    assert b.path == str(dirs[0] / "b.yaml")
    assert b.error.startswith("metadata is not YAML")
    assert isinstance(c, ToolInfo)


def test_a_tool_that_does_not_fit_hides_nothing(dirs: tuple[Path, Path]) -> None:
    """Where no variant fits, the next directory's tool of that name counts."""
    (dirs[0] / "a.yaml").write_text("{description: user, variants: [{when: {platform: plan9}, command: rc}]}")
    assert _catalog(dirs).tools() == {}
    (dirs[1] / "a.yaml").write_text(_YAML % "shipped")
    tool = _catalog(dirs).tools()["a"]
    assert isinstance(tool, ToolInfo)
    assert tool.description == "shipped"


def test_executables(dirs: tuple[Path, Path]) -> None:
    """Executables with metadata beside or within them are tools; one without is listed as broken; the rest is not."""
    user = dirs[0]
    for name, content, mode in [
        ("beside.yaml", "description: d", 0o644),
        ("beside.md", "# documentation", 0o644),
        ("beside", "#!/bin/sh\n", 0o755),
        ("within.sh", "#!/bin/sh\n# ---\n# description: d\n# ---\n", 0o755),
        ("without", "#!/bin/sh\n", 0o755),
        ("alone.yaml", "description: d", 0o644),
        ("README.md", "# ---\n", 0o644),
        (".hidden.yaml", "description: d", 0o644),
        ("__init__.py", "", 0o755),
        ("backup.yaml~", "description: d", 0o644),
    ]:
        (user / name).write_text(content)
        (user / name).chmod(mode)
    (user / "directory.yaml").mkdir()
    (user / "README.md").write_text("# Tools\n")
    tools = _catalog(dirs).tools()
    assert list(tools) == ["alone", "beside", "within", "without"]
    errors = {name: tool.error for name, tool in tools.items() if isinstance(tool, Broken)}
    assert errors == {
        "alone": "nothing to run: no command, and no executable of that name beside it",
        "without": "no metadata: add a block to its leading comment, or without.yaml",
    }
    runs = {name: tool.run for name, tool in tools.items() if isinstance(tool, ToolInfo)}
    assert runs == {
        "beside": Script(("/bin/sh", str(user / "beside"))),
        "within": Script(("/bin/sh", str(user / "within.sh"))),
    }


def test_python_is_for_shipped_tools(dirs: tuple[Path, Path]) -> None:
    """A module is called in the launcher's child for a tool that ships, under whatever path its directory is given."""
    for directory, name in zip(dirs, "ab", strict=True):
        (directory / f"{name}.yaml").write_text("{description: d, python: ollie.tools.glob}")
    link = dirs[0].parent / "link"
    link.symlink_to(dirs[1])
    tools = Catalog([str(dirs[0]), str(link)], str(dirs[1]), _HOST).tools()
    assert isinstance(tools["a"], Broken)
    assert isinstance(tools["b"], ToolInfo)


def test_changes_are_seen(dirs: tuple[Path, Path]) -> None:
    """Unchanged files are not parsed again; new, changed and removed ones are noticed."""
    catalog = _catalog(dirs)
    file = dirs[0] / "a.yaml"
    file.write_text(_YAML % "one")
    first = catalog.tools()["a"]
    assert catalog.tools()["a"] is first
    (dirs[0] / "b.yaml").write_text(_YAML % "two")
    assert catalog.tools()["a"] is first
    file.write_text(_YAML % "another")
    changed = catalog.tools()["a"]
    assert isinstance(changed, ToolInfo)
    assert changed.description == "another"
    catalog.invalidate()
    assert catalog.tools()["a"] is not changed
    file.unlink()
    assert list(catalog.tools()) == ["b"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(dirs: tuple[Path, Path]) -> None:
    """A file that cannot be read is a broken tool."""
    (dirs[0] / "a.yaml").write_text(_YAML % "d")
    (dirs[0] / "a.yaml").chmod(0)
    tool = _catalog(dirs).tools()["a"]
    assert isinstance(tool, Broken)
    assert tool.error == "cannot be read: permission denied"


def test_what_cannot_be_looked_at_costs_no_other_tool(dirs: tuple[Path, Path]) -> None:
    """A link in a circle is broken; one to nothing, a directory and a fifo are none."""
    user = dirs[0]
    (user / "a.yaml").write_text(_YAML % "a")
    (user / "circle.yaml").symlink_to("circle.yaml")
    (user / "nothing.yaml").symlink_to("missing")
    (user / "directory.yaml").mkdir()
    os.mkfifo(user / "fifo.yaml")
    tools = _catalog(dirs).tools()
    assert list(tools) == ["a", "circle"]
    assert tools["circle"] == Broken(
        "circle", str(user / "circle.yaml"), "cannot be read: too many levels of symbolic links"
    )


def test_from_environment(dirs: tuple[Path, Path]) -> None:
    """The environment names the directories, and the shipped tools come along."""
    (dirs[0] / "mine.yaml").write_text(_YAML % "d")
    tools = Catalog.from_environment({"OLLIE_TOOLS_PATH": str(dirs[0]), "PATH": os.environ["PATH"]}).tools()
    assert isinstance(tools["mine"], ToolInfo)


def test_metadata_is_text_and_its_script_executable(dirs: tuple[Path, Path]) -> None:
    """Anything else is listed with what is wrong; a file without metadata may be anything."""
    script = "#!/bin/sh\n# ---\n# description: d\u00e9\n# ---\n"
    (dirs[0] / "a.yaml").write_bytes(b"{description: d\xe9, command: 'true'}")
    (dirs[0] / "b.sh").write_bytes(script.encode("latin-1"))
    (dirs[0] / "b.sh").chmod(0o755)
    (dirs[0] / "c.js").write_text("// ---\n// description: d\n// ---\n")
    (dirs[0] / "d.sh").write_bytes(script.encode() + b"echo \xff\n")
    (dirs[0] / "d.sh").chmod(0o755)
    (dirs[0] / "e.bin").write_bytes(b"\xff\xfe")
    tools = _catalog(dirs).tools()
    errors = {name: tool.error for name, tool in tools.items() if isinstance(tool, Broken)}
    assert errors == {
        "a": "metadata is not UTF-8",
        "b": "metadata is not UTF-8",
        "c": "not executable: chmod +x it",
    }
    assert list(tools) == ["a", "b", "c", "d"]
