"""What each request of the kernel means in 9P.

An operation is `async (request) -> Answer`. It raises NinepError with the server's words, OSError where it refuses by
itself, and CancelledError when its caller was interrupted.
"""

import asyncio
import errno
import os
import stat as modes
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeVar

from ninep import _wire
from ninep.enames import errno_of
from ninep.errors import ConnectionLostError, NinepError
from ninep.fuse import protocol
from ninep.fuse.callers import process_of
from ninep.fuse.device import Request
from ninep.fuse.handles import DirHandle, FileHandle, ino_of, mode_of
from ninep.fuse.nodes import Node, Nodes, Spot
from ninep.fuse.opcodes import Opcode
from ninep.fuse.protocol import Attr, AttrOut, EntryOut, OpenOut, StatfsOut, WriteOut
from ninep.messages import Stat

T = TypeVar("T")

# How long what a lookup finds is good for. The kernel rounds up to a tick, some milliseconds: enough for the stat(2)
# that the lookup is part of, and for `ls -l`, which names its directory for each file. The name of a file is good for
# nothing: who opens it next must not come upon the inode of a writer, on which the kernel lets a truncation wait.
_FRESH_NS = 1
_BLOCK_BYTES = 4096
_NAME_BYTES = 255


class Answer(NamedTuple):
    """The reply to a request.

    Args:
        data: what follows the header.
        undo: called when nobody waits for the reply any more, so that the kernel never learns of it.
    """

    data: bytes = b""
    undo: Callable[[], None] | None = None


Operation = Callable[[Request], Awaitable[Answer]]


