"""The tree as it is served: held against the tables, and against a snapshot."""

import os
import re
from pathlib import Path

import pytest
from world import World

from ninep.client import Client
from ninep.errors import NinepError
from ollie.olliesrv.ns import ENTRIES
from ollie.olliesrv.ns import help as reference
from ollie.toolsrv.ns import ROOT

TOOLSRV = "session/{session}/toolsrv/"
# What is there only where a tool server runs.
NO_TOOL_SERVER = re.compile(r"/toolsrv/.|/\{pid\}/")
SNAPSHOT = Path(__file__).with_name("tree.txt")


async def walked(client: Client, path: str = "") -> list[tuple[str, int]]:
    """Every path below one, with its permission bits; a directory's ends in `/`, files come before directories."""
    found = []
    for stat in sorted(await client.ls(path), key=lambda stat: stat.is_dir):
        below = f"{path}{stat.name}"
        if stat.is_dir:
            found.append((f"{below}/", stat.mode & 0o777))
            found += await walked(client, f"{below}/")
        else:
            found.append((below, stat.mode & 0o777))
    return found


async def test_the_tree_is_what_the_tables_say(world: World) -> None:
    """Each line of the reference is served with its mode, and nothing else is."""
    client = await world.populated()
    served = await walked(client)
    named = {
        (re.sub("/(one|two)/", "/{session}/", re.sub("/agent/\\w+/", "/agent/{agent}/", path)), mode)
        for path, mode in served
    }
    assert named == {(line.path, line.mode) for line in reference.walk(ENTRIES) if not NO_TOOL_SERVER.search(line.path)}


def test_a_tool_servers_tree_is_passed_through() -> None:
    """Each of its files, as the kind it is; what is the owner's alone is closed to agents, and nothing is opened."""
    ours = {line.path.removeprefix(TOOLSRV): line for line in reference.walk(ENTRIES) if line.path.startswith(TOOLSRV)}
    theirs = {line.path: line for line in reference.walk(ROOT)}
    assert ours.pop("").kind == "dir"
    assert {path: line.kind for path, line in ours.items()} == {path: line.kind for path, line in theirs.items()}
    assert all(line.mode & ~theirs[path].mode == 0 for path, line in ours.items())
    closed = {path for path, line in ours.items() if line.mode != theirs[path].mode}
    assert closed == {"ctl", "bypass/list", "bypass/pending", "bypass/resolve", "proc/done", "proc/whose"}


async def test_ls(world: World) -> None:
    """`ls -lR` is as it was; run with UPDATE_SNAPSHOTS=1 to accept a change of the interface."""
    client = await world.populated()
    lines = []
    for path, _ in await walked(client):
        stat = await client.stat(path)
        kind = "d" if stat.is_dir else "-"
        lines.append(f"{kind}{stat.mode & 0o777:04o} {stat.gid} {stat.length} {path}\n")
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text("".join(lines))
    assert "".join(lines) == SNAPSHOT.read_text()


async def test_every_entry_is_described() -> None:
    """Each entry has a sentence that ends, and no file has world bits."""
    for line in reference.walk(ENTRIES):
        assert line.about.endswith("."), line.path
        assert not line.mode & 0o007, line.path
        assert line.mode == 0o550 or not line.path.endswith("/"), line.path


async def test_help_names_every_file(world: World) -> None:
    """`help` has every path, and every command of the control files."""
    text = (await (await world.attach()).read("help")).decode()
    for line in reference.walk(ENTRIES):
        assert f" {line.path} " in text
        assert f"Commands of {line.path}\n" in text or not line.commands
        for command in line.commands:
            assert re.search(rf"^{re.escape(command.usage)} +{re.escape(command.about)}$", text, re.MULTILINE)


@pytest.mark.parametrize(("mode", "path", "shown"), [(0o640, "x", "-rw-r-----"), (0o550, "x/", "dr-xr-x---")])
def test_permissions_as_ls_shows_them(mode: int, path: str, shown: str) -> None:
    """Bits and kind are shown as by `ls -l`."""
    assert reference.Line(path, mode, "", "").permissions == shown


async def test_every_readable_file_can_be_read(world: World) -> None:
    """What may be read gives something, or an empty file, and what may not is refused."""
    client = await world.populated()
    for path, mode in await walked(client):
        if path.endswith(("/", "wait", "/pending", "new", "generate")):
            continue
        if mode & 0o400:
            await client.read(path)
        else:
            with pytest.raises(NinepError, match="permission denied"):
                await client.read(path)


async def test_ids_work_where_names_do(world: World) -> None:
    """A session and an agent are found by their ids, which `aliases` lists with their paths."""
    client = await world.populated()
    session = (await client.read("session/one/id")).decode().strip()
    agent = (await client.read("session/one/agent/coder/id")).decode().strip()
    assert await client.read(f"session/{session}/agent/{agent}/name") == b"coder\n"
    aliases = (await client.read("aliases")).decode()
    assert f"{session}\tsession/one\n{agent}\tsession/one/agent/coder\n" in aliases


async def test_the_help_of_a_control_file_is_its_text(world: World) -> None:
    """Before any command a `ctl` gives its commands, and `cfg` its settings."""
    client = await world.populated()
    assert b"kill" in await client.read("ctl")
    assert b"pause" in await client.read("session/one/ctl")
    assert b"stop" in await client.read("session/one/agent/coder/ctl")
    assert f"cwd={world.work}\n".encode() in await client.read("session/one/agent/coder/cfg")


async def test_statistics_count_what_is_open(world: World) -> None:
    """Connections, fids and requests of all clients, read by the owner."""
    client = await world.populated()
    before = await client.read("statistics")
    other = await world.attach("other")
    await other.open("session/idx")
    counted = [
        dict(line.split("=") for line in text.decode().splitlines())
        for text in (before, await client.read("statistics"))
    ]
    assert [sorted(numbers) for numbers in counted] == [["connections", "fids", "outstanding"]] * 2
    grown = {key: int(counted[1][key]) - int(counted[0][key]) for key in counted[0]}
    assert grown == {"connections": 1, "fids": 2, "outstanding": 0}
