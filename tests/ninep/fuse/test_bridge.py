"""The bridge, asked by a kernel that the test plays."""

import asyncio
import errno
import os
import stat

import pytest
from kernel import MAX_WRITE, OWNER, Judgement, Kernel, Served, serving

from ninep.fuse import protocol
from ninep.fuse.opcodes import Opcode
from ninep.server import Server
from ninep.testing import Sample, sample_server

ROOT = protocol.ROOT_ID


def _names(*names: str) -> bytes:
    return b"".join(name.encode() + b"\0" for name in names)


async def test_init(address: str) -> None:
    """A kernel is told the version, the longest write, and flags among those it knows."""
    async with serving(address) as served:
        out = await served.kernel.init()
        assert (out.major, out.minor, out.max_write) == (7, protocol.MINOR, MAX_WRITE)
        assert out.flags & protocol.ATOMIC_O_TRUNC
        assert (out.max_pages - 1) * 4096 > MAX_WRITE
        assert served.bridge.ready.is_set()


async def test_old_kernel(address: str) -> None:
    """One that is too old is refused, with a line that says so."""
    async with serving(address) as served:
        reply = await served.kernel.call(
            Opcode.INIT, 0, protocol.INIT_IN.pack(protocol.InitIn(7, 22, 131072, 0)) + bytes(48)
        )
        assert reply.error == errno.EPROTO
        assert served.bridge.ended.is_set()
        assert "7.22" in served.log[-1]


async def test_newer_major(address: str) -> None:
    """A kernel of another major version is told ours, and asks again."""
    async with serving(address) as served:
        body = protocol.INIT_IN.pack(protocol.InitIn(8, 0, 0, 0)) + bytes(48)
        reply = await served.kernel.call(Opcode.INIT, 0, body)
        assert protocol.INIT_OUT.parse(reply.data).major == 7


async def test_attributes(served: Served, sample: Sample) -> None:
    """Type, permissions and true length are the server's; user and group are the ones that mounted."""
    sample.things["a"].log.append(b"12345")
    log = (await served.kernel.lookup("thing/a/log")).attr
    assert (log.mode, log.size, log.blocks) == (stat.S_IFREG | 0o440, 5, 1)
    assert (log.uid, log.gid) == OWNER
    directory = (await served.kernel.lookup("thing")).attr
    assert directory.mode == stat.S_IFDIR | 0o550
    assert 0 != log.ino != directory.ino != 0


@pytest.mark.parametrize(
    ("path", "number"),
    [("nowhere", errno.ENOENT), ("readme/x", errno.ENOTDIR), ("thing/b", errno.ENOENT)],
)
async def test_lookup_fails(path: str, number: int, served: Served) -> None:
    """A name that leads nowhere, with the server's words in the log."""
    above, _, name = path.rpartition("/")
    nodeid = (await served.kernel.lookup(above)).nodeid if above else ROOT
    assert (await served.kernel.call(Opcode.LOOKUP, nodeid, _names(name))).error == number
    assert served.log[-1].startswith(f"lookup {above or '/'}: ")
    assert served.log[-1].endswith(f"({errno.errorcode[number]})")


async def test_names_that_are_no_text(served: Served) -> None:
    """Bytes that are no UTF-8 reach the server, which refuses them."""
    assert (await served.kernel.call(Opcode.LOOKUP, ROOT, b"\xff\xfe\0")).error == errno.EINVAL


@pytest.mark.parametrize(
    ("opcode", "number"),
    [
        (Opcode.LINK, errno.EPERM),
        (Opcode.TMPFILE, errno.EOPNOTSUPP),
        (Opcode.SYMLINK, errno.EPERM),
        (Opcode.READLINK, errno.EINVAL),
        (Opcode.IOCTL, errno.ENOTTY),
        (22, errno.ENOSYS),  # GETXATTR
        (9999, errno.ENOSYS),
    ],
)
async def test_refused(opcode: int, number: int, served: Served) -> None:
    """What a tree has no place for is refused, what nobody knows is not implemented."""
    assert (await served.kernel.call(opcode, ROOT, bytes(64))).error == number


@pytest.mark.parametrize("opcode", [Opcode.LOOKUP, Opcode.OPEN, Opcode.READ, Opcode.SETATTR, Opcode.RENAME])
async def test_malformed(opcode: Opcode, served: Served) -> None:
    """A request that is too short is an error, and the next one works."""
    assert (await served.kernel.call(opcode, ROOT, b"")).error == errno.EIO
    assert (await served.kernel.lookup("readme")).nodeid