class Operations:
    """All operations on one mount.

    Args:
        nodes: what the kernel knows.
        owner: user and group that all files are shown with.
        log: gets a line for what no reply can carry.
        patience_s: how long an open or a read waits that is not to wait, in seconds: for an answer that is there.
    """

    def __init__(self, nodes: Nodes, owner: tuple[int, int], log: Callable[[str], None], patience_s: float) -> None:
        self.nodes = nodes
        self._patience_s = patience_s
        self._uid, self._gid = owner
        self._log = log
        self._handles: dict[int, FileHandle | DirHandle] = {}
        self._next_handle = 1
        self.table: dict[int, Operation] = {
            Opcode.LOOKUP: self.lookup,
            Opcode.GETATTR: self.getattr,
            Opcode.SETATTR: self.setattr,
            Opcode.ACCESS: self.access,
            Opcode.STATFS: self.statfs,
            Opcode.UNLINK: self.remove,
            Opcode.RMDIR: self.remove,
            Opcode.RENAME: self.rename,
            Opcode.RENAME2: self.rename2,
            Opcode.CREATE: self.create,
            Opcode.MKNOD: self.mknod,
            Opcode.MKDIR: self.mkdir,
            Opcode.OPEN: self.open,
            Opcode.READ: self.read,
            Opcode.WRITE: self.write,
            Opcode.FSYNC: self.fsync,
            Opcode.FLUSH: self.flush,
            Opcode.RELEASE: self.release,
            Opcode.OPENDIR: self.opendir,
            Opcode.READDIR: self.readdir,
            Opcode.RELEASEDIR: self.release,
        }

    # Nodes

    async def lookup(self, request: Request) -> Answer:
        """A name in a directory."""
        (name,) = protocol.parse_names(request.body, 0, 1)
        return (await self._look_up(self.nodes.get(request.nodeid), name))[1]

    async def _look_up(self, parent: Node, name: str) -> tuple[Node, Answer]:
        async with self.nodes.at(parent) as (client, start):
            fid = await client.walk(name, start)
        try:
            stat = await client.fstat(fid)
        except BaseException:
            client.forget(fid)
            raise
        node = self.nodes.enter(parent, name, Spot(client, fid), stat)
        entry = protocol.ENTRY_OUT.pack(EntryOut(node.nodeid, 0, 0, 0, _FRESH_NS if node.is_dir else 0, _FRESH_NS))
        return node, Answer(entry + self._attr(stat), partial(self.nodes.forget, node.nodeid, 1))

    async def getattr(self, request: Request) -> Answer:
        """Mode, length and times."""
        node = self.nodes.get(request.nodeid)
        async with self.nodes.at(node) as spot:
            return await self._attributes(node, spot)

    async def _attributes(self, node: Node, spot: Spot) -> Answer:
        stat = await spot.client.fstat(spot.fid)
        node.qid_path = stat.qid.path
        return Answer(protocol.ATTR_OUT.pack(AttrOut(0, 0)) + self._attr(stat))

    def _attr(self, stat: Stat) -> bytes:
        return protocol.ATTR.pack(
            Attr(
                ino=ino_of(stat.qid.path),
                size=stat.length,
                blocks=-(-stat.length // 512),
                atime=stat.atime,
                mtime=stat.mtime,
                ctime=stat.mtime,
                atimensec=0,
                mtimensec=0,
                ctimensec=0,
                mode=(modes.S_IFDIR if stat.is_dir else modes.S_IFREG) | (stat.mode & 0o777),
                nlink=1,
                uid=self._uid,
                gid=self._gid,
                rdev=0,
                blksize=_BLOCK_BYTES,
                flags=0,
            )
        )

    async def setattr(self, request: Request) -> Answer:
        """Length, mode and time; an owner can only be set to whom it belongs already."""
        wanted = protocol.SETATTR_IN.parse(request.body)
        if (wanted.valid & protocol.FATTR_UID and wanted.uid != self._uid) or (
            wanted.valid & protocol.FATTR_GID and wanted.gid != self._gid
        ):
            raise _refusal(errno.EPERM)
        node = self.nodes.get(request.nodeid)
        change = _change(wanted, node.qid_type)
        async with self.nodes.at(node) as spot:
            if change is not None:
                await spot.client.fwstat(spot.fid, change)
            return await self._attributes(node, spot)

    async def access(self, request: Request) -> Answer:
        """What the owner's bits allow: all callers are the owner. What they can do the server decides at open."""
        (mask,) = protocol.ACCESS_IN.parse(request.body)
        async with self.nodes.at(self.nodes.get(request.nodeid)) as (client, fid):
            stat = await client.fstat(fid)
        if mask & ~(stat.mode >> 6) & 7:
            raise _refusal(errno.EACCES)
        return Answer()

    async def statfs(self, request: Request) -> Answer:
        """A file system without blocks, as `/proc` is. The server is not asked, so that `df` works without it."""
        return Answer(protocol.STATFS_OUT.pack(StatfsOut(0, 0, 0, 0, 0, _BLOCK_BYTES, _NAME_BYTES, _BLOCK_BYTES)))

    async def mkdir(self, request: Request) -> Answer:
        """Make a directory."""
        mode, _ = protocol.MKDIR_IN.parse(request.body)
        (name,) = protocol.parse_names(request.body, protocol.MKDIR_IN.size, 1)
        return await self._make(request, name, _wire.DMDIR | (mode & 0o777))

    async def mknod(self, request: Request) -> Answer:
        """Make a file and leave it closed; 9P has no pipes, sockets and devices to make."""
        mode, _, _ = protocol.MKNOD_IN.parse(request.body)
        if modes.S_IFMT(mode) not in {0, modes.S_IFREG}:
            raise _refusal(errno.EPERM)
        (name,) = protocol.parse_names(request.body, protocol.MKNOD_IN.size, 1)
        return await self._make(request, name, mode & 0o777)

    async def _make(self, request: Request, name: str, perm: int) -> Answer:
        parent = self.nodes.get(request.nodeid)
        async with self.nodes.at(parent) as (client, start):
            (await client.create(name, perm, _wire.OREAD, start)).discard()
        return (await self._look_up(parent, name))[1]

    async def remove(self, request: Request) -> Answer:
        """Remove a file or a directory, by its name."""
        (name,) = protocol.parse_names(request.body, 0, 1)
        parent = self.nodes.get(request.nodeid)
        async with self.nodes.at(parent) as (client, start):
            await client.remove(name, start)
        self.nodes.removed(parent, name)
        return Answer()

    async def rename(self, request: Request) -> Answer:
        """Another name in the same directory."""
        (newdir,) = protocol.RENAME_IN.parse(request.body)
        return await self._rename(request, newdir, *protocol.parse_names(request.body, protocol.RENAME_IN.size, 2))

    async def rename2(self, request: Request) -> Answer:
        """As `rename`: no file is ever replaced, so that RENAME_NOREPLACE changes nothing."""
        newdir, flags = protocol.RENAME2_IN.parse(request.body)
        if flags & ~protocol.RENAME_NOREPLACE:
            raise _refusal(errno.EINVAL)
        return await self._rename(request, newdir, *protocol.parse_names(request.body, protocol.RENAME2_IN.size, 2))

    async def _rename(self, request: Request, newdir: int, old: str, new: str) -> Answer:
        if newdir != request.nodeid:
            raise _refusal(errno.EPERM)  # EXDEV would have mv(1) copy the files, and then remove the agent
        parent = self.nodes.get(request.nodeid)
        async with self.nodes.at(parent) as (client, start):
            fid = await client.walk(old, start)
        try:
            await client.fwstat(fid, Stat(name=new))
        finally:
            client.forget(fid)
        self.nodes.renamed(parent, old, new)
        return Answer()

    # Handles

    async def open(self, request: Request) -> Answer:
        """Open a file that exists."""
        flags, _ = protocol.OPEN_IN.parse(request.body)
        return await self._open(request, self.nodes.get(request.nodeid), flags)

    async def _open(self, request: Request, node: Node, flags: int) -> Answer:
        handle = self._handle(request, node, flags)
        await self._in_time(handle, handle.open())
        return self._opened_file(handle)

    def _handle(self, request: Request, node: Node, flags: int) -> FileHandle:
        opener = process_of(request.caller.pid) if flags & os.O_WRONLY else None
        return FileHandle(self.nodes, node, flags, opener)

    async def create(self, request: Request) -> Answer:
        """Make a file and open it. One that somebody else made meanwhile is opened, unless O_EXCL forbids it."""
        flags, mode, _, _ = protocol.CREATE_IN.parse(request.body)
        (name,) = protocol.parse_names(request.body, protocol.CREATE_IN.size, 1)
        parent = self.nodes.get(request.nodeid)
        try:
            async with self.nodes.at(parent) as (client, start):
                file = await client.create(name, mode & 0o777, mode_of(flags), start)
        except NinepError as error:
            if flags & os.O_EXCL or errno_of(str(error)) != errno.EEXIST:
                raise
            return await self._open_made(request, parent, name, flags)
        try:
            node, entry = await self._look_up(parent, name)
        except BaseException:
            file.discard()
            raise
        handle = self._handle(request, node, flags)
        handle.opened(client, file)
        return _both(entry, self._opened_file(handle))

    async def _open_made(self, request: Request, parent: Node, name: str, flags: int) -> Answer:
        node, entry = await self._look_up(parent, name)
        try:
            return _both(entry, await self._open(request, node, flags))
        except BaseException:
            self.nodes.forget(node.nodeid, 1)
            raise

    async def opendir(self, request: Request) -> Answer:
        """Open a directory."""
        handle = DirHandle(self.nodes, self.nodes.get(request.nodeid))
        await handle.open()
        return self._opened(handle, 0)

    def _opened_file(self, handle: FileHandle) -> Answer:
        how = protocol.FOPEN_DIRECT_IO | protocol.FOPEN_PARALLEL_DIRECT_WRITES
        return self._opened(handle, how | (protocol.FOPEN_NOFLUSH if handle.readable else 0))

    def _opened(self, handle: FileHandle | DirHandle, how: int) -> Answer:
        number = self._next_handle
        self._next_handle += 1
        self._handles[number] = handle
        return Answer(protocol.OPEN_OUT.pack(OpenOut(number, how)), partial(self._discard, number))

    def _discard(self, number: int) -> None:
        self._handles.pop(number).discard()

    async def read(self, request: Request) -> Answer:
        """Read; it waits as long as the file makes it wait."""
        wanted = protocol.READ_IN.parse(request.body)
        handle = self._file(wanted.fh)
        if handle.node.qid_type & _wire.QTTMP and not handle.patient:
            raise _refusal(errno.EAGAIN)
        return Answer(await self._in_time(handle, handle.read(wanted.offset, wanted.size)))

    async def _in_time(self, handle: FileHandle, work: Awaitable[T]) -> T:
        """EAGAIN for what would wait on a handle that is not to; `grep -r` opens files so."""
        try:
            async with asyncio.timeout(None if handle.patient else self._patience_s):
                return await work
        except TimeoutError:
            raise _refusal(errno.EAGAIN) from None

    async def write(self, request: Request) -> Answer:
        """Write."""
        wanted = protocol.WRITE_IN.parse(request.body)
        at = protocol.WRITE_IN.size
        count = await self._file(wanted.fh).write(wanted.offset, request.body[at : at + wanted.size])
        return Answer(protocol.WRITE_OUT.pack(WriteOut(count)))

    async def fsync(self, request: Request) -> Answer:
        """Have the server take what was written, and tell."""
        await self._file(protocol.FSYNC_IN.parse(request.body).fh).commit()
        return Answer()

    async def flush(self, request: Request) -> Answer:
        """A descriptor is closed; there may be others for the same handle."""
        handle = self._file(protocol.FLUSH_IN.parse(request.body).fh)
        await handle.flush(process_of(request.caller.pid))
        return Answer()

    async def readdir(self, request: Request) -> Answer:
        """Entries of a directory."""
        wanted = protocol.READ_IN.parse(request.body)
        handle = self._handles.get(wanted.fh)
        if not isinstance(handle, DirHandle):
            raise _refusal(errno.EBADF)
        return Answer(await handle.read(wanted.offset, wanted.size))

    async def release(self, request: Request) -> Answer:
        """The last descriptor of a handle is closed. Nobody waits for the reply."""
        await self.close(protocol.RELEASE_IN.parse(request.body).fh)
        return Answer()

    async def close(self, number: int) -> None:
        """Clunk a handle; what is wrong with what was written can only be logged here."""
        handle = self._handles.pop(number, None)
        if handle is None:
            return
        try:
            await handle.close()
        except ConnectionLostError:
            pass  # there is nothing left to clunk
        except NinepError as error:
            self._log(f"close: {error}")

    async def close_all(self) -> None:
        """Clunk every handle."""
        for number in list(self._handles):
            await self.close(number)

    def _file(self, number: int) -> FileHandle:
        handle = self._handles.get(number)
        if not isinstance(handle, FileHandle):
            raise _refusal(errno.EBADF)
        return handle


def _both(entry: Answer, opened: Answer) -> Answer:
    """One reply for a lookup and an open."""

    def undo() -> None:
        for part in (opened, entry):
            if part.undo is not None:
                part.undo()

    return Answer(entry.data + opened.data, undo)


def _change(wanted: protocol.SetattrIn, qid_type: int) -> Stat | None:
    """What Twstat has to say, None where there is nothing to change."""
    valid = wanted.valid
    if valid & protocol.FATTR_SIZE:
        return Stat(length=wanted.size)
    mode = mtime = _wire.MAX32
    if valid & protocol.FATTR_MODE:
        mode = (wanted.mode & 0o777) | qid_type << 24
    if valid & protocol.FATTR_MTIME:
        mtime = int(time.time()) if valid & protocol.FATTR_MTIME_NOW else wanted.mtime & _wire.MAX32
    elif valid & protocol.FATTR_ATIME:
        raise _refusal(errno.EPERM)  # 9P cannot set it alone
    change = Stat(mode=mode, mtime=mtime)
    return None if change == Stat() else change


def _refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))
