"""What clients do to a server at the same time, and what is left when they go."""

import asyncio
import json
from typing import Any

import pytest
from world import World

from ninep._wire import ORDWR, OREAD, OWRITE
from ninep.client import Client, File
from ninep.errors import NinepError

AGENT = "session/one/agent/coder"


async def reading(client: Client, path: str, request: bytes) -> tuple[File, "asyncio.Task[bytes]"]:
    """A file, and the reading of all of it."""
    file = await client.open(path, ORDWR if request else OREAD)
    if request:
        await file.write(request)
    return file, asyncio.get_running_loop().create_task(file.read_all())


# What a client waits for when it goes: (path, request, prompt that was written before).
WAITS = {
    "for a state": (f"{AGENT}/statewait", b"", b""),
    "for the end of a turn": (f"{AGENT}/wait", b"", b"slow"),
    "for more of a chat": (f"{AGENT}/chat", b"", b"slow"),
    "for all of a chat": (f"{AGENT}/chat.raw", b"", b"slow"),
    "for a sub-agent": ("session/one/agent/new", b"prompt=slow\n", b""),
    "for an event": ("eventwait", b"", b""),
    "for a generated answer": ("generate", b"slow", b""),
}


@pytest.mark.parametrize("case", WAITS)
@pytest.mark.parametrize("how", ["hangs up", "clunks", "flushes"])
async def test_a_client_that_goes_leaves_nothing(world: World, case: str, how: str) -> None:
    """Whatever a client waits for when it goes, or gives up, no fid, request, sub-agent or task is left of it."""
    path, request, prompt = WAITS[case]
    owner = await world.populated()
    if prompt:
        await owner.write(f"{AGENT}/prompt", prompt)
    agents = await owner.read("session/one/agent/idx")
    before, tasks = world.server.statistics(), len(asyncio.all_tasks())
    client = await world.attach()
    file, waiting = await reading(client, path, request)
    await world.server.until(lambda now: now.outstanding > before.outstanding)
    if how == "flushes":
        waiting.cancel()
    elif how == "clunks":
        await file.close()
    else:
        await client.close()
    await asyncio.wait({waiting})
    with pytest.raises((NinepError, asyncio.CancelledError)):
        waiting.result()
    await client.close()
    await world.server.until(lambda now: now == before)
    assert await owner.read("session/one/agent/idx") == agents
    assert len(asyncio.all_tasks()) <= tasks


async def test_a_prompt_that_was_not_committed_is_dropped(world: World) -> None:
    """What a lost connection had written and not committed is no prompt."""
    owner = await world.populated()
    client = await world.attach()
    file = await client.open(f"{AGENT}/prompt", OWRITE)
    await file.write(b"half of a pro")
    before = world.server.statistics()
    await client.close()
    await world.server.until(lambda now: now.connections < before.connections)
    assert await owner.read(f"{AGENT}/chat") == b""
    assert b"turns=0\n" in await owner.read(f"{AGENT}/stats")


async def test_fifty_agents_at_once(world: World) -> None:
    """Prompted at once over one connection, each finishes with its own words only."""
    owner = await world.populated()
    agents = [f"session/one/agent/number-{n}" for n in range(50)]
    await asyncio.gather(
        *(owner.write("session/one/agent/new", f"name=number-{n} cwd={world.work}".encode()) for n in range(50))
    )
    await asyncio.gather(*(owner.write(f"{agent}/prompt", f"I am {agent}".encode()) for agent in agents))
    chats = await asyncio.gather(*(owner.read(f"{agent}/chat") for agent in agents))
    assert chats == [f"> I am {agent}\n\nyou said: I am {agent}\n".encode() for agent in agents]
    assert await asyncio.gather(*(owner.read(f"{agent}/wait") for agent in agents)) == [b"idle\n"] * 50


async def test_a_blocked_reader_delays_nobody(world: World) -> None:
    """A connection with reads that wait goes on answering."""
    owner = await world.populated()
    waits = [await reading(owner, f"{AGENT}/statewait", b"") for _ in range(20)]
    assert await owner.read(f"{AGENT}/name") == b"coder\n"
    await owner.write(f"{AGENT}/prompt", b"hello")
    states = await asyncio.gather(*(task for _, task in waits))
    assert set(states) <= {b"running\n", b"idle\n"}


async def test_a_loop_over_statewait_neither_spins_nor_misses(world: World) -> None:
    """Fresh fids of one uname see the end of each turn once, and then wait."""
    owner = await world.populated()
    for turn in range(3):
        await owner.write(f"{AGENT}/prompt", f"turn {turn}".encode())
        assert await owner.read(f"{AGENT}/statewait") == b"idle\n"
    _, waiting = await reading(owner, f"{AGENT}/statewait", b"")
    await owner.read(f"{AGENT}/stats")
    assert not waiting.done()
    other = await world.attach("rob")
    assert await other.read(f"{AGENT}/statewait") == b"idle\n"
    await owner.write(f"{AGENT}/ctl", b"kill")
    with pytest.raises(NinepError, match="file does not exist"):
        await waiting


async def test_a_loop_over_eventwait_neither_spins_nor_misses(world: World) -> None:
    """Each event once, in order, from fids and connections that are made anew while things happen; then it waits."""
    owner = await world.populated()
    heard: list[Any] = []

    async def listen() -> None:
        while len(heard) < 60:
            async with await world.attach("rob") as client:
                heard.append(json.loads(await client.read("eventwait")))

    async with await world.attach("rob") as client:
        await client.open("eventwait")
    listening = asyncio.ensure_future(listen())
    for turn in range(20):
        await owner.write(f"{AGENT}/prompt", f"turn {turn}".encode())
        await owner.read(f"{AGENT}/wait")
    await listening
    told = [(event["event"], event["state"]) for event in heard]
    assert told == [("state", "running"), ("turn", "finished"), ("state", "idle")] * 20
    assert [event["seq"] for event in heard] == list(range(heard[0]["seq"], heard[0]["seq"] + 60))
    _, waiting = await reading(await world.attach("rob"), "eventwait", b"")
    await owner.read(f"{AGENT}/stats")
    assert not waiting.done()
    waiting.cancel()
