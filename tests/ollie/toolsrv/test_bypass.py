"""Runs without the sandbox: asked for, looked at, answered, and what holds all the same."""

import asyncio
import json
import os
import pwd
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import ToolServer, background, call, load

from ninep.client import Client, File
from ninep.errors import NinepError
from ollie.protocol.result import ToolResult
from ollie.toolsrv.fingerprint import FILE_BYTES


async def asking(client: Client, agent: str, cmd: str, **fields: str) -> asyncio.Task[ToolResult]:
    """A call that waits for its approval."""
    await load(client, agent, "sh")
    return asyncio.create_task(call(client, agent, cmd=cmd, bypass="true", **fields))


async def request_of(watch: File, agent: str) -> dict[str, Any]:
    """The next request of an agent that an observer sees."""
    while True:
        request: dict[str, Any] = json.loads(await watch.read(offset=0))
        if request["agent"] == agent:
            return request


async def listed(client: Client, agent: str) -> list[dict[str, Any]]:
    """The open requests of an agent."""
    lines = (await client.read("bypass/list")).decode().splitlines()
    return [request for request in map(json.loads, lines) if request["agent"] == agent]


async def resolve(client: Client, **fields: object) -> None:
    """Answer a request."""
    await client.write("bypass/resolve", json.dumps(fields).encode())


async def test_an_approved_run_is_outside_the_sandbox(toolsrv: ToolServer, agent: str) -> None:
    """It reads what the policy denies, once; reaper and environment stay, and the result says what it was."""
    secret = toolsrv.home / "not-for-tools"
    secret.write_text("for the user\n")
    script = f"cat {secret}; env | cut -d= -f1 | tr '\\n' ' '; setsid sleep 1000.51 &"
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, script, session="s-1")
        request = await request_of(pending, agent)
        assert set(request) == {
            "id",
            "agent",
            "session",
            "tool",
            "command",
            "argv",
            "stdin",
            "cwd",
            "environment",
            "differs",
            "files",
            "hash",
            "asked_at",
            "expires_at",
        }
        assert request["argv"][-1] == request["command"]
        assert str(secret) in request["command"]
        assert (request["session"], request["cwd"]) == ("s-1", str(toolsrv.work))
        assert request["environment"]["OLLIE_AGENT_ID"] == agent
        assert request["differs"] == {}
        assert {str(secret), str(toolsrv.work), "/usr/bin/env"} <= set(request["files"])
        assert request["expires_at"] - request["asked_at"] == pytest.approx(300)
        assert await listed(client, agent) == [request]
        await resolve(client, id=request["id"], approved=True, hash=request["hash"])
        result = await running
        assert not result.is_error
        assert result.text.startswith("for the user\n")
        assert "SECRET" not in result.text
        assert "[not sandboxed: this run was approved]" in result.text
        assert "1 process was still running" in result.text
        assert not toolsrv.processes("1000.51")
        assert await listed(client, agent) == []
        assert (await call(client, agent, cmd=f"cat {secret}")).is_error


async def test_a_refusal_is_told_to_the_model(toolsrv: ToolServer, agent: str) -> None:
    """Nothing runs, and what the user says is in the result."""
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, "touch ran")
        request = await request_of(pending, agent)
        await resolve(client, id=request["id"], error="not on this machine")
        result = await running
    assert result.is_error
    assert result.text == "not run: refused without the sandbox: not on this machine"
    assert not (toolsrv.work / "ran").exists()


async def test_no_answer_is_a_refusal(start: Callable[..., ToolServer], agent: str) -> None:
    """After `--bypass-timeout` the call ends, and an answer comes too late."""
    toolsrv = start("--bypass-timeout", "100ms")
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, "touch ran")
        request = await request_of(pending, agent)
        assert (await running).text == (
            "not run: nobody said within 0.1 s (bypass_timeout_s) that it may run without the sandbox; "
            "a time limit of the call counts from that answer on"
        )
        with pytest.raises(NinepError, match=f"request {request['id']} has timed out"):
            await resolve(client, id=request["id"], approved=True)
    assert not (toolsrv.work / "ran").exists()