async def test_unknown_nodes_and_handles(served: Served) -> None:
    """Numbers that nobody gave out."""
    assert (await served.kernel.call(Opcode.GETATTR, 99)).error == errno.ESTALE
    assert (await served.kernel.reply(served.kernel.read(99))).error == errno.EBADF


async def test_read_and_release(served: Served, server: Server) -> None:
    """A file is read at offsets, and its fid goes with its last descriptor."""
    _, handle = await served.kernel.open("readme")
    assert (await served.kernel.reply(served.kernel.read(handle, 2, 6))).data == b"sample"
    assert (await served.kernel.reply(served.kernel.read(handle, 99))).data == b""
    before = server.statistics().fids
    await served.kernel.release(handle)
    assert server.statistics().fids == before - 1


async def test_read_only_files_are_not_flushed(served: Served) -> None:
    """The kernel need not tell when a descriptor that only reads is closed."""
    nodeid = (await served.kernel.lookup("readme")).nodeid
    reply = await served.kernel.call(Opcode.OPEN, nodeid, protocol.OPEN_IN.pack(protocol.OpenIn(0, 0)))
    assert protocol.OPEN_OUT.parse(reply.data).open_flags & protocol.FOPEN_NOFLUSH
    assert protocol.OPEN_OUT.parse(reply.data).open_flags & protocol.FOPEN_DIRECT_IO


async def test_interrupt(served: Served, server: Server) -> None:
    """A blocked read ends at the server when its caller is interrupted; others go on."""
    _, handle = await served.kernel.open("thing/a/level")
    first, second = served.kernel.read(handle), served.kernel.read(handle)
    await server.until(lambda now: now.outstanding == 2)
    served.kernel.interrupt(first)
    assert (await served.kernel.reply(first)).error == errno.EINTR
    assert server.statistics().outstanding == 1
    served.kernel.interrupt(second)
    assert (await served.kernel.reply(second)).error == errno.EINTR


async def test_interrupt_that_comes_first(served: Served) -> None:
    """An interrupt right behind its request, before anything was done, is answered all the same."""
    _, handle = await served.kernel.open("thing/a/level")
    number = served.kernel.read(handle)
    served.kernel.interrupt(number)
    assert (await served.kernel.reply(number)).error == errno.EINTR


async def test_interrupt_that_comes_too_late(served: Served, sample: Sample, server: Server) -> None:
    """A reply that crosses the interrupt counts: the change that it carries is not lost."""
    thing = sample.things["a"]
    _, handle = await served.kernel.open("thing/a/change")
    number = served.kernel.read(handle)
    await server.until(lambda now: now.outstanding == 1)
    thing.changes.add(b"news\n")
    served.kernel.interrupt(number)
    reply = await served.kernel.reply(number)
    assert (reply.error, reply.data) in {(0, b"news\n"), (errno.EINTR, b"")}
    if reply.error:
        assert (await served.kernel.reply(served.kernel.read(handle))).data == b"news\n"


async def test_interrupt_of_nothing(served: Served) -> None:
    """An interrupt for a request that was answered is ignored."""
    served.kernel.interrupt(4444)
    assert (await served.kernel.lookup("readme")).nodeid


async def test_many_blocked_reads(served: Served, sample: Sample, server: Server) -> None:
    """Fifty reads wait at once, and everything else works meanwhile."""
    _, handle = await served.kernel.open("thing/a/level")
    numbers = [served.kernel.read(handle) for _ in range(50)]
    await server.until(lambda now: now.outstanding == 50)
    assert served.bridge.requests == 50
    assert (await served.kernel.lookup("readme")).nodeid
    sample.things["a"].ready.set()
    assert {(await served.kernel.reply(number)).data for number in numbers} == {b"ready\n"}


