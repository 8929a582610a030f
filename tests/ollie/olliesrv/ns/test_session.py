"""Making, renaming and removing sessions and agents through the tree."""

import gc
import weakref

import pytest
from msgspec.structs import replace
from world import World

from ninep.errors import NinepError


@pytest.mark.parametrize(
    ("path", "record", "error"),
    [
        ("session/new", "\n", "name missing"),
        ("session/new", "name=one", "session exists: one"),
        ("session/new", "name=idx", "bad name: idx"),
        ("session/new", "name=a/b", "bad name: a/b"),
        ("session/new", "nmae=x", "unknown key: nmae \\(did you mean name\\? known: name remote cwd\\)"),
        ("session/new", "name=x remote=far", "remote sessions"),
        ("session/new", "name=x cwd=/nowhere", "cwd does not exist: /nowhere"),
        ("session/new", "name=x cwd=/", "ollie's own directory"),
        ("session/one/agent/new", "name=coder", "agent exists: coder"),
        ("session/one/agent/new", "name=x backend=nonesuch", "unknown backend: nonesuch"),
        ("session/one/agent/new", "name=x agent=nonesuch", "nonesuch"),
        ("session/one/agent/new", "colour=blue", "unknown key: colour"),
        ("session/one/agent/new", "keep=maybe", "keep is yes or no: maybe"),
        ("session/one/agent/new", "keep=no", "lives as long as its id is being read"),
        ("session/one/agent/new", "keep=no prompt=x", "exclude one another"),
        ("session/none/agent/new", "name=x", "file does not exist"),
        ("session/one/ctl", "sing", "unknown command: sing"),
        ("session/one/agent/coder/ctl", "sing", "unknown command: sing"),
        ("session/one/agent/coder/cfg", "colour=blue", "unknown key: colour"),
        ("session/one/agent/coder/name", "inner", "agent exists: inner"),
        ("session/one/name", "two", "session exists: two"),
        ("ctl", "sing", "unknown command: sing"),
    ],
)
async def test_refused_writes(world: World, path: str, record: str, error: str) -> None:
    """A write that cannot be obeyed is answered with what is wrong."""
    client = await world.populated()
    with pytest.raises(NinepError, match=error):
        await client.write(path, record.encode())


async def test_a_session_answers_with_its_name(world: World) -> None:
    """Written and read, `session/new` gives the name."""
    client = await world.attach()
    assert await client.rdwr("session/new", f"name=one cwd={world.work}\n".encode()) == b"one\n"
    session = (await client.read("session/one/id")).decode().strip()
    assert (await client.read("session/idx")).decode() == f"{session}\tone\t0\tfalse\t\t{world.work}\n"


async def test_an_agent_answers_with_its_id(world: World) -> None:
    """Written and read, `agent/new` gives the id; without a name one is made."""
    client = await world.populated()
    answer = await client.rdwr("session/one/agent/new", b"\n")
    agent = answer.decode().strip()
    name = (await client.read(f"session/one/agent/{agent}/name")).decode().strip()
    assert await client.read(f"session/one/agent/{name}/id") == answer


async def test_an_agent_that_goes_with_its_reader(world: World) -> None:
    """With `keep=no` an agent is there until the file that gave its id is closed."""
    client = await world.populated()
    before = await client.read("session/one/agent/idx")
    async with await client.open("session/one/agent/new", 2) as new:
        await new.write(b"keep=no")
        agent = (await new.read()).decode().strip()
        await client.write(f"session/one/agent/{agent}/prompt", b"hello")
        assert await client.read(f"session/one/agent/{agent}/wait") == b"idle\n"
    assert await client.read("session/one/agent/idx") == before


async def test_renaming(world: World) -> None:
    """A write to `name`, or a rename of the directory, moves a session or an agent; open files go on working."""
    client = await world.populated()
    async with await client.open("session/one/agent/coder/plan", 2) as plan:
        await client.write("session/one/name", b"uno\n")
        await client.rename("session/uno/agent/coder", "writer")
        await plan.write(b"first, ...")
    assert await client.read("session/uno/agent/writer/plan") == b"first, ..."
    with pytest.raises(NinepError, match="file does not exist"):
        await client.read("session/one/id")


async def test_killing(world: World) -> None:
    """`kill` and remove take a session with its agents away, also from under open files."""
    client = await world.populated()
    async with await client.open("session/one/agent/coder/plan") as plan:
        await client.write("session/one/agent/coder/ctl", b"kill")
        with pytest.raises(NinepError, match="file does not exist"):
            await plan.read()
    await client.remove("session/one")
    assert [stat.name for stat in await client.ls("session") if stat.is_dir] == ["two"]
    assert not [line for line in (await client.read("aliases")).splitlines() if b"session/one" in line]


async def test_pausing(world: World) -> None:
    """A paused session says so."""
    client = await world.populated()
    assert await client.rdwr("session/one/ctl", b"pause\n") == b"paused\n"
    assert await client.read("session/one/paused") == b"true\n"
    await client.write("session/one/ctl", b"resume")
    assert await client.read("session/one/paused") == b"false\n"


async def test_generating(world: World) -> None:
    """`generate` answers a prompt without any agent."""
    client = await world.attach()
    assert await client.rdwr("generate", b"hello\n") == b"you said: hello\n"
    assert await client.rdwr("generate", b'{"prompt": "again"}') == b"you said: again\n"


async def test_ending_the_server(world: World) -> None:
    """`kill` in the root `ctl` asks the server to end."""
    client = await world.attach()
    assert await client.rdwr("ctl", b"kill\n") == b"stopping\n"
    assert world.ollie.stopping.is_set()


async def test_errors_of_a_clunk_are_kept(world: World) -> None:
    """What only the clunk could refuse is in `errors`, with its path."""
    client = await world.populated()
    async with await client.open("session/new", 1) as file:
        await file.write(b"name=one")
        with pytest.raises(NinepError, match="session exists: one"):
            await file.close()
    line = (await client.read("errors")).decode()
    assert line.endswith("\tsession/new\tsession exists: one\n")


async def test_a_fid_keeps_its_session(world: World) -> None:
    """While a client has a file open its session is one object, and afterwards it is none."""
    services = world.ollie.services
    services.config = replace(services.config, open_sessions=0)
    client = await world.populated()
    file = await client.open("session/one/agent/coder/plan")
    gc.collect()
    (session,) = world.ollie.sessions.live()
    kept = weakref.ref(session)
    del session
    gc.collect()
    await client.write("session/one/agent/coder/plan", b"do it")
    assert [kept()] == world.ollie.sessions.live()
    assert await file.read_all() == b"do it"
    await file.close()
    gc.collect()
    assert kept() is None
    assert await client.read("session/one/agent/coder/plan") == b"do it"
