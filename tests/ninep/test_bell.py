"""Bells, for tasks and for blocked reads."""

import asyncio
from contextlib import AsyncExitStack

from ninep.bell import Bell
from ninep.files import Control, Level, Peer, Role, Tree
from ninep.server import Server
from ninep.testing import connected

READERS = 100


async def test_a_bell_wakes_those_that_wait_now() -> None:
    """In the order in which they came; who was cancelled is forgotten."""
    bell, woken = Bell(), []

    async def wait(number: int) -> None:
        await bell.wait()
        woken.append(number)

    tasks = [asyncio.ensure_future(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    bell.ring()
    bell.ring()
    late = asyncio.ensure_future(wait(3))
    await asyncio.wait(tasks)
    assert woken == [0, 2]
    assert not late.done()
    bell.ring()
    await late


async def test_readers_of_many_connections_woken_by_one_write() -> None:
    """All get the answer, and none of them was a task while it was blocked."""
    bell = Bell()

    async def wait(_obj: None, _peer: Peer) -> bytes:
        await bell.wait()
        return b"woken\n"

    async def ring(_obj: None, _peer: Peer, _text: str) -> str:
        bell.ring()
        return ""

    async def attach(*_: object) -> Peer:
        return Peer("glenda", "", Role.USER)

    files = (Level("wait", 0o440, "Waits.", wait=wait), Control("ring", 0o220, "Rings.", command=ring))
    server = Server(Tree(files, None), attach)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(server)) for _ in range(READERS)]
        before = len(asyncio.all_tasks())
        reads = [asyncio.ensure_future(client.read("wait")) for client in clients]
        await server.until(lambda now: now.outstanding == READERS)
        assert len(asyncio.all_tasks()) == before + READERS
        await clients[0].write("ring", b"now")
        assert await asyncio.gather(*reads) == [b"woken\n"] * READERS
    await server.close()
