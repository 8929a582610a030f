"""The conformance suite, over the sample."""

import asyncio
import signal
import socket
import sys
from pathlib import Path

import pytest

from ninep import _wire
from ninep.client import Client
from ninep.messages import (
    Message,
    Qid,
    Rattach,
    Rclunk,
    Rerror,
    Rflush,
    Rstat,
    Rversion,
    Rwalk,
    Stat,
    encode,
)
from ninep.server import Server
from ninep.testing import Check, Line, Sample, conformance


@pytest.mark.parametrize("address", ["unix!{}/socket", "tcp!127.0.0.1!0"])
async def test_our_server_conforms(address: str, server: Server, sample: Sample, tmp_path: Path) -> None:
    """Every rule holds, over both kinds of address."""
    sample.add("b")
    where = await server.listen(address.format(tmp_path))
    checks = await conformance(where)
    assert len(checks) >= 20
    assert [check for check in checks if check.failure] == []


async def test_a_rule_that_does_not_hold_is_named(server: Server, tmp_path: Path) -> None:
    """A user who may not attach fails the rules that need a root, with the reply that came."""
    where = await server.listen(f"unix!{tmp_path}/socket")
    checks = await conformance(where, uname="nobody")
    failed = {check.name: check.failure for check in checks if check.failure}
    assert "a version with a suffix gets the version without" not in failed
    assert "permission denied" in (failed["Tflush of an unknown tag gets Rflush"] or "")


async def test_a_connection_may_be_made_in_any_way(server: Server, tmp_path: Path) -> None:
    """Instead of an address a function makes the connections."""
    where = await server.listen(f"unix!{tmp_path}/socket")
    made: list[Line] = []

    async def connect() -> Line:
        made.append(await Line.dial(where))
        return made[-1]

    assert Check("fid 0 and the highest fid are ordinary fids", None) in await conformance(connect)
    assert len(made) >= 20


