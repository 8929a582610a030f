"""Files that are made through a mount: in a tree that allows it, and in one that does not."""

import errno
import os
import stat
from pathlib import Path

import pytest
from kernel import Entry, Judgement, Kernel, Served, serving
from mountns import House, needs_mount

from ninep.client import DMDIR
from ninep.fuse import protocol
from ninep.fuse.opcodes import Opcode
from ninep.fuse.protocol import CreateIn, MkdirIn, MknodIn
from ninep.testing import PlainServer, Sample, connected

ROOT = protocol.ROOT_ID


def _create(name: str, flags: int, mode: int = 0o100640) -> bytes:
    return protocol.CREATE_IN.pack(CreateIn(flags | os.O_CREAT, mode, 0o22, 0)) + name.encode() + b"\0"


def _mkdir(name: str, mode: int = 0o750) -> bytes:
    return protocol.MKDIR_IN.pack(MkdirIn(mode, 0o22)) + name.encode() + b"\0"


def _mknod(name: str, mode: int) -> bytes:
    return protocol.MKNOD_IN.pack(MknodIn(mode, 0, 0o22)) + name.encode() + b"\0"


def _entry(data: bytes) -> Entry:
    found = protocol.ENTRY_OUT.parse(data)
    return Entry(found.nodeid, protocol.ATTR.parse(data, protocol.ENTRY_OUT.size))


async def _made(kernel: Kernel, name: str, flags: int) -> tuple[Entry, int]:
    """The node and the handle that CREATE gives."""
    reply = await kernel.call(Opcode.CREATE, ROOT, _create(name, flags))
    assert reply.error == 0
    at = protocol.ENTRY_OUT.size + protocol.ATTR.size
    return _entry(reply.data), protocol.OPEN_OUT.parse(reply.data, at).fh


async def test_a_file_is_made_and_open(plain: PlainServer, tmp_path: Path) -> None:
    """Its permission bits are the caller's, and what is written to it is there; nothing stays open."""
    async with serving(f"unix!{tmp_path}/plain") as served:
        entry, handle = await _made(served.kernel, "x", os.O_WRONLY)
        assert entry.attr.mode == stat.S_IFREG | 0o640
        await served.kernel.reply(served.kernel.write(handle, b"text"))
        await served.kernel.release(handle)
        assert plain.top.entries["x"].data == b"text"
        assert plain.statistics().fids == 2  # the root and the node
        assert (await served.kernel.lookup("x")).attr.size == 4


async def test_a_file_that_is_there(plain: PlainServer, tmp_path: Path) -> None:
    """O_EXCL refuses it; without, it is opened as if it had been known, and O_TRUNC empties it."""
    async with serving(f"unix!{tmp_path}/plain") as served:
        async with connected(plain) as other:
            await (await other.create("x")).write(b"theirs")
        reply = await served.kernel.call(Opcode.CREATE, ROOT, _create("x", os.O_WRONLY | os.O_EXCL))
        assert reply.error == errno.EEXIST
        _, handle = await _made(served.kernel, "x", os.O_RDWR)
        assert (await served.kernel.reply(served.kernel.read(handle))).data == b"theirs"
        await _made(served.kernel, "x", os.O_WRONLY | os.O_TRUNC)
        assert plain.top.entries["x"].data == b""


async def test_a_file_that_is_there_and_not_ours_to_open(plain: PlainServer, tmp_path: Path) -> None:
    """The server's refusal is the answer, and the lookup leaves nothing behind."""
    async with serving(f"unix!{tmp_path}/plain") as served:
        async with connected(plain) as other:
            await (await other.create("x", 0o400)).close()
        assert (await served.kernel.call(Opcode.CREATE, ROOT, _create("x", os.O_WRONLY))).error == errno.EACCES
        assert len(served.bridge.nodes) == 1
        await plain.until(lambda now: now.fids == 1)


async def test_directories_and_closed_files(plain: PlainServer, tmp_path: Path) -> None:
    """MKDIR and MKNOD make them; what 9P does not have is refused without asking."""
    async with serving(f"unix!{tmp_path}/plain") as served:
        reply = await served.kernel.call(Opcode.MKDIR, ROOT, _mkdir("d"))
        assert _entry(reply.data).attr.mode == stat.S_IFDIR | 0o750
        reply = await served.kernel.call(Opcode.MKNOD, ROOT, _mknod("f", stat.S_IFREG | 0o604))
        assert _entry(reply.data).attr.mode == stat.S_IFREG | 0o604
        assert {name: entry.mode for name, entry in plain.top.entries.items()} == {
            "d": DMDIR | 0o750,
            "f": 0o604,
        }
        for kind in (stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR):
            assert (await served.kernel.call(Opcode.MKNOD, ROOT, _mknod("p", kind | 0o600))).error == errno.EPERM
        assert (await served.kernel.call(Opcode.MKDIR, ROOT, _mkdir("d"))).error == errno.EEXIST
        assert (await served.kernel.call(Opcode.MKNOD, ROOT, _mknod("f", 0o600))).error == errno.EEXIST