async def test_a_request_goes_with_its_caller(toolsrv: ToolServer, agent: str) -> None:
    """Cancelled, or its connection lost: the request is withdrawn, and approving it runs nothing."""
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, "touch ran")
        first = await request_of(pending, agent)
        running.cancel()
        await asyncio.wait({running})
        other = await toolsrv.client()
        leaving = await asking(other, agent, "touch ran")
        second = await request_of(pending, agent)
        await other.close()
        await asyncio.wait({leaving})
        leaving.exception()
        while await listed(client, agent):
            await client.stat("info")
        for request in (first, second):
            with pytest.raises(NinepError, match=f"request {request['id']} was withdrawn: its caller is gone"):
                await resolve(client, id=request["id"], approved=True)
    assert not (toolsrv.work / "ran").exists()


async def test_two_observers_see_the_same_and_one_answers(toolsrv: ToolServer, agent: str) -> None:
    """Each is given every request, an old and a new one; the second answer is an error, and so is an unknown id."""
    async with await toolsrv.client() as one, await toolsrv.client() as two:
        first = await asking(one, agent, "echo 1")
        async with await one.open("bypass/pending") as here:
            old = await request_of(here, agent)
            async with await two.open("bypass/pending") as there:
                assert await request_of(there, agent) == old
                second = await asking(one, agent, "echo 2")
                new = await request_of(here, agent)
                assert await request_of(there, agent) == new
        await resolve(two, id=old["id"], approved=True)
        for answer in ({"approved": True}, {"error": "no"}):
            with pytest.raises(NinepError, match=f"request {old['id']} was approved already"):
                await resolve(one, id=old["id"], **answer)
        with pytest.raises(NinepError, match="no such request: none"):
            await resolve(one, id="none", approved=True)
        with pytest.raises(NinepError, match=f"request {new['id']} has another hash"):
            await resolve(one, id=new["id"], approved=True, hash=old["hash"])
        await resolve(one, id=new["id"], approved=True)
        assert (await first).text.startswith("1\n")
        assert (await second).text.startswith("2\n")


async def test_what_changed_since_it_was_asked_for_does_not_run(
    toolsrv: ToolServer, agent: str, tmp_path: Path
) -> None:
    """The directory became another one between question and answer."""
    (tmp_path / "here").mkdir()
    (tmp_path / "evil").mkdir()
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, "touch ran", cwd=str(tmp_path / "here"))
        request = await request_of(pending, agent)
        (tmp_path / "here").rename(tmp_path / "good")
        (tmp_path / "evil").rename(tmp_path / "here")
        await resolve(client, id=request["id"], approved=True)
        assert "has changed since it was asked for" in (await running).text
    assert not (tmp_path / "here" / "ran").exists()


DIRECTORIES = (
    "/ /usr /usr/bin /usr/sbin /usr/lib /usr/share /usr/local /usr/local/bin /etc /var /var/lib /var/log /var/cache "
    "/tmp /dev /run /home /root /opt"
)

# What an approved command means, and what may be put in the place of a file of it meanwhile.
MEANT = {
    "a script": ("sh ./dep.sh", "dep.sh"),
    "a script that is called": ("./dep.sh", "dep.sh"),
    "by its whole path": ("sh {work}/dep.sh", "dep.sh"),
    "by a variable": ("sh $PWD/dep.sh", "dep.sh"),
    "at home": ("sh ~/dep.sh", "../home/dep.sh"),
    "behind something": ("true; true&&sh <dep.sh", "dep.sh"),
    "in quotes": ("sh 'de p.sh'", "de p.sh"),
    "in a directory": ("cd sub && sh dep.sh", "sub/dep.sh"),
    "in a directory of one": ("cd sub && cd below; sh dep.sh", "sub/below/dep.sh"),
    "behind many directories": (f": {DIRECTORIES}; cd sub && sh dep.sh", "sub/dep.sh"),
    "below an open quote": ("cat <<END >/dev/null\nit's\nEND\nsh 'de p.sh'", "de p.sh"),
    "over two lines": ("sh de\\\np.sh", "dep.sh"),
    "in pieces": ("bash <<'END'\n: $'\\''; sh de''p.sh\nEND", "dep.sh"),
    "by a sign of bash": ("bash -c 'sh ~+/dep.sh'", "dep.sh"),
    "by its process": ("sh /proc/self/cwd/dep.sh", "dep.sh"),
    "behind a sign": ("BASH_ENV=dep.sh bash -c true", "dep.sh"),
}