async def test_what_is_not_to_wait(address: str, sample: Sample, server: Server) -> None:
    """On a file opened with O_NONBLOCK a read that would wait is EAGAIN and ends at the server; others are answered."""
    async with serving(address, patience_s=0.02) as served:
        _, handle = await served.kernel.open("readme", os.O_NONBLOCK)
        assert (await served.kernel.reply(served.kernel.read(handle, 0, 8))).data == b"a sample"
        _, handle = await served.kernel.open("thing/a/level", os.O_NONBLOCK)
        assert (await served.kernel.reply(served.kernel.read(handle))).error == errno.EAGAIN
        assert server.statistics().outstanding == 0
        sample.things["a"].ready.set()
        assert (await served.kernel.reply(served.kernel.read(handle))).data == b"ready\n"
        nodeid = (await served.kernel.lookup("thing/a/slow")).nodeid
        body = protocol.OPEN_IN.pack(protocol.OpenIn(os.O_NONBLOCK, 0))
        assert (await served.kernel.call(Opcode.OPEN, nodeid, body)).error == errno.EAGAIN
        await server.until(lambda now: now.outstanding == 0)


async def test_close_tells_errors(served: Served, sample: Sample) -> None:
    """What is wrong with a message comes back from close(2), and is kept by the server as well."""
    served.kernel.pid = os.getppid()
    _, handle = await served.kernel.open("thing/a/inbox", os.O_WRONLY)
    await served.kernel.reply(served.kernel.write(handle, b"bad message"))
    assert (await served.kernel.flush(handle)).error == errno.EINVAL
    assert served.log[-1] == "flush: bad message (EINVAL)"
    assert sample.errors == [("me", "thing/a/inbox", "bad message")]


async def test_one_message_of_several_processes(served: Served, sample: Sample) -> None:
    """What a program inherited is not its to close: the message is whole when whoever opened the file closes it."""
    served.kernel.pid = os.getppid()
    _, handle = await served.kernel.open("thing/a/inbox", os.O_WRONLY)
    served.kernel.pid = 1
    await served.kernel.reply(served.kernel.write(handle, b"one "))
    assert (await served.kernel.flush(handle)).error == 0
    assert sample.things["a"].messages == []
    await served.kernel.reply(served.kernel.write(handle, b"two"))
    served.kernel.pid = os.getppid()
    assert (await served.kernel.flush(handle)).error == 0
    assert sample.things["a"].messages == [b"one two"]


async def test_closed_too_early(served: Served, sample: Sample) -> None:
    """A handle that is written again after a close goes on with another message."""
    served.kernel.pid = os.getppid()
    _, handle = await served.kernel.open("thing/a/inbox", os.O_WRONLY)
    for message in (b"one", b"two"):
        assert (await served.kernel.reply(served.kernel.write(handle, message))).error == 0
        await served.kernel.flush(handle)
    await served.kernel.release(handle)
    assert sample.things["a"].messages == [b"one", b"two"]


async def test_release_takes_what_was_written(served: Served, sample: Sample) -> None:
    """Without any close by the opener the message is taken at the end."""
    _, handle = await served.kernel.open("thing/a/inbox", os.O_WRONLY)
    await served.kernel.reply(served.kernel.write(handle, b"late"))
    await served.kernel.release(handle)
    assert sample.things["a"].messages == [b"late"]


async def test_question_and_answer(served: Served, sample: Sample) -> None:
    """A duplicate that is closed between question and answer changes nothing."""
    served.kernel.pid = os.getppid()
    sample.things["a"].released.set()
    _, handle = await served.kernel.open("thing/a/ask", os.O_RDWR)
    await served.kernel.reply(served.kernel.write(handle, b"why"))
    await served.kernel.flush(handle)
    assert (await served.kernel.reply(served.kernel.read(handle))).data == b"got why"


async def test_fsync(served: Served, sample: Sample) -> None:
    """fsync(2) has the message taken, and tells what is wrong with it."""
    _, handle = await served.kernel.open("thing/a/inbox", os.O_WRONLY)
    body = protocol.FSYNC_IN.pack(protocol.FsyncIn(handle, 0))
    await served.kernel.reply(served.kernel.write(handle, b"good"))
    assert (await served.kernel.call(Opcode.FSYNC, 0, body)).error == 0
    assert sample.things["a"].messages == [b"good"]
    await served.kernel.reply(served.kernel.write(handle, b"bad"))
    assert (await served.kernel.call(Opcode.FSYNC, 0, body)).error == errno.EINVAL