async def test_a_tree_that_makes_directories(served: Served, sample: Sample) -> None:
    """It is asked, and its words become the error; it makes no files."""
    things = (await served.kernel.lookup("thing")).nodeid
    assert (await served.kernel.call(Opcode.MKDIR, things, _mkdir("b"))).error == 0
    assert list(sample.things) == ["a", "b"]
    for nodeid, opcode, body, number in (
        (things, Opcode.MKDIR, _mkdir("b"), errno.EEXIST),
        (things, Opcode.MKDIR, _mkdir("bad"), errno.EINVAL),
        (things, Opcode.CREATE, _create("c", os.O_WRONLY), errno.EACCES),
        (ROOT, Opcode.MKDIR, _mkdir("b"), errno.EACCES),
        (ROOT, Opcode.CREATE, _create("c", os.O_WRONLY), errno.EACCES),
        (ROOT, Opcode.MKNOD, _mknod("c", 0o600), errno.EACCES),
    ):
        assert (await served.kernel.call(opcode, nodeid, body)).error == number


async def test_makers_are_judged(served: Served, judge: Judgement, sample: Sample) -> None:
    """Whom the mount is not for makes nothing."""
    things = (await served.kernel.lookup("thing")).nodeid
    served.kernel.pid = 666
    judge.refused = {666}
    for opcode, body in (
        (Opcode.MKDIR, _mkdir("b")),
        (Opcode.CREATE, _create("b", os.O_WRONLY)),
        (Opcode.MKNOD, _mknod("b", 0o600)),
    ):
        assert (await served.kernel.call(opcode, things, body)).error == errno.EACCES
    assert list(sample.things) == ["a"]


@pytest.fixture
async def files(house: House, plain: PlainServer, tmp_path: Path) -> House:
    """A mount of plain files."""
    await house.serve(f"unix!{tmp_path}/plain")
    return house


@needs_mount
async def test_programs_make_files(files: House, plain: PlainServer) -> None:
    """Redirections, mkdir, touch and cp, with the permissions that the umask leaves."""
    done = await files.shell(
        "umask 027; echo one > x; echo two >> x; mkdir d; touch d/empty; cp x d/copy; cp -r d e; stat -c '%a %F %n' *;"
        "cat e/copy; truncate -s 3 x; wc -c < x; chmod 600 x; stat -c %a x; touch -d @1000 x; stat -c %Y x"
    )
    assert done.err == ""
    assert done.out == ("750 directory d\n750 directory e\n640 regular file x\none\ntwo\n3\n600\n1000\n")
    assert sorted(plain.top.entries["e"].entries) == ["copy", "empty"]


@needs_mount
async def test_programs_rename_and_remove(files: House, plain: PlainServer) -> None:
    """mv, rm and rmdir; what cannot be done is said in the usual words."""
    done = await files.shell(
        "echo x > x; mkdir -p d/e; mv x y; mv d f; ls; rmdir f; mv -T y f/y; set -C; echo z > y; mkdir f;"
        "mkfifo p; ln y z; chmod 500 f; echo z > f/z; rm -r f/e; chmod 700 f; rm -r f y; ls"
    )
    assert done.out == "f\ny\n"
    assert [line.rpartition(": ")[2] for line in done.err.splitlines()] == [
        "Directory not empty",
        "Operation not permitted",
        "cannot overwrite existing file",
        "File exists",
        "Operation not permitted",
        "Operation not permitted",
        "Permission denied",
        "Permission denied",
    ]
    assert plain.top.entries == {}


@needs_mount
async def test_a_tree_without_files_to_make(mounted: House, sample: Sample) -> None:
    """It says so at once; directories that it makes are there."""
    done = await mounted.shell("echo x > newfile; echo x > thing/newfile; mkdir thing/b; cat thing/b/label; mkdir b")
    assert done.out == "b\n"
    assert [line.rpartition(": ")[2] for line in done.err.splitlines()] == ["Permission denied"] * 3
    assert list(sample.things) == ["a", "b"]