@pytest.mark.parametrize(("cmd", "path"), MEANT.values(), ids=list(MEANT))
async def test_what_a_file_says_is_part_of_what_is_approved(
    toolsrv: ToolServer, agent: str, cmd: str, path: str
) -> None:
    """Other content of the same length, in the same file with the same times, does not run."""
    file = toolsrv.work / path
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text("echo good\n")
    file.chmod(0o755)
    before = file.stat()

    async def answered(content: str) -> str:
        async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
            running = await asking(client, agent, cmd.format(work=toolsrv.work))
            request = await request_of(pending, agent)
            file.write_text(content)
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
            await resolve(client, id=request["id"], approved=True, hash=request["hash"])
            return (await running).text

    assert (await answered("echo good\n")).startswith("good\n")
    text = await answered("echo evil\n")
    assert re.fullmatch(rf"not run: /.*{file.name} has changed since it was asked for; ask again", text)
    file.unlink()


async def test_a_home_directory_is_the_one_of_its_user(toolsrv: ToolServer, agent: str) -> None:
    """As a shell has it."""
    user = pwd.getpwuid(0)
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, f"ls ~{user.pw_name}")
        request = await request_of(pending, agent)
        assert user.pw_dir in request["files"]
        await resolve(client, id=request["id"], error="no")
        await running


async def test_a_long_file_is_known_by_its_times(toolsrv: ToolServer, agent: str) -> None:
    """What is beyond the part that is read has changed, and its time of change cannot be set back."""
    file = toolsrv.work / f"long-{agent}"
    with file.open("wb") as writing:
        writing.truncate(FILE_BYTES + 10)
    before = file.stat()
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, f"tail -c 4 {file}")
        request = await request_of(pending, agent)
        with file.open("r+b") as writing:
            writing.seek(FILE_BYTES + 6)
            writing.write(b"evil")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        await resolve(client, id=request["id"], approved=True)
        assert (await running).text == f"not run: {file} has changed since it was asked for; ask again"
    file.unlink()


async def test_what_changes_by_itself_is_no_file_of_a_call(toolsrv: ToolServer, agent: str) -> None:
    """What the kernel makes up, a device, a pipe that nobody writes; and a text whose quote is left open."""
    fifo = toolsrv.work / f"fifo-{agent}"
    os.mkfifo(fifo)
    script = f"cat /proc/uptime /proc/self/stat </dev/urandom >/dev/null; test -p {fifo} && cat <<'END'\nit's\nEND"
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, script)
        request = await request_of(pending, agent)
        await resolve(client, id=request["id"], approved=True)
        assert (await running).text.startswith("it's\n")
    assert not {"/proc/uptime", "/dev/urandom", str(fifo)} & set(request["files"])


async def test_a_program_is_the_one_that_was_found(start: Callable[..., ToolServer], agent: str) -> None:
    """One that comes to be found first on PATH is another one."""
    toolsrv = start(environ={"PATH": "bin:/usr/bin:/bin"})
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, "true && echo ran")
        request = await request_of(pending, agent)
        evil = toolsrv.work / "bin" / "true"
        evil.parent.mkdir()
        evil.symlink_to("/usr/bin/touch")
        await resolve(client, id=request["id"], approved=True)
        assert "bin/true has changed since it was asked for; ask again" in (await running).text


async def test_more_text_than_can_be_read_is_not_asked_about(toolsrv: ToolServer, agent: str) -> None:
    """It is refused at once."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        result = await call(client, agent, cmd="echo " + "x" * 200_000, bypass="true")
        assert result.text == "not run: nobody can approve so much text; put it into a file and run that"
        assert await listed(client, agent) == []


async def test_more_names_than_can_be_held_are_not_asked_about(toolsrv: ToolServer, agent: str) -> None:
    """Whoever approves counts on each of them."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        names = " ".join(map(str, range(15_000)))
        given = await call(client, agent, cmd=f": {DIRECTORIES} {names}", bypass="true")
        assert "not run: it names too many files and directories to hold them" in given.text


