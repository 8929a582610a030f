"""Runs in the background, seen through their files."""

import asyncio
import re
import resource
from collections.abc import Callable

import pytest
from serving import ToolServer, background, call, load

from ninep.errors import NinepError


async def test_a_run_is_seen_while_it_lives_and_after(toolsrv: ToolServer, agent: str) -> None:
    """`new.bg` gives a pid at once; output streams, `wait` gives the exit code, `dismiss` forgets it."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        pid = await background(client, agent, "echo one; exit 7")
        stat = dict(line.split("=", 1) for line in (await client.read(f"proc/{pid}/stat")).decode().splitlines())
        assert stat["pid"] == pid
        assert stat["tool"] == "sh"
        assert stat["agent"] == agent
        assert await client.read(f"proc/{pid}/wait") == b"7\n"
        assert await client.read(f"proc/{pid}/out") == b"one\n"
        assert await client.rdwr("proc/list", agent.encode()) == f"{pid}\texited\tsh\n".encode()
        await client.write(f"proc/{pid}/ctl", b"dismiss")
        assert await client.rdwr("proc/list", agent.encode()) == b""
        with pytest.raises(NinepError, match="file does not exist"):
            await client.stat(f"proc/{pid}/out")


async def test_output_streams_while_it_runs(toolsrv: ToolServer, agent: str) -> None:
    """A reader gets each piece as it comes, then the end of file; offsets are positions; stat has the length."""
    fifo = toolsrv.work / f"fifo-{agent}"
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        pid = await background(client, agent, f"mkfifo {fifo}; echo one; cat {fifo}")
        async with await client.open(f"proc/{pid}/out") as out:
            assert await out.read() == b"one\n"
            reading = asyncio.create_task(out.read())
            await asyncio.to_thread(fifo.write_text, "two\n")
            assert await reading == b"two\n"
            assert await out.read() == b""
            assert await out.read(3, offset=4) == b"two"
        assert (await client.stat(f"proc/{pid}/out")).length == 8
        assert await client.read(f"proc/{pid}/wait") == b"0\n"


async def test_an_agent_runs_so_many_at_a_time(start: Callable[..., ToolServer], agent: str) -> None:
    """One more than `--max-runs` is refused, in the foreground too; another agent's is not, nor one after an end."""
    toolsrv = start("--max-runs", "3")
    full = re.escape(
        "not run: 3 runs of this agent have not ended, and there may be no more (max_runs); "
        "wait for one or end one: proc/PID/ctl"
    )
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        await load(client, "other", "sh")
        pids = [await background(client, agent, "exec sleep 1000.31") for _ in range(3)]
        for bypass in ("", "true"):
            with pytest.raises(NinepError, match=full):
                await background(client, agent, "true", bypass=bypass)
            result = await call(client, agent, cmd="true", bypass=bypass)
            assert result.is_error
            assert re.fullmatch(full, result.text)
        assert not (await call(client, "other", cmd="true")).is_error
        await client.write(f"proc/{pids[0]}/ctl", b"kill")
        await client.read(f"proc/{pids[0]}/wait")
        assert not (await call(client, agent, cmd="true")).is_error


async def test_calls_made_at_once_are_counted(start: Callable[..., ToolServer], agent: str) -> None:
    """None slips through between the others."""
    toolsrv = start("--max-runs", "3")
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        starting = [background(client, agent, "exec sleep 1000.31") for _ in range(20)]
        started = await asyncio.gather(*starting, return_exceptions=True)
    assert sum(isinstance(one, str) for one in started) == 3


async def test_some_descriptors_are_kept_for_the_owner(start: Callable[..., ToolServer], agent: str) -> None:
    """Runs are refused before there are none left, and so are clients that come for an agent."""
    toolsrv = start("--max-runs", "1000")
    resource.prlimit(toolsrv.pid, resource.RLIMIT_NOFILE, (120, 120))
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        pids = []
        error = ""
        while not error:
            try:
                pids.append(await background(client, agent, "exec sleep 1000.31"))
            except NinepError as refused:
                error = str(refused)
        assert error == "not run: the tool server has no open files to spare; try when others have ended"
        assert len(pids) > 5
        with pytest.raises(NinepError, match="the tool server has no open files to spare"):
            await toolsrv.client(agent)
        async with await toolsrv.client() as owner:
            for pid in pids:
                await owner.write(f"proc/{pid}/ctl", b"kill")
                await owner.read(f"proc/{pid}/wait")
        async with await toolsrv.client(agent) as own:
            assert (await call(own, agent, cmd="echo ran")).text == "ran\n"


SIGNALS = [(b"term", b"143\n"), (b"kill", b"137\n"), (b"signal 10", b"138\n")]


