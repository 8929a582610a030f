"""Who may do what in the live tree."""

import json

import pytest
from world import World

from ninep.errors import NinepError

AGENT = "session/one/agent/coder"
INNER = "session/one/agent/inner"

# What an agent may read, and what it may not.
READS = {
    "help": True,
    "backends": True,
    "session/idx": True,
    "session/one/env": True,
    "session/one/ctl": True,
    f"{AGENT}/cfg": True,
    f"{AGENT}/stats": True,
    f"{INNER}/chat": True,
    f"{INNER}/plan": True,
    "ctl": False,
}
# (who, path, data): what is written, and whether it is allowed.
WRITES = {
    ("coder", f"{AGENT}/plan", "x"): True,
    ("coder", f"{INNER}/plan", "x"): True,
    ("coder", f"{INNER}/ctl", "stop"): True,
    ("coder", f"{AGENT}/ctl", "name"): True,
    ("coder", f"{AGENT}/ctl", "cwd {work}/inner"): True,
    ("coder", f"{AGENT}/ctl", "cwd /"): False,
    ("coder", f"{INNER}/ctl", "cwd /"): False,
    ("coder", f"{AGENT}/cfg", "max_steps=1000"): False,
    ("coder", f"{AGENT}/name", "x"): False,
    ("coder", "session/one/ctl", "pause"): False,
    ("coder", "session/one/name", "x"): False,
    ("coder", "ctl", "kill"): False,
    ("coder", "session/new", "name=x"): False,
    ("coder", "session/one/agent/new", "name=x cwd={work}"): True,
    ("coder", "session/one/agent/new", "name=x cwd={work}/inner"): True,
    ("coder", "session/one/agent/new", "name=x cwd=/"): False,
    ("inner", f"{INNER}/plan", "x"): True,
    ("inner", f"{AGENT}/plan", "x"): False,
    ("inner", f"{AGENT}/ctl", "stop"): False,
    ("inner", f"{AGENT}/prompt", "rm everything"): False,
    ("inner", "session/one/agent/new", "name=x cwd={work}"): False,
}


@pytest.mark.parametrize("path", READS)
async def test_an_agent_reads_in_its_session(world: World, path: str) -> None:
    """An agent reads what the group may read, at the root and in its own session."""
    await world.populated()
    client = await world.attach("agent:coder")
    if READS[path]:
        await client.read(path)
    else:
        with pytest.raises(NinepError, match="permission denied"):
            await client.read(path)


@pytest.mark.parametrize(("who", "path", "data"), WRITES)
async def test_an_agent_writes_within_its_ceiling(world: World, who: str, path: str, data: str) -> None:
    """An agent writes to agents whose ceiling lies within its own, and what it asks of them stays within it, too."""
    await world.populated()
    client = await world.attach(f"agent:{who}")
    record = data.format(work=world.work).encode()
    if WRITES[who, path, data]:
        await client.write(path, record)
    else:
        with pytest.raises(NinepError, match="permission denied"):
            await client.write(path, record)


async def test_an_agent_sees_its_own_session_only(world: World) -> None:
    """To an agent there is no other session, by name or by id, nor in listings; the owner sees both."""
    owner = await world.populated()
    client = await world.attach("agent:coder")
    two = (await owner.read("session/two/id")).decode().strip()
    for path in ("session/two/env", f"session/{two}/env", "session/two/agent/other/chat"):
        with pytest.raises(NinepError, match="file does not exist"):
            await client.read(path)
    for path in ("session/two/agent/new", "session/two/agent/other/prompt"):
        with pytest.raises(NinepError, match="file does not exist"):
            await client.write(path, b"x")
    with pytest.raises(NinepError, match="file does not exist"):
        await client.remove("session/two")
    assert [stat.name for stat in await client.ls("session") if stat.is_dir] == ["one"]
    assert (await client.read("session/idx")).count(b"\n") == 1
    assert b"session/two" not in await client.read("aliases")
    assert b"session/one/agent/inner" in await client.read("aliases")
    assert (await owner.read("session/idx")).count(b"\n") == 2
    assert b"session/two" in await owner.read("aliases")


async def test_an_agent_removes_within_its_ceiling(world: World) -> None:
    """Removing an agent's directory kills it, where the ceiling allows; renaming is the owner's."""
    owner = await world.populated()
    inner, coder = await world.attach("agent:inner"), await world.attach("agent:coder")
    for path in (AGENT, "session/one"):
        with pytest.raises(NinepError, match="permission denied"):
            await inner.remove(path)
    with pytest.raises(NinepError, match="permission denied"):
        await coder.rename(INNER, "other")
    for client in (inner, coder, await world.attach("stranger")):
        for name, text in (("name", b"other"), ("ctl", b"name other")):
            with pytest.raises(NinepError, match="permission denied"):
                await client.write(f"{INNER}/{name}", text)
    await coder.remove(INNER)
    with pytest.raises(NinepError, match="file does not exist"):
        await owner.read(f"{INNER}/id")
    with pytest.raises(NinepError, match="file does not exist"):
        await inner.read(f"{INNER}/id")


async def test_a_stranger_has_the_rights_of_the_group(world: World) -> None:
    """A TCP client without the secret reads and prompts, but never changes what is the owner's."""
    await world.populated()
    client = await world.attach("stranger")
    assert (await client.read("session/idx")).count(b"\n") == 2
    await client.write("session/new", b"name=three")
    await client.write("session/one/agent/coder/plan", b"x")
    for path, data in ((f"{AGENT}/cfg", b"max_steps=1"), ("session/one/ctl", b"kill"), ("session/one/name", b"x")):
        with pytest.raises(NinepError, match="permission denied"):
            await client.write(path, data)
    with pytest.raises(NinepError, match="permission denied"):
        await client.read("ctl")
    with pytest.raises(NinepError, match="permission denied"):
        await client.remove("session/one")


async def test_notes_of_what_was_delivered_are_kept_apart(world: World) -> None:
    """An agent that claims the owner's uname has its own errors."""
    owner = await world.populated()
    agent = await world.attach("agent:coder")
    async with await agent.open("session/one/agent/new", 1) as file:
        await file.write(b"nonsense=1")
        with pytest.raises(NinepError, match="unknown key"):
            await file.close()
    assert b"session/one/agent/new\tunknown key: nonsense" in await agent.read("errors")
    assert await owner.read("errors") == b""


async def test_an_agent_hears_of_its_own_session_only(world: World) -> None:
    """The owner hears of everything, in its order."""
    owner = await world.populated()
    agent = await world.attach("agent:coder")
    all_of_it, its_own = await owner.open("eventwait"), await agent.open("eventwait")
    for path in ("session/two/agent/new", "session/one/agent/new"):
        await owner.write(path, f"name=late cwd={world.work}".encode())
    first, second = [json.loads(await all_of_it.read(offset=0)) for _ in range(2)]
    assert (first["path"], second["path"]) == ("session/two/agent/late", "session/one/agent/late")
    assert json.loads(await its_own.read(offset=0)) == second
