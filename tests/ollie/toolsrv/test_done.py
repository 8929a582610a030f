"""Background runs that have ended, told until somebody acknowledges."""

import asyncio
import json
import resource
import signal
from collections.abc import Callable
from typing import Any

import pytest
from serving import ToolServer, background, call, load

from ninep.client import Client, File
from ninep.errors import NinepError
from ollie.protocol import payload, result
from ollie.protocol.limits import RESULT_BYTES
from ollie.toolsrv.fingerprint import FILE_BYTES


async def ended(done: File, agent: str) -> dict[str, Any]:
    """The next run of an agent that a reader is told of."""
    while True:
        record: dict[str, Any] = json.loads(await done.read(offset=0))
        if record["agent"] == agent:
            return record


async def waiting(client: Client, agent: str) -> list[int]:
    """The pids of an agent that wait."""
    async with await client.open("events") as events:
        pids = []
        while (event := json.loads(await events.read(offset=0)))["event"] != "now":
            if event["event"] == "done" and event["agent"] == agent:
                pids.append(event["pid"])
    return pids


async def test_an_ended_run_is_told_until_it_is_acknowledged(toolsrv: ToolServer, agent: str) -> None:
    """What waits comes first, in order; a write of the pid forgets one, also when it has been dismissed."""
    async with await toolsrv.client() as client:
        await load(client, agent, "shell")
        async with await client.open("proc/done") as done:
            first = await call(client, agent, "shell", cmd="echo one; echo two >&2; exit 3", background="true")
            record = await ended(done, agent)
        pid = record["pid"]
        assert first.text == f"runs in the background as process {pid}; a message comes when it has ended"
        assert len(record.pop("boot")) == 16
        assert record == {
            "pid": pid,
            "agent": agent,
            "session": "",
            "tool": "shell",
            "cmd": "echo one; echo two >&2; exit 3",
            "exit": 3,
            "output": "one\ntwo\n",
        }
        second = int(await background(client, agent, "true", tool="shell"))
        await client.read(f"proc/{second}/wait")
        await client.write(f"proc/{second}/ctl", b"dismiss")
        async with await client.open("proc/done") as done:
            assert [(await ended(done, agent))["pid"] for _ in range(2)] == [pid, second]
        await client.write("proc/done", f"{pid}\n".encode())
        assert await waiting(client, agent) == [second]
        for wrong, error in ((str(pid), f"no ended process {pid} waits"), ("x", "not a process: x")):
            with pytest.raises(NinepError, match=error):
                await client.write("proc/done", wrong.encode())
        await client.write("proc/done", str(second).encode())
        assert await waiting(client, agent) == []


async def test_only_what_nobody_waits_for_is_told(toolsrv: ToolServer, agent: str) -> None:
    """No foreground call, and nothing that did not start."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        await call(client, agent, cmd="true")
        assert (await call(client, agent, cmd="true", background="true", cwd="/none")).is_error
        assert await waiting(client, agent) == []


async def test_long_output_is_cut_as_in_a_result(toolsrv: ToolServer, agent: str) -> None:
    """Head and tail, and where the whole is."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        pid = await background(client, agent, "seq 100000")
        async with await client.open("proc/done") as done:
            output = (await ended(done, agent))["output"]
        assert len(output.encode()) <= RESULT_BYTES
        assert output.startswith("1\n2\n")
        assert "\n100000\n" in output
        assert f"output-{pid}-" in output
        await client.write("proc/done", pid.encode())


async def test_an_agent_is_told_of_its_own(toolsrv: ToolServer, agent: str) -> None:
    """Who attached for an agent neither sees nor acknowledges another's."""
    other = f"other-{agent}"
    async with await toolsrv.client() as client, await toolsrv.client(agent) as own:
        for each in (other, agent):
            await load(client, each, "sh")
            await client.read(f"proc/{await background(client, each, 'true')}/wait")
        (theirs,) = await waiting(client, other)
        assert await waiting(own, other) == []
        async with await own.open("proc/done") as done:
            record = json.loads(await done.read())
        assert record["agent"] == agent
        with pytest.raises(NinepError, match=f"no ended process {theirs} waits"):
            await own.write("proc/done", str(theirs).encode())
        await own.write("proc/done", str(record["pid"]).encode())
        await client.write("proc/done", str(theirs).encode())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_the_end_of_the_server_loses_nothing(
    start: Callable[..., ToolServer], agent: str, number: signal.Signals
) -> None:
    """What waited is told by the next server, and so is what ended with this one."""
    first = start()
    async with await first.client() as client:
        await load(client, agent, "sh")
        done, running = [await background(client, agent, cmd) for cmd in ("echo done", "echo begun; exec sleep 1000")]
        await client.read(f"proc/{done}/wait")
        async with await client.open(f"proc/{running}/out") as out:
            assert await out.read() == b"begun\n"
    first.signal(number)
    first.ended()
    first.deserted()
    first.close()
    second = start()
    async with await second.client() as client, await client.open("proc/done") as file:
        records = [await ended(file, agent) for _ in range(2)]
        assert [record["pid"] for record in records] == [int(done), int(running)]
        assert [record["exit"] for record in records] == [0, 137 if number is signal.SIGKILL else 143]
        assert records[0]["output"] == "done\n"
        assert records[1]["output"].startswith("begun\n" if number is signal.SIGTERM else "[the tool server ended")
        assert records[0]["boot"] == records[1]["boot"]
        for pid in (done, running):
            await client.write("proc/done", pid.encode())
        await load(client, agent, "sh")
        third = await background(client, agent, "true")
        assert (await ended(file, agent))["boot"] != records[0]["boot"]
        assert await waiting(client, agent) == [int(third)]