@pytest.mark.parametrize(("command", "code"), SIGNALS)
async def test_a_run_can_be_ended(toolsrv: ToolServer, agent: str, command: bytes, code: bytes) -> None:
    """`wait` gives 128 + N; what has exited can be neither signalled nor dismissed twice."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        pid = await background(client, agent, "exec sleep 1000.31")
        with pytest.raises(NinepError, match=f"process {pid} has not exited"):
            await client.write(f"proc/{pid}/ctl", b"dismiss")
        async with await client.open(f"proc/{pid}/ctl", 1) as ctl, await client.open(f"proc/{pid}/wait") as wait:
            await ctl.write(command)
            assert await wait.read() == code
            with pytest.raises(NinepError, match=f"process {pid} has exited"):
                await ctl.write(b"term")
        stat = (await client.read(f"proc/{pid}/stat")).decode()
        assert re.search(rf"^exit={int(code)}$", stat, re.MULTILINE)
        assert not toolsrv.processes("1000.31")


async def test_what_it_starts_belongs_to_it(toolsrv: ToolServer, agent: str) -> None:
    """A server that goes into the background keeps the run alive, and `kill` ends it too."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        pid = await background(client, agent, "setsid sleep 1000.32 & echo $!")
        async with await client.open(f"proc/{pid}/out") as out:
            await out.read()
        assert f"{pid}\trunning".encode() in await client.rdwr("proc/list", agent.encode())
        await client.write(f"proc/{pid}/ctl", b"kill")
        assert not toolsrv.processes("1000.32")


async def test_a_background_run_has_no_time_limit_but_its_own(toolsrv: ToolServer, agent: str) -> None:
    """A tool's limit is for calls that wait; a `timeout` of the request holds."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        pid = await background(client, agent, "exec sleep 1000.33", timeout="0.1")
        assert await client.read(f"proc/{pid}/wait") in {b"143\n", b"137\n"}


@pytest.mark.parametrize(
    ("fields", "error"),
    [({"cwd": "/none/such"}, "cannot run in /none/such: no such directory"), ({"bypass": "1"}, "bypass is not true")],
)
async def test_what_cannot_run_is_an_error_of_the_file(
    toolsrv: ToolServer, agent: str, fields: dict[str, str], error: str
) -> None:
    """There is no pid for what never ran."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        with pytest.raises(NinepError, match=error):
            await background(client, agent, "true", **fields)
        assert await client.rdwr("proc/list", agent.encode()) == b""


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (b"", ""),
        (b"stop", r"^unknown command: stop \(known: term kill signal dismiss help\)$"),
        (b"signal", "^signal takes N$"),
        (b"signal x", "^not a signal: x$"),
        (b"signal 0", "^not a signal: 0$"),
        (b"signal 99", "^not a signal: 99$"),
    ],
)
async def test_bad_commands_are_refused(toolsrv: ToolServer, agent: str, command: bytes, error: str) -> None:
    """The error names what was written."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        pid = await background(client, agent, "exec sleep 1000.34")
        async with await client.open(f"proc/{pid}/ctl", 1) as ctl:
            if command:
                with pytest.raises(NinepError, match=error):
                    await ctl.write(command)
            await ctl.write(b"kill")


async def test_an_agent_sees_its_own(toolsrv: ToolServer, agent: str) -> None:
    """Who attached for an agent sees that agent's runs only, in the listing and by walking."""
    other = f"other-{agent}"
    async with await toolsrv.client() as all_seeing, await toolsrv.client(agent) as own:
        await load(all_seeing, agent, "sh")
        await load(all_seeing, other, "sh")
        mine = await background(all_seeing, agent, "true")
        theirs = await background(all_seeing, other, "true")
        for pid in (mine, theirs):
            await all_seeing.read(f"proc/{pid}/wait")
        assert (await own.read("proc/list")).decode() == f"{mine}\texited\tsh\n"
        assert {entry.name for entry in await own.ls("proc")} == {"done", "list", "new", "new.bg", "whose", mine}
        assert {mine, theirs} <= {entry.name for entry in await all_seeing.ls("proc")}
        with pytest.raises(NinepError, match="file does not exist"):
            await own.read(f"proc/{theirs}/out")
        with pytest.raises(NinepError, match="file does not exist"):
            await own.read(f"proc/0{mine}/out")


async def test_a_process_is_traced_to_its_run(toolsrv: ToolServer, agent: str) -> None:
    """`whose` finds the run and agent of a process, also of one that left its session; others are nobody's."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        # A process of the namespace knows its own number only; the server sees that number too.
        pid = await background(client, agent, "setsid sh -c 'echo $$; exec sleep 1000.35' & wait")
        async with await client.open(f"proc/{pid}/out") as out:
            inside = (await out.read()).strip()
        assert await client.rdwr("proc/whose", inside) == f"{pid}\t{agent}\n".encode()
        # The launcher, the reapers, this run's too, and the processes that stand by are nobody's either.
        marked, ours = toolsrv.numbers("1000.35")
        assert {await client.rdwr("proc/whose", b"%d" % each) for each in marked} == {f"{pid}\t{agent}\n".encode()}
        assert len(ours) >= 3
        for stranger in (b"1", b"999999", b"-1", b"x", *(b"%d" % each for each in ours)):
            with pytest.raises(NinepError, match=r"no run has process|not a process"):
                await client.rdwr("proc/whose", stranger)
        await client.write(f"proc/{pid}/ctl", b"kill")
        with pytest.raises(NinepError, match="no run has process"):
            await client.rdwr("proc/whose", inside)
