"""However a caller goes, nothing of its call is alive when it has gone."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import pytest
from serving import ToolServer, background, begin, load

from ninep.client import Client, File
from ninep.errors import NinepError

# A tree of processes: one in a session of its own, one double-forked.
TREE = """
setsid sleep {mark} &
(setsid sh -c 'sleep {mark} & sleep {mark}' &)
echo ready
sleep {mark}
sleep {mark}
"""

# The same, and deaf to SIGTERM: it lives until the end of the grace.
STUBBORN = "trap '' TERM" + TREE

Leave = Callable[[Client, File, "asyncio.Task[bytes]"], Awaitable[None]]


async def _clunk(_client: Client, file: File, _reading: "asyncio.Task[bytes]") -> None:
    await file.close()


async def _flush(_client: Client, _file: File, reading: "asyncio.Task[bytes]") -> None:
    reading.cancel()
    await asyncio.wait({reading})


async def _running(client: Client, agent: str) -> str:
    """The pid of the agent's only run, once it has printed something."""
    listed = b""
    while not listed:
        listed = await client.rdwr("proc/list", agent.encode())
    pid = listed.split(b"\t")[0].decode()
    async with await client.open(f"proc/{pid}/out") as out:
        assert await out.read() == b"ready\n"
    return pid


@pytest.mark.parametrize(("leave", "script"), [(_clunk, STUBBORN), (_flush, TREE)], ids=["clunk", "flush"])
async def test_the_reply_to_a_cancel_says_that_nothing_is_alive(
    toolsrv: ToolServer, agent: str, leave: Leave, script: str
) -> None:
    """Clunk and flush each end the whole tree before they are answered, and the connection goes on."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        file = await begin(client, agent, script.format(mark="1000.11"))
        reading = asyncio.create_task(file.read())
        await _running(client, agent)
        while len(toolsrv.processes("1000.11")) < 4:
            await client.stat("info")
        await leave(client, file, reading)
        assert toolsrv.processes("1000.11") == []
        assert await client.rdwr("proc/list", agent.encode()) == b""
        reading.cancel()
        await asyncio.wait({reading})


async def test_calls_cancelled_while_they_start_leave_nothing(toolsrv: ToolServer, agent: str) -> None:
    """A cancel that comes before there is a process ends the one that comes."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        for mark in range(20):
            file = await begin(client, agent, f"sleep 1000.2{mark:02}")
            reading = asyncio.create_task(file.read())
            for _ in range(mark // 4):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait({reading})
            assert toolsrv.processes("1000.2") == []
            assert await client.rdwr("proc/list", agent.encode()) == b""
            await file.close()


async def test_a_lost_connection_ends_its_calls(toolsrv: ToolServer, agent: str) -> None:
    """What ran for a client that has gone is ended; other clients see it go."""
    mark = "1000.13"
    other = await toolsrv.client()
    client = await toolsrv.client()
    await load(client, agent, "sh")
    file = await begin(client, agent, TREE.format(mark=mark))
    reading = asyncio.create_task(file.read())
    pid = await _running(other, agent)
    wait = asyncio.create_task(other.read(f"proc/{pid}/wait"))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(NinepError):
        await reading
    assert (await wait).strip().isdigit()
    assert toolsrv.processes(mark) == []
    await other.close()


async def test_a_stopped_call_tells_its_caller(toolsrv: ToolServer, agent: str) -> None:
    """`kill` from another connection ends a foreground call, whose result says so."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        file = await begin(client, agent, "echo ready; sleep 1000.14")
        reading = asyncio.create_task(file.read())
        pid = await _running(client, agent)
        await client.write(f"proc/{pid}/ctl", b"kill")
        answer = await reading
        assert b"killed by signal 9" in answer
        assert b'"isError":true' in answer
        await file.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_the_end_of_the_server_is_the_end_of_what_it_runs(start: Callable[..., ToolServer], number: int) -> None:
    """Killed or told: no tool is alive, in the background neither; told, it ends well and leaves no file."""
    toolsrv = start()
    client = await toolsrv.client()
    await load(client, "a", "sh")
    script = STUBBORN if number in {signal.SIGKILL, signal.SIGTERM} else TREE
    pid = await background(client, "a", script.format(mark="1000.15"))
    async with await client.open(f"proc/{pid}/out") as out:
        assert await out.read() == b"ready\n"
    while len(toolsrv.processes("1000.15")) < 4:
        await client.stat("info")
    toolsrv.signal(number)
    status = toolsrv.ended()
    toolsrv.deserted()
    if number == signal.SIGKILL:
        assert status == 128 + number
    else:
        assert status == 0
        assert not toolsrv.socket.exists()
        assert list((toolsrv.home / "tmp").iterdir()) == []
    await client.close()
