"""The conformance suite, over the sample."""

import asyncio
import sys
from pathlib import Path

import pytest

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
    assert (await command("conformance", f"unix!{tmp_path}/nothing"))[0] == 2
    assert (await command("conformance", "nonsense"))[0] == 2


async def test_the_command_for_scripts(server: Server, tmp_path: Path) -> None:
    """The line that went another way is printed; what is no script is said so."""
    where = await server.listen(f"unix!{tmp_path}/socket")
    script = tmp_path / "script"
    for text, status, said in (
        ("!begin\n-> Tclunk tag=1 fid=0\n<- Rclunk tag=1\n", 0, "passed"),
        ("!begin\n-> Tclunk tag=1 fid=9\n<- Rclunk tag=1\n", 1, "line 3: expected Rclunk tag=1"),
        ("!dance\n", 1, "line 1: no action is called dance"),
        ("-> Tnonsense\n", 1, "line 1: no message is called 'Tnonsense'"),
        ("=> xyz\n", 1, "line 1: "),
    ):
        script.write_text(text)
        ended, output = await command("script", str(script), where)
        assert ended == status, output
        assert said in output
    assert (await command("script", str(tmp_path / "none"), where))[0] == 2