async def command(*args: str) -> tuple[int, str]:
    """Exit status and output of `python -m ninep.testing`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ninep.testing",
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_the_command_for_conformance(server: Server, tmp_path: Path) -> None:
    """A line for each rule and a count; status 1 when one fails, 2 when nobody is there."""
    where = await server.listen(f"unix!{tmp_path}/socket")
    status, output = await command("conformance", where)
    assert status == 0, output
    assert "ok      a fid is clunked once\n" in output
    assert output.endswith(" passed, 0 failed\n")
    status, output = await command("conformance", "--uname", "nobody", where)
    assert status == 1
    assert "FAILED  a fid is clunked once\n        Rerror(tag=0, ename='permission denied')\n" in output
    nothing = f"unix!{tmp_path}/nothing"
    assert await command("conformance", nothing) == (2, f"conformance: {nothing}: no such file or directory\n")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        silent = f"tcp!127.0.0.1!{bound.getsockname()[1]}"
        assert await command("conformance", silent) == (2, f"conformance: {silent}: connection refused\n")
    assert (await command("conformance", "nonsense"))[0] == 2


@pytest.mark.parametrize(
    ("which", "path", "rules", "name"),
    [
        ("opening", "thing/a/slow", 4, "open"),
        ("reading", "thing/a/level", 3, "read"),
        ("walking", "thing/later", 2, "walk"),
        ("creating", "thing/later", 3, "create"),
    ],
)
async def test_a_request_that_waits(  # noqa: PLR0917  the case and the fixtures
    which: str, path: str, rules: int, name: str, server: Server, tmp_path: Path
) -> None:
    """Whatever ends it is answered, and nothing of it is left; a path that nothing waits for fails the rules."""
    where = await server.listen(f"unix!{tmp_path}/socket")
    plain = await conformance(where)
    checks = await conformance(where, **{which: path})  # type: ignore[arg-type]  # it is one of the paths
    assert [check for check in checks if check.failure] == []
    names = [check.name for check in checks if check not in plain]
    assert len(names) == rules
    await server.until(lambda now: now.connections == now.outstanding == now.fids == 0)
    failed = {
        check.name: check.failure
        for check in await conformance(where, **{which: "readme"})  # type: ignore[arg-type]  # likewise
        if check.failure
    }
    assert list(failed) == names
    assert f"the {name} of readme does not wait" in (failed[names[0]] or "")


async def test_the_command_for_what_waits(server: Server, tmp_path: Path) -> None:
    """The options name the paths."""
    where = await server.listen(f"unix!{tmp_path}/socket")
    waiting = ("--blocked", "thing/a/level", "--walking", "thing/later", "--creating", "thing/later")
    status, output = await command("conformance", *waiting, "--opening", "thing/a/none", where)
    assert status == 1
    assert output.count("\n        thing/a/none: Rwalk(") == 4
    for name in ("read", "walk", "create"):
        assert (
            f"ok      flushes of a {name} that waits are answered last and in order, and leave nothing behind\n"
            in output
        )


async def test_a_rule_is_told_when_it_was_tried(tmp_path: Path) -> None:
    """Whoever asks a server that says nothing sees so, and can go without more words."""
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(f"{tmp_path}/mute")
        mute.listen()
        mute.setblocking(False)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ninep.testing", "conformance", f"unix!{tmp_path}/mute"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        connection, _ = await asyncio.get_running_loop().sock_accept(mute)
        connection.close()
        assert process.stdout is not None
        assert await process.stdout.readline() == b"FAILED  a version with a suffix gets the version without\n"
        process.send_signal(signal.SIGINT)
        assert await process.stdout.read() == b"        the server closed the connection\n"
        assert await process.wait() == 130


async def test_files_are_tried_only_where_they_are_mounted(server: Server, tmp_path: Path) -> None:
    """In another directory the rules would make what they find missing."""
    where = await server.listen(f"unix!{tmp_path}/socket")
    (tmp_path / "other").mkdir()
    for directory, said in (("other", f"is not where {where} is mounted"), ("none", "no such file or directory")):
        status, output = await command("files", where, str(tmp_path / directory))
        assert status == 2
        assert output.startswith(f"files: {tmp_path}/{directory}")
        assert said in output
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        ([Rclunk(2), Rclunk(2)], "Rclunk(tag=2) after Rclunk(tag=2)"),
        ([Rerror(1, "interrupted"), Rerror(2, "busy")], "Rerror(tag=2, ename='busy') instead of Rclunk(tag=2)"),
        ([Rerror(1, "interrupted")], "the server closed the connection"),
        ([Rflush(7)], "Rflush(tag=7), which nobody waits for"),
        ([Rclunk(2), Rerror(1, "one"), Rerror(1, "two")], "Rerror(tag=1, ename='two'), which nobody waits for"),
    ],
)
async def test_a_clunk_that_is_answered_otherwise(replies: list[Message], said: str, tmp_path: Path) -> None:
    """A server that forgets the clunk, answers twice or refuses is found out."""
    root = Qid(_wire.QTDIR, 0, 0)
    stat = Rstat(3, Stat(qid=root, mode=_wire.DMDIR | 0o555))
    begun = [Rversion(_wire.NOTAG, 8192, "9P2000"), Rattach(0, root), Rwalk(1, (Qid(0, 0, 1),)), stat]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"".join(map(encode, begun + replies)))
        writer.write_eof()
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(serve, tmp_path / "socket"):
        checks = await conformance(f"unix!{tmp_path}/socket", opening="file")
    (failure,) = (check.failure for check in checks if check.name.startswith("a clunk behind"))
    assert failure is not None
    assert said in failure


@pytest.mark.parametrize(("tree", "names"), [("sample", ["readme", "new", "thing"]), ("plain", [])])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_command_that_serves(tree: str, names: list[str], number: int, tmp_path: Path) -> None:
    """It says where, until it is interrupted; a place that is taken is named."""
    address = f"unix!{tmp_path}/socket"
    args = (sys.executable, "-m", "ninep.testing", "serve", tree, address)
    process = await asyncio.create_subprocess_exec(*args, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == f"{tree} is served at {address}\n".encode()
    client = await Client.connect(address)
    assert [entry.name for entry in await client.ls("")] == names
    await client.close()
    assert await command("serve", tree, address) == (2, f"serve: {address}: address already in use\n")
    process.send_signal(number)
    assert await process.wait() == 0
    with pytest.raises(FileNotFoundError):
        await Client.connect(address)


async def test_the_command_for_scripts(server: Server, tmp_path: Path) -> None:
    """The line that went another way is printed; what is no script is said so."""
    where = await server.listen(f"unix!{tmp_path}/socket")
    script = tmp_path / "script"
    for text, status, said in (
        ("!begin\n-> Tclunk tag=1 fid=0\n<- Rclunk tag=1\n", 0, "passed"),
        ("!begin\n-> Tclunk tag=1 fid=9\n<- Rclunk tag=1\n", 1, "line 3: expected Rclunk tag=1"),
        ("!dance\n", 2, "line 1: no action is called dance (known: none)"),
        ("dance\n", 2, "line 1 is no step: dance"),
        ("-> Tnonsense\n", 2, "line 1: no message is called 'Tnonsense'"),
        ("=> xyz\n", 2, "line 1: "),
        ("-> Tstat tag=99999 fid=-1\n", 2, "line 1: a number does not fit its field: Tstat tag=99999 fid=-1\n"),
        ("# who\n!begin nobody\n", 2, "line 2: begin: Rerror(tag=0, ename='permission denied')\n"),
        ("!begin glenda tree more\n", 2, "line 1: begin takes a uname and an aname: glenda tree more\n"),
    ):
        script.write_text(text)
        ended, output = await command("script", str(script), where)
        assert ended == status, output
        assert output.startswith(f"{script}: {said}")
    none = tmp_path / "none"
    assert await command("script", str(none), where) == (2, f"script: {none}: no such file or directory\n")


async def test_scripts_with_a_sample_of_their_own(tmp_path: Path) -> None:
    """Without an address a script has the actions of the sample."""
    log = Path(__file__).parent / "scripts" / "log.9p"
    assert await command("script", str(log)) == (0, f"{log}: passed\n")
    script = tmp_path / "script"
    for text, status, said in (
        ("!log b one\n", 1, "line 1: log: no thing is called b"),
        ("!took a one\n", 1, "line 1: took: [] instead of ['one']"),
        ("!stopped a many\n", 1, "line 1: stopped: invalid literal"),
        ("!log\n", 2, "line 1: log: missing a required argument: 'name'"),
        ("!dance\n", 2, "line 1: no action is called dance (known: attached change "),
    ):
        script.write_text(text)
        ended, output = await command("script", str(script))
        assert ended == status, output
        assert output.startswith(f"{script}: {said}")
