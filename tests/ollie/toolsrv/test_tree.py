"""The files of the tree: what is there, who gets in, tools and their revisions."""

import json

import pytest
from serving import SECRET, ToolServer, call, load

from ninep.client import Client
from ninep.errors import NinepError

LISTING = """
all 0440
bypass/ 0550
bypass/list 0440
bypass/pending 0440
bypass/resolve 0220
ctl 0220
events 0440
info 0440
proc/ 0550
proc/done 0660
proc/list 0660
proc/new 0660
proc/new.bg 0660
proc/whose 0660
tools 0660
tools_rev 0660
"""


async def test_the_tree_is_as_the_contract_says(toolsrv: ToolServer, agent: str) -> None:
    """Names and modes of all files; an agent without runs sees the fixed ones."""
    lines = []
    async with await toolsrv.client(agent) as client:
        for directory in ("", "bypass/", "proc/"):
            for entry in await client.ls(directory):
                slash = "/" if entry.qid.type & 0x80 else ""
                lines.append(f"{directory}{entry.name}{slash} {entry.mode & 0o777:04o}")
    assert sorted(lines) == LISTING.split("\n")[1:-1]


async def test_tools_are_loaded_for_one_agent(toolsrv: ToolServer, agent: str) -> None:
    """`tools` gives what is loaded, sorted, with schema and effect; another agent has nothing of it."""
    async with await toolsrv.client() as client, await toolsrv.client(agent) as own:
        assert await client.rdwr("tools", agent.encode()) == b"[]\n"
        await load(client, agent, "sh", "echo")
        loaded = json.loads(await client.rdwr("tools", f"{agent}\n".encode()))
        assert [tool["name"] for tool in loaded] == ["echo", "sh"]
        assert set(loaded[0]) == {"name", "description", "input_schema", "effect"}
        assert json.loads(await own.read("tools")) == loaded
        assert await client.rdwr("tools", b"other") == b"[]\n"
        await client.write("ctl", f"unload {agent} echo".encode())
        assert [tool["name"] for tool in json.loads(await own.read("tools"))] == ["sh"]


async def test_revisions_change_with_the_tools_of_their_agent_only(toolsrv: ToolServer, agent: str) -> None:
    """Each load and unload gives a new one; none is 0."""
    async with await toolsrv.client(agent) as client, await toolsrv.client() as other:
        seen = [int(await client.read("tools_rev"))]
        for command in (f"load {agent} sh", f"load {agent} sh", f"unload {agent} sh"):
            await client.write("ctl", command.encode())
            seen.append(int(await client.rdwr("tools_rev", agent.encode())))
        await other.write("ctl", b"load somebody-else sh")
        for path in ("tools", "tools_rev"):
            with pytest.raises(NinepError, match="permission denied"):
                await client.rdwr(path, b"somebody-else")
        for command in ("load somebody-else echo", "unload somebody-else sh"):
            with pytest.raises(NinepError, match="permission denied"):
                await client.write("ctl", command.encode())
        with pytest.raises(NinepError, match="permission denied"):
            await client.rdwr("proc/new", b"tool=sh\nagent=somebody-else\ncmd=true\n")
        assert int(await client.read("tools_rev")) == seen[-1]
        assert len(set(seen)) == len(seen)
        assert 0 not in seen


async def test_all_lists_every_tool_of_the_host_and_what_is_broken(toolsrv: ToolServer) -> None:
    """A tool with metadata that cannot be read costs itself only."""
    async with await toolsrv.client() as client:
        offered = {tool["name"]: tool for tool in json.loads(await client.read("all"))}
    assert {"sh", "echo", "shell", "file_read"} <= set(offered)
    assert "error" in offered["broken"]
    assert "input_schema" in offered["sh"]


async def test_info_describes_the_host(toolsrv: ToolServer) -> None:
    """A line each, flags as true and false."""
    async with await toolsrv.client() as client:
        facts = dict(line.split("=") for line in (await client.read("info")).decode().splitlines())
    assert list(facts) == ["platform", "arch", "version", "landlock_abi", "seccomp", "userns", "yolo"]
    assert facts["platform"] == "linux"
    assert facts["yolo"] == "false"


COMMANDS = [
    (b"load a none-such", "no such tool: none-such"),
    (b"load a broken", "broken tool: broken"),
    (b"unload a sh", "tool not loaded: sh"),
    (b"load a", "load takes AGENT TOOL: a"),
    (b"frobnicate", r"unknown command: frobnicate \(known: load unload end invalidate help\)"),
]


@pytest.mark.parametrize(("command", "error"), COMMANDS)
async def test_bad_commands_are_refused(toolsrv: ToolServer, command: bytes, error: str) -> None:
    """The error of a command is the reply to its write."""
    async with await toolsrv.client() as client:
        with pytest.raises(NinepError, match=error):
            await client.write("ctl", command)


async def test_invalidate_reads_tools_again(toolsrv: ToolServer, agent: str) -> None:
    """An edited tool is new after `load` or `invalidate`, one that has gone is unloaded."""
    file = toolsrv.home / "tools" / "edited.yaml"
    file.write_text("name: edited\ndescription: old\ninput: {type: object}\neffect: read\ncommand: echo old\n")
    async with await toolsrv.client(agent) as client:
        await load(client, agent, "edited")
        revision = await client.read("tools_rev")
        file.write_text("name: edited\ndescription: new\ninput: {type: object}\neffect: read\ncommand: echo new\n")
        assert json.loads(await client.read("tools"))[0]["description"] == "old"
        await client.write("ctl", b"invalidate")
        assert json.loads(await client.read("tools"))[0]["description"] == "new"
        assert await client.read("tools_rev") != revision
        file.write_text("{")
        await client.write("ctl", b"invalidate")
        said = (await call(client, agent, "edited")).text
        assert said.startswith(f"tool not loaded: edited; it is broken: {file}: metadata is not YAML")
        file.unlink()
        await client.write("ctl", b"invalidate")
        assert await client.read("tools") == b"[]\n"


async def test_only_who_knows_the_secret_gets_in(toolsrv: ToolServer) -> None:
    """A wrong secret and an attach without one are refused; the right one gives the same token each time."""
    with pytest.raises(NinepError, match="wrong secret"):
        await Client.connect(toolsrv.address, uname="x", aname="", secret=b"guess")
    with pytest.raises(NinepError, match="authentication required"):
        await Client.connect(toolsrv.address, uname="x", aname="")
    async with await toolsrv.client() as one, await toolsrv.client() as two:
        assert one.token == two.token
        assert one.token
        assert SECRET not in one.token