async def test_append(served: Served, sample: Sample) -> None:
    """A handle that appends writes at the end as it is now, whatever offset the kernel has."""
    note = sample.things["a"].note
    _, one = await served.kernel.open("thing/a/note", os.O_WRONLY | os.O_APPEND)
    _, two = await served.kernel.open("thing/a/note", os.O_WRONLY | os.O_APPEND)
    numbers = [served.kernel.write(handle, bytes([65 + turn]) * 3) for turn in range(5) for handle in (one, two)]
    for number in numbers:
        assert (await served.kernel.reply(number)).error == 0
    assert len(note.data) == 30
    assert {bytes(note.data[at : at + 3]) for at in range(0, 30, 3)} == {bytes([65 + turn]) * 3 for turn in range(5)}


async def test_long_write_is_one_command(served: Served, sample: Sample) -> None:
    """The kernel cuts a long write where a Twrite is full, which a control file takes as one command."""
    _, handle = await served.kernel.open("thing/a/ctl", os.O_RDWR)
    command = b"echo " + b"x" * 10000
    for at in range(0, len(command), MAX_WRITE):
        await served.kernel.reply(served.kernel.write(handle, command[at : at + MAX_WRITE], at))
    assert (await served.kernel.reply(served.kernel.read(handle, 0, 20000))).data == b"x" * 8168
    assert (await served.kernel.reply(served.kernel.read(handle, 8168, 20000))).data == b"x" * 1832 + b"\n"


def _setattr(valid: int, **values: int) -> bytes:
    fields = dict.fromkeys(protocol.SetattrIn._fields, 0) | values | {"valid": valid}
    return protocol.SETATTR_IN.pack(protocol.SetattrIn(**fields))


async def test_truncate(served: Served, sample: Sample) -> None:
    """truncate(2), and truncation with new times along, as Linux asks for it."""
    note = sample.things["a"].note
    await note.write(0, b"text")
    nodeid = (await served.kernel.lookup("thing/a/note")).nodeid
    await served.kernel.call(Opcode.SETATTR, nodeid, _setattr(protocol.FATTR_SIZE, size=2))
    assert note.data == b"te"
    reply = await served.kernel.call(Opcode.SETATTR, nodeid, _setattr(protocol.FATTR_SIZE | protocol.FATTR_MTIME))
    assert reply.error == 0
    assert protocol.ATTR.parse(reply.data, protocol.ATTR_OUT.size).size == 0
    assert note.data == b""


async def test_truncate_at_open(served: Served, sample: Sample) -> None:
    """O_TRUNC reaches the server with the open."""
    await sample.things["a"].note.write(0, b"text")
    await served.kernel.open("thing/a/note", os.O_WRONLY | os.O_TRUNC)
    assert sample.things["a"].note.data == b""


@pytest.mark.parametrize(
    ("valid", "values", "number"),
    [
        (protocol.FATTR_MODE, {"mode": 0o600}, errno.EPERM),
        (protocol.FATTR_MODE, {"mode": 0o660}, 0),
        (protocol.FATTR_MTIME, {"mtime": 1}, errno.EPERM),
        (protocol.FATTR_ATIME, {"atime": 1}, errno.EPERM),
        (protocol.FATTR_UID, {"uid": 0}, errno.EPERM),
        (protocol.FATTR_GID, {"gid": 0}, errno.EPERM),
        (protocol.FATTR_UID | protocol.FATTR_GID, {"uid": OWNER[0], "gid": OWNER[1]}, 0),
        (0, {}, 0),
    ],
)
async def test_attributes_that_cannot_be_set(valid: int, values: dict[str, int], number: int, served: Served) -> None:
    """Mode, owner and times stay as they are; setting them to what they are is no error."""
    nodeid = (await served.kernel.lookup("thing/a/note")).nodeid
    assert (await served.kernel.call(Opcode.SETATTR, nodeid, _setattr(valid, **values))).error == number


@pytest.mark.parametrize(
    ("path", "mask", "number"),
    [
        ("readme", os.F_OK, 0),
        ("readme", os.R_OK, 0),
        ("readme", os.W_OK, errno.EACCES),
        ("thing/a/inbox", os.R_OK, errno.EACCES),
        ("thing", os.X_OK, 0),
        ("thing", os.W_OK, errno.EACCES),
    ],
)
async def test_access(path: str, mask: int, number: int, served: Served) -> None:
    """What `test -w` and the like are told."""
    nodeid = (await served.kernel.lookup(path)).nodeid
    body = protocol.ACCESS_IN.pack(protocol.AccessIn(mask))
    assert (await served.kernel.call(Opcode.ACCESS, nodeid, body)).error == number


