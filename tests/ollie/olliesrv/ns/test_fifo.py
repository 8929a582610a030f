"""`fifo`: the queue of an agent, written and read by clients while prompts run."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from world import World

from ninep.client import Client
from ninep.errors import NinepError
from ollie.olliesrv.sessions import subagents

AGENT = "session/one/agent/coder"
FIFO = f"{AGENT}/fifo"


async def paused(world: World, *prompts: str) -> Client:
    """The owner's client, with prompts that wait in a paused session."""
    owner = await world.populated()
    await owner.write("session/one/ctl", b"pause")
    for prompt in prompts:
        await owner.write(FIFO, prompt.encode())
    return owner


async def queued(client: Client) -> str:
    """How many prompts wait."""
    lines = (await client.read(f"{AGENT}/stats")).decode().splitlines()
    return next(line.removeprefix("queue=") for line in lines if line.startswith("queue="))


async def test_a_read_takes_the_next_prompt(world: World) -> None:
    """In order, whichever file it was written to; an empty queue is the end of file."""
    owner = await paused(world, "one\n")
    await owner.write(f"{AGENT}/prompt", b"two\nlines")
    assert await queued(owner) == "2"
    assert [await owner.read(FIFO) for _ in range(3)] == [b"one\n", b"two\nlines\n", b""]
    assert await queued(owner) == "0"
    await owner.write("session/one/ctl", b"resume")
    assert await owner.read(f"{AGENT}/chat") == b""


async def test_one_fid_reads_one_prompt_after_the_other(world: World) -> None:
    """From offset 0 each time, to an end of file each time."""
    owner = await paused(world, "one", "two")
    async with await owner.open(FIFO) as file:
        assert [await file.read(offset=at) for at in (0, 4, 0, 4, 0)] == [b"one\n", b"", b"two\n", b"", b""]


async def test_a_prompt_that_runs_is_not_in_it(world: World) -> None:
    """Those behind it are; one that is taken does not run."""
    owner = await world.populated()
    for prompt in ("slow", "second", "third"):
        await owner.write(FIFO, prompt.encode())
    assert await owner.read(FIFO) == b"second\n"
    await owner.write(f"{AGENT}/ctl", b"stop")
    assert await owner.read(f"{AGENT}/wait") == b"idle\n"
    assert await owner.read(f"{AGENT}/chat") == b"> slow\n\n! stopped\n\n> third\n\nyou said: third\n"


@pytest.mark.parametrize("how", ["hangs up", "clunks"])
async def test_an_interrupted_read_loses_nothing(world: World, how: str) -> None:
    """A part of a prompt was read; the next reader has all of it, and as long as it is read it does not run."""
    owner = await paused(world, "0123456789", "next")
    client = await world.attach()
    file = await client.open(FIFO)
    assert await file.read(5, 0) == b"01234"
    assert await queued(owner) == "2"
    await owner.write("session/one/ctl", b"resume")
    await owner.read(f"{AGENT}/wait")
    assert await owner.read(f"{AGENT}/chat") == b"> next\n\nyou said: next\n"
    await (file.close() if how == "clunks" else client.close())
    await owner.read(f"{AGENT}/wait")
    while b"you said: 0123456789" not in await owner.read(f"{AGENT}/chat"):
        await owner.read(f"{AGENT}/statewait")


async def test_two_readers_never_get_the_same(world: World) -> None:
    """Neither do many, on connections of their own."""
    prompts = [f"prompt {number}\n" for number in range(40)]
    await paused(world, *prompts)
    clients = [await world.attach() for _ in range(8)]

    async def drain(client: Client) -> list[str]:
        found = []
        while text := await client.read(FIFO):
            found.append(text.decode())
        return found

    taken = await asyncio.gather(*map(drain, clients))
    assert sorted(text for texts in taken for text in texts) == sorted(prompts)


async def test_two_reads_of_parts_have_a_prompt_each(world: World) -> None:
    """The second is not given what the first has begun."""
    owner = await paused(world, "one", "two")
    first, second = await owner.open(FIFO), await owner.open(FIFO)
    assert await first.read(1, 0) == b"o"
    assert await second.read(100, 0) == b"two\n"
    assert await first.read(100, 1) == b"ne\n"
    assert await queued(owner) == "0"


async def test_it_survives(world: World, serve: Callable[..., Any], crash: Callable[..., Any]) -> None:
    """What was taken is gone, and what was being read is there."""
    owner = await paused(world, "one", "two", "three")
    assert await owner.read(FIFO) == b"one\n"
    file = await owner.open(FIFO)
    assert await file.read(1, 0) == b"t"
    await crash()
    later = await serve()
    agent = (await later.sessions.find("one", by=None)).find_agent("coder")
    leases = [agent.next_prompt(by=None) for _ in range(3)]
    assert [lease and lease.data for lease in leases] == [b"two\n", b"three\n", None]


async def test_an_agent_takes_from_those_within_its_ceiling(world: World) -> None:
    """Reading takes away, and so is as much as writing."""
    owner = await paused(world, "mine")
    await owner.write("session/one/agent/inner/fifo", b"inner's")
    coder, inner = await world.attach("agent:coder"), await world.attach("agent:inner")
    with pytest.raises(NinepError, match=r"^permission denied$"):
        await inner.read(FIFO)
    with pytest.raises(NinepError, match=r"^permission denied$"):
        await inner.write(FIFO, b"x")
    assert await coder.read("session/one/agent/inner/fifo") == b"inner's\n"
    assert await coder.read(FIFO) == b"mine\n"


async def test_what_cannot_be_a_prompt_is_refused(world: World) -> None:
    """As by `prompt`."""
    owner = await paused(world)
    with pytest.raises(NinepError, match=r"^prompt is empty$"):
        await owner.write(FIFO, b" \n")
    assert await queued(owner) == "0"


async def test_a_killed_agent_has_no_queue(world: World) -> None:
    """A prompt in hand goes with it; what is left of it can still be read."""
    owner = await paused(world, "one")
    file = await owner.open(FIFO)
    assert await file.read(1, 0) == b"o"
    await owner.write(f"{AGENT}/ctl", b"kill")
    assert await file.read(100, 1) == b"ne\n"
    with pytest.raises(NinepError, match="file does not exist"):
        await file.read(100, 0)
    await file.close()


async def test_who_waits_for_a_prompt_that_is_taken_is_told(world: World) -> None:
    """A request for a sub-agent whose session is paused does not wait for ever."""
    owner = await paused(world)
    session = await world.ollie.sessions.find("one", by=None)
    assert session is not None
    asking = asyncio.ensure_future(anext(subagents.request(session, {"prompt": "x", "name": "sub"}, by=None)))
    while b"\tsub\t" not in await owner.read("session/one/agent/idx"):
        pass
    assert await owner.read("session/one/agent/sub/fifo") == b"x\n"
    with pytest.raises(NinepError, match=r"^the prompt is not queued any more: somebody took it from fifo$"):
        await asking