async def test_what_is_of_an_agent_that_is_gone_is_ended_and_forgotten(toolsrv: ToolServer, agent: str) -> None:
    """When `end` is answered nothing of it is alive, waits or is loaded; what is another's goes on."""
    other = f"other-{agent}"
    async with await toolsrv.client() as client, await client.open("events") as events:
        for each in (agent, other):
            await load(client, each, "sh")
        told = await background(client, agent, "true")
        await client.read(f"proc/{told}/wait")
        running = await background(client, agent, "trap '' TERM; setsid sleep 1000.71 & sleep 1000.71")
        theirs = await background(client, other, "exec sleep 1000.72")
        waits = asyncio.create_task(call(client, agent, cmd="sleep 1000.71"))
        asks = asyncio.create_task(call(client, agent, cmd="sleep 1000.71", bypass="true"))
        while json.loads(await events.read(offset=0))["event"] != "bypass":
            pass
        await client.write("ctl", f"end {agent}".encode())
        assert not toolsrv.processes("1000.71")
        assert (await waits).is_error
        assert (await asks).text == "not run: its agent is gone"
        dropped = []
        while len(dropped) < 2:
            event = json.loads(await events.read(offset=0))
            dropped += [event["pid"]] if event.get("state") == "dropped" else []
        assert dropped == [int(told), int(running)]
        assert await waiting(client, agent) == []
        assert await client.rdwr("proc/list", agent.encode()) == b""
        assert (await call(client, agent, cmd="true")).text == "tool not loaded: sh"
        assert toolsrv.processes("1000.72")
        await client.write(f"proc/{theirs}/ctl", b"kill")
        await client.write("proc/done", theirs.encode())


async def test_what_is_about_to_ask_goes_with_its_agent(start: Callable[..., ToolServer], agent: str) -> None:
    """A call whose files are still looked at when its agent ends is not asked about afterwards."""
    toolsrv = start("--bypass-timeout", "1s")
    names = [f"long-{number}" for number in range(4)]
    for name in names:
        with (toolsrv.work / name).open("wb") as file:
            file.truncate(FILE_BYTES)
    async with await toolsrv.client() as client, await client.open("ctl", 1) as ctl:
        await load(client, agent, "sh")
        request = payload.format({"tool": "sh", "agent": agent, "cmd": f"cat {' '.join(names)}", "bypass": "true"})
        async with await client.open("proc/new", 2) as asking:
            await asking.write(request)
            answer, _ = await asyncio.gather(asking.read(), ctl.write(f"end {agent}".encode()))
        assert result.from_json(answer).text == "not run: its agent is gone"


async def test_output_that_cannot_be_kept_is_told(start: Callable[..., ToolServer], agent: str) -> None:
    """It is shown as far as it fits, and nobody waits for a message in vain."""
    toolsrv = start()
    resource.prlimit(toolsrv.pid, resource.RLIMIT_FSIZE, (RESULT_BYTES, RESULT_BYTES))
    async with await toolsrv.client() as client, await client.open("proc/done") as done:
        await load(client, agent, "sh")
        shown = (await call(client, agent, cmd="seq 20000")).text
        pid = await background(client, agent, "seq 20000")
        told = await ended(done, agent)
        assert told["pid"] == int(pid)
        for text in (shown, told["output"]):
            assert text.startswith("1\n2\n")
            assert text.endswith("\n20000\n[what is left out of the output could not be kept]")


async def test_an_agent_ends_no_other(toolsrv: ToolServer, agent: str) -> None:
    """Who attached for one ends its own alone."""
    async with await toolsrv.client(agent) as client:
        with pytest.raises(NinepError, match="permission denied"):
            await client.write("ctl", b"end other")
        await client.write("ctl", f"end {agent}".encode())