async def test_a_call_brings_no_variables(toolsrv: ToolServer, agent: str) -> None:
    """They would decide what the command means."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        result = await call(client, agent, cmd="git --version", bypass="true", **{"env.PATH": "evil:/usr/bin"})
        assert result.text == ("not run: a call without the sandbox has no variables of its own: leave out env.PATH")
        assert await listed(client, agent) == []


async def test_an_agent_asks_for_so_much_at_a_time(start: Callable[..., ToolServer], agent: str) -> None:
    """One more than `--max-requests` is refused; another agent's, and one after an answer, are asked about."""
    toolsrv = start("--max-requests", "2")
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = [await asking(client, agent, f"echo {number}") for number in range(2)]
        requests = [await request_of(pending, agent) for _ in running]
        refused = await call(client, agent, cmd="true", bypass="true")
        assert refused.text == (
            "not run: 2 calls of this agent wait for approval, and no more may (max_requests); have one answered"
        )
        others = await asking(client, f"other-{agent}", "true")
        await resolve(client, id=(await request_of(pending, f"other-{agent}"))["id"], error="")
        await others
        await resolve(client, id=requests[0]["id"], error="")
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        running.append(await asking(client, agent, "true"))
        requests.append(await request_of(pending, agent))
        for request in requests[1:]:
            await resolve(client, id=request["id"], error="")
        await asyncio.gather(*running)


async def test_limits_hold_without_the_sandbox(toolsrv: ToolServer, agent: str) -> None:
    """A time limit counts from the approval, and ends the whole run."""
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, "setsid sleep 1000.52 & sleep 1000.52", timeout="0.2")
        request = await request_of(pending, agent)
        await resolve(client, id=request["id"], approved=True)
        assert (await running).text.endswith("timed out after 0.2 s")
        assert not toolsrv.processes("1000.52")


async def test_a_background_run_is_approved_before_it_has_a_pid(toolsrv: ToolServer, agent: str) -> None:
    """`new.bg` waits for the answer, too."""
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        await load(client, agent, "sh")
        starting = asyncio.create_task(background(client, agent, "echo ran", bypass="true"))
        request = await request_of(pending, agent)
        await resolve(client, id=request["id"], approved=True)
        pid = await starting
        assert await client.read(f"proc/{pid}/out") == b"ran\n"


async def test_who_attached_for_an_agent_sees_its_own_and_answers_none(toolsrv: ToolServer, agent: str) -> None:
    """Neither its own request nor another's."""
    other = f"other-{agent}"
    async with await toolsrv.client() as client, await toolsrv.client(agent) as own:
        running = await asking(client, agent, "true")
        others = await asking(client, other, "true")
        async with await own.open("bypass/pending") as pending:
            mine = await request_of(pending, agent)
        while not await listed(client, other):
            await client.stat("info")
        (theirs,) = await listed(client, other)
        assert [json.loads(line)["id"] for line in (await own.read("bypass/list")).splitlines()] == [mine["id"]]
        for request in (mine, theirs):
            with pytest.raises(NinepError, match="permission denied"):
                await resolve(own, id=request["id"], approved=True)
            await resolve(client, id=request["id"], error="")
        assert (await running).text == (await others).text == "not run: refused without the sandbox"


async def test_yolo_leaves_the_approval(start: Callable[..., ToolServer], agent: str) -> None:
    """A bypass is asked for there as well."""
    toolsrv = start("--yolo")
    async with await toolsrv.client() as client, await client.open("bypass/pending") as pending:
        running = await asking(client, agent, "echo ran")
        request = await request_of(pending, agent)
        await resolve(client, id=request["id"], approved=True)
        assert (await running).text.startswith("ran\n")


async def test_events_tell_of_requests_and_runs(toolsrv: ToolServer, agent: str) -> None:
    """What is so now comes first, then each change in its order."""
    async with await toolsrv.client() as client, await toolsrv.client(agent) as own:
        running = await asking(client, agent, "true")
        async with await own.open("bypass/pending") as pending:
            request = await request_of(pending, agent)
        async with await own.open("events") as events:
            seen = [json.loads(await events.read(offset=0))]
            await resolve(client, id=request["id"], approved=True)
            await running
            seen += [json.loads(await events.read(offset=0)) for _ in range(4)]
    assert seen.pop(1) == {"event": "now"}
    assert [(event["event"], event["state"]) for event in seen] == [
        ("bypass", "pending"),
        ("bypass", "approved"),
        ("proc", "running"),
        ("proc", "exited"),
    ]
    assert seen[0]["id"] == request["id"]
    assert seen[3]["exit"] == 0
