"""The conformance suite, over the sample."""

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