def _rename(newdir: int, old: str, new: str, flags: int = 0) -> tuple[Opcode, bytes]:
    return Opcode.RENAME2, protocol.RENAME2_IN.pack(protocol.Rename2In(newdir, flags)) + _names(old, new)


async def test_rename(served: Served, sample: Sample) -> None:
    """A directory gets another name, its node stays, and a reader below it goes on."""
    things = (await served.kernel.lookup("thing")).nodeid
    before = (await served.kernel.lookup("thing/a")).nodeid
    opcode, body = _rename(things, "a", "b")
    assert (await served.kernel.call(opcode, things, body)).error == 0
    assert list(sample.things) == ["b"]
    assert (await served.kernel.lookup("thing/b")).nodeid == before
    assert (await served.kernel.call(Opcode.LOOKUP, things, _names("a"))).error == errno.ENOENT


async def test_rename_refused(served: Served, sample: Sample) -> None:
    """To a name that is taken, to another directory, in exchange, and of a file that has to keep its name."""
    sample.add("b")
    things = (await served.kernel.lookup("thing")).nodeid
    for directory, newdir, old, new, flags, number in (
        (things, things, "a", "b", 0, errno.EEXIST),
        (things, things, "a", "b", 2, errno.EINVAL),
        (things, ROOT, "a", "c", 0, errno.EPERM),
        (ROOT, ROOT, "readme", "me", 0, errno.EPERM),
    ):
        opcode, body = _rename(newdir, old, new, flags)
        assert (await served.kernel.call(opcode, directory, body)).error == number
    assert list(sample.things) == ["a", "b"]


async def test_remove(served: Served, sample: Sample) -> None:
    """A directory that can be removed goes; a new one of its name is another node."""
    things = (await served.kernel.lookup("thing")).nodeid
    before = (await served.kernel.lookup("thing/a")).nodeid
    assert (await served.kernel.call(Opcode.UNLINK, ROOT, _names("readme"))).error == errno.EACCES
    assert (await served.kernel.call(Opcode.RMDIR, things, _names("a"))).error == 0
    assert sample.things == {}
    assert (await served.kernel.call(Opcode.GETATTR, before)).error == errno.ENOENT
    sample.add("a")
    assert (await served.kernel.lookup("thing/a")).nodeid != before


async def test_replaced_behind_its_back(served: Served, sample: Sample) -> None:
    """A name that leads to another object than before is another node."""
    before = await served.kernel.lookup("thing/a")
    await sample.remove(sample.things["a"])
    sample.add("a")
    after = await served.kernel.lookup("thing/a")
    assert after.nodeid != before.nodeid
    assert after.attr.ino != before.attr.ino


async def test_renamed_behind_its_back(served: Served, sample: Sample) -> None:
    """A node follows its object when another client gives it another name."""
    nodeid = (await served.kernel.lookup("thing/a")).nodeid
    await sample.rename(sample.things["a"], "b")
    assert (await served.kernel.call(Opcode.LOOKUP, nodeid, _names("label"))).error == 0


async def test_written_files_are_not_shared(served: Served) -> None:
    """Looking up a file again gives the same node, but another one while it is open for writing."""
    first, handle = await served.kernel.open("thing/a/ctl", os.O_WRONLY)
    second = (await served.kernel.lookup("thing/a/ctl")).nodeid
    assert second != first
    await served.kernel.release(handle)
    assert (await served.kernel.lookup("thing/a/ctl")).nodeid == second


async def test_forget(served: Served, server: Server) -> None:
    """A node and its fid last until every lookup was taken back."""
    nodeid = (await served.kernel.lookup("readme")).nodeid
    await served.kernel.lookup("readme")
    forget = protocol.FORGET_IN.pack(protocol.ForgetIn(1))
    served.kernel.send(Opcode.FORGET, nodeid, forget)
    assert (await served.kernel.call(Opcode.GETATTR, nodeid)).error == 0
    batch = protocol.BATCH_FORGET_IN.pack(protocol.BatchForgetIn(2))
    batch += protocol.FORGET_ONE.pack(protocol.ForgetOne(nodeid, 1)) + protocol.FORGET_ONE.pack(
        protocol.ForgetOne(ROOT, 1)
    )
    served.kernel.send(Opcode.BATCH_FORGET, 0, batch)
    assert (await served.kernel.call(Opcode.GETATTR, nodeid)).error == errno.ESTALE
    await server.until(lambda now: now.fids == 1)
    assert len(served.bridge.nodes) == 1
    assert (await served.kernel.call(Opcode.GETATTR, ROOT)).error == 0


