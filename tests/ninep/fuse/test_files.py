"""The conformance suite of files, over mounts of ours."""

import asyncio
import sys
from pathlib import Path

from mountns import House, ended, needs_mount

from ninep.server import Server
from ninep.testing import Named, PlainServer, Sample, connected, files

_SUITE = (sys.executable, "-m", "ninep.testing")


@needs_mount
async def test_the_sample_conforms_through_a_mount(
    house: House, sample: Sample, server: Server, address: str, tmp_path: Path
) -> None:
    """Wire and files, with every file that may be played with; nothing stays mounted or open."""
    sample.add("b")
    await sample.things["a"].note.write(0, b"old")
    named = ("--text", "thing/a/note", "--blocked", "thing/a/level", "--renamed", "thing/a", "--removed", "thing/b")
    done = await ended(await house.start(*_SUITE, "conformance", "--mount", *named, address))
    assert (done.code, done.err) == (0, ""), done.out
    assert "ok      a fid is clunked once\n" in done.out
    assert "ok      20 blocked reads hold up nothing, and a signal ends each\n" in done.out
    assert done.out.endswith("12 passed, 0 failed\n")
    assert sample.things["a"].note.data == b"old"
    assert list(sample.things) == ["a"]
    assert (await house.shell(f"grep '{address}' /proc/self/mountinfo")).out == ""
    await server.until(lambda now: now.fids == now.outstanding == now.connections == 0)


@needs_mount
async def test_plain_files_conform_through_a_mount(house: House, plain: PlainServer, tmp_path: Path) -> None:
    """A tree in which everything can be done."""
    async with connected(plain) as client:
        for name in ("text", "old", "useless"):
            await (await client.create(name)).close()
    named = ("--text", "text", "--renamed", "old", "--removed", "useless")
    done = await ended(await house.start(*_SUITE, "conformance", "--mount", *named, f"unix!{tmp_path}/plain"))
    assert done.code == 0, done.out
    assert sorted(plain.top.entries) == ["old", "text"]


async def test_what_is_no_mount_of_the_tree(address: str, tmp_path: Path) -> None:
    """Each rule that does not hold is named, with what came instead."""
    for name in ("readme", "new", "thing"):
        (tmp_path / "d" / name).mkdir(parents=True)
    checks = await asyncio.to_thread(files, str(tmp_path / "d"), address, Named(text="readme"), uname="me")
    failed = {check.name: check.failure for check in checks if check.failure}
    assert "a directory lists what its server lists" in failed
    assert "readme: True instead of False" in (failed["type, permissions and length are the server's"] or "")
    assert "text is replaced, appended to, and cut" in failed
    assert "a name that is not there is ENOENT, whatever is done with it" not in failed


@needs_mount
async def test_what_cannot_be_mounted(house: House, tmp_path: Path) -> None:
    """No server, in words."""
    done = await ended(await house.start(*_SUITE, "files", f"unix!{tmp_path}/nothing", house.mount))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("files: ")