async def test_fids_are_bounded(served: Served, sample: Sample, server: Server) -> None:
    """The kernel knows more files than there are fids; all of them work."""
    for number in range(700):
        sample.add(f"t{number}")
    nodes = [(await served.kernel.lookup(f"thing/t{number}")).nodeid for number in range(700)]
    assert server.statistics().fids < 600
    for nodeid in nodes[:3] + nodes[-3:]:
        assert (await served.kernel.call(Opcode.LOOKUP, nodeid, _names("label"))).error == 0


async def test_fids_given_up_do_not_come_back_elsewhere(served: Served, sample: Sample) -> None:
    """A node without a fid does not become another object that has its name now."""
    nodeid = (await served.kernel.lookup("thing/a")).nodeid
    for number in range(600):
        sample.add(f"t{number}")
        await served.kernel.lookup(f"thing/t{number}")
    await sample.remove(sample.things["a"])
    sample.add("a")
    assert (await served.kernel.call(Opcode.GETATTR, nodeid)).error == errno.ENOENT


async def _list(kernel: Kernel, nodeid: int, size: int) -> list[tuple[str, int]]:
    """Names and types of a directory, read as the kernel does with a buffer of `size` bytes."""
    opened = await kernel.call(Opcode.OPENDIR, nodeid, protocol.OPEN_IN.pack(protocol.OpenIn(0, 0)))
    handle = protocol.OPEN_OUT.parse(opened.data).fh
    found, offset = [], 0
    while True:
        body = protocol.READ_IN.pack(protocol.ReadIn(handle, offset, size, 0, 0, 0))
        reply = await kernel.call(Opcode.READDIR, nodeid, body)
        assert reply.error == 0
        if not reply.data:
            break
        at = 0
        while at < len(reply.data):
            entry = protocol.DIRENT.parse(reply.data, at)
            start = at + protocol.DIRENT.size
            found.append((reply.data[start : start + entry.namelen].decode(), entry.type))
            at = start + (entry.namelen + 7) // 8 * 8
            offset = entry.off
    await kernel.call(Opcode.RELEASEDIR, nodeid, protocol.RELEASE_IN.pack(protocol.ReleaseIn(handle, 0, 0, 0)))
    return found


@pytest.mark.parametrize("size", [64, 1000, 65536])
async def test_directories(size: int, served: Served, sample: Sample) -> None:
    """All entries, `.` and `..` with them, whatever fits into a reply."""
    for number in range(300):
        sample.add(f"t{number}")
    nodeid = (await served.kernel.lookup("thing")).nodeid
    found = await _list(served.kernel, nodeid, size)
    names = [".", "..", "idx", "a", *(f"t{number}" for number in range(300))]
    assert sorted(found) == sorted((name, 8 if name == "idx" else 4) for name in names)


HANDED_ON = {  # what a descriptor is for, and what the kernel asks on behalf of nobody
    Opcode.GETATTR,
    Opcode.STATFS,
    Opcode.READ,
    Opcode.WRITE,
    Opcode.FSYNC,
    Opcode.FLUSH,
    Opcode.RELEASE,
    Opcode.READDIR,
    Opcode.RELEASEDIR,
}


async def test_judge(served: Served, judge: Judgement, sample: Sample) -> None:
    """A caller that is refused can name nothing, whatever it asks; a descriptor that it was handed works."""
    nodeid, handle = await served.kernel.open("readme")
    served.kernel.pid = 666
    judge.refused = {666}
    for opcode in served.bridge._operations.table.keys() - HANDED_ON:
        reply = await served.kernel.call(opcode, nodeid, bytes(100))
        assert reply.error == errno.EACCES, Opcode(opcode).name
        assert served.log[-1].endswith("the mount is not for process 666 (EACCES)")
    assert (await served.kernel.call(Opcode.GETATTR, nodeid, bytes(16))).error == 0
    assert (await served.kernel.reply(served.kernel.read(handle, 0, 8))).data == b"a sample"
    assert judge.callers[-1].uid == OWNER[0]
    assert list(sample.things) == ["a"]


async def test_server_on_its_own_mount(served: Served) -> None:
    """The server is told at once that it would wait for itself."""
    served.kernel.pid = os.getpid()
    assert (await served.kernel.call(Opcode.GETATTR, ROOT)).error == errno.EDEADLK
    assert (await served.kernel.call(Opcode.LOOKUP, ROOT, _names("readme"))).error == errno.EDEADLK


async def test_file_system_without_blocks(served: Served, server: Server) -> None:
    """`df` is told so without the server, which may be away."""
    await server.close()
    reply = await served.kernel.call(Opcode.STATFS, ROOT)
    assert protocol.STATFS_OUT.parse(reply.data).blocks == 0


async def test_server_goes_and_returns(server: Server, sample: Sample, address: str) -> None:
    """Everything answers ENOTCONN while it is away; nodes work again when it is back, handles stay dead."""
    async with serving(address) as served:
        kernel = served.kernel
        nodeid, handle = await kernel.open("thing/a/level")
        _, writing = await kernel.open("thing/a/inbox", os.O_WRONLY)
        await kernel.reply(kernel.write(writing, b"half"))
        blocked = kernel.read(handle)
        await server.until(lambda now: now.outstanding == 1)
        await server.close()
        assert (await kernel.reply(blocked)).error == errno.ENOTCONN
        assert (await kernel.call(Opcode.GETATTR, nodeid)).error == errno.ENOTCONN
        assert (await kernel.call(Opcode.LOOKUP, ROOT, _names("readme"))).error == errno.ENOTCONN
        other = Sample()
        other.add("z")
        other.add("a").ready.set()
        again = sample_server(other)
        await again.listen(address)
        assert (await kernel.call(Opcode.GETATTR, nodeid)).error == 0
        assert (await kernel.lookup("thing/a/level")).nodeid == nodeid
        assert (await kernel.reply(kernel.read(handle))).error == errno.ENOTCONN
        assert (await kernel.reply(kernel.write(writing, b"half"))).error == errno.ENOTCONN
        assert (await kernel.release(writing)).error == 0
        _, fresh = await kernel.open("thing/a/level")
        assert (await kernel.reply(kernel.read(fresh))).data == b"ready\n"
        assert other.things["a"].messages == []
        await again.close()


async def test_one_attempt_for_all(server: Server, sample: Sample, address: str) -> None:
    """Requests that find the connection lost share one attempt to make another, and each failure is a line."""
    async with serving(address) as served:
        await server.close()
        assert (await served.kernel.call(Opcode.GETATTR, ROOT)).error == errno.ENOTCONN
        assert served.log[-2].startswith("connect: ")
        again = sample_server(sample)
        await again.listen(address)
        sample.attaches.clear()
        numbers = [served.kernel.send(Opcode.GETATTR, ROOT) for _ in range(20)]
        assert {(await served.kernel.reply(number)).error for number in numbers} == {0}
        assert len(sample.attaches) == 1
        await again.close()


async def test_what_is_gone_after_a_restart(server: Server, address: str) -> None:
    """A node that the new server does not have does not exist."""
    async with serving(address) as served:
        nodeid = (await served.kernel.lookup("thing/a/label")).nodeid
        await server.close()
        again = sample_server(Sample())
        await again.listen(address)
        assert (await served.kernel.call(Opcode.GETATTR, nodeid)).error == errno.ENOENT
        await again.close()


async def test_no_reconnect(server: Server, address: str) -> None:
    """A link that is not to come back stays away."""
    async with serving(address, reconnect=False) as served:
        await server.close()
        again = sample_server(Sample())
        await again.listen(address)
        assert (await served.kernel.call(Opcode.GETATTR, ROOT)).error == errno.ENOTCONN
        await again.close()


async def test_unmounted(served: Served) -> None:
    """The end of the mount is noticed."""
    served.kernel.close()
    await asyncio.wait_for(served.bridge.ended.wait(), 30)


async def test_closing_takes_what_was_written(sample: Sample, address: str) -> None:
    """A mount that ends with files open loses nothing that was written."""
    async with serving(address) as served:
        _, handle = await served.kernel.open("thing/a/inbox", os.O_WRONLY)
        await served.kernel.reply(served.kernel.write(handle, b"whole"))
        _, level = await served.kernel.open("thing/a/level")
        blocked = served.kernel.read(level)
        await served.bridge.close()
        assert (await served.kernel.reply(blocked)).error == errno.EINTR
    assert sample.things["a"].messages == [b"whole"]
