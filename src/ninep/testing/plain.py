"""A tree of plain files and directories in memory, which clients make, write, rename and remove.

Whoever attaches owns everything, so that the first three permission bits count. There are no append-only and no
exclusive-use files, and no owners to give a file to: what asks for them is refused.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from ninep import _wire, errors
from ninep._session import AfidConversation, OpenFile, Place, Walked, check_name
from ninep.errors import NinepError
from ninep.messages import Qid, Stat
from ninep.server import Conn, Server
from ninep.tree import Held, Peer, Role, Tree

FILE_BYTES = 64 * 1024 * 1024

_OWNER = "owner"
_MODE = _wire.DMDIR | 0o777
_CHANGED = {"name", "length", "mode", "atime", "mtime"}
_READ, _WRITE = 0o400, 0o200
_WANT = {_wire.OREAD: _READ, _wire.OWRITE: _WRITE, _wire.ORDWR: _READ | _WRITE, _wire.OEXEC: 0o100}


class Plain:
    """A file, or a directory where `mode` has DMDIR.

    Attributes:
        name, mode: as in its directory entry.
        data: of a file.
        entries: of a directory, by name.
        gone: whether it was removed.
    """

    def __init__(self, name: str, mode: int, parent: "Plain | None", numbers: Iterator[int]) -> None:
        self.name = name
        self.mode = mode
        self.data = bytearray()
        self.entries: dict[str, Plain] = {}
        self.gone = False
        self.parent = parent or self
        self._numbers = numbers
        self._number = next(numbers)
        self._version = 0
        self._atime = self._mtime = int(time.time())

    @property
    def is_dir(self) -> bool:
        """Whether it has entries."""
        return bool(self.mode & _wire.DMDIR)

    def qid(self) -> bytes:
        """Its 13 bytes."""
        return self._qid().pack()

    def _qid(self) -> Qid:
        return Qid(_wire.QTDIR if self.is_dir else _wire.QTFILE, self._version, self._number)

    def path(self) -> str:
        """For people."""
        above = self.parent.path() if self.parent is not self else ""
        return f"{above}/{self.name}".lstrip("/") or "/"

    def walk(self, names: Sequence[str]) -> Walked:
        """Name by name."""
        at = self
        qids: list[bytes] = []
        for name in names:
            try:
                at = at.step(name)
            except NinepError:
                if not qids:
                    raise
                break
            qids.append(at.qid())
        return at, qids

    def step(self, name: str) -> "Plain":
        """The entry with this name."""
        self.check()
        check_name(name)
        if not self.is_dir:
            raise NinepError(errors.NOT_DIRECTORY)
        if name == "..":
            return self.parent
        if name not in self.entries:
            raise NinepError(errors.NOT_FOUND)
        return self.entries[name]

    def check(self, want: int = 0) -> None:
        """Refuse what is gone, and what the permission bits do not allow."""
        if self.gone:
            raise NinepError(errors.NOT_FOUND)
        if want & ~self.mode:
            raise NinepError(errors.PERMISSION_DENIED)

    def open(self, mode: int, _iounit: int) -> OpenFile:
        """Truncate it if wanted, and give its content."""
        _check_mode(mode)
        truncate = bool(mode & _wire.OTRUNC)
        self.check(_WANT[mode & 3] | (_WRITE if truncate else 0))
        if self.is_dir and mode != _wire.OREAD:
            raise NinepError(errors.IS_DIRECTORY)
        if mode & _wire.ORCLOSE:
            self.parent.check(_WRITE)
        if truncate:
            self.resize(0)
        return _OpenPlain(self, remove=bool(mode & _wire.ORCLOSE))

    async def create(self, name: str, perm: int, mode: int, iounit: int) -> tuple[Place, OpenFile]:
        """A new entry, open."""
        self.check(_WRITE)
        _check_mode(mode)
        if perm & ~_MODE:
            raise NinepError(errors.ILLEGAL_MODE)
        if perm & _wire.DMDIR and mode != _wire.OREAD:
            raise NinepError(errors.IS_DIRECTORY)
        if name == ".." or name in self.entries:
            raise NinepError(errors.NAME_EXISTS)
        made = self.entries[name] = Plain(name, perm, self, self._numbers)
        return made, _OpenPlain(made, remove=bool(mode & _wire.ORCLOSE))

    def write(self, offset: int, data: bytes) -> None:
        """Replace and extend; a gap reads as zeros."""
        _check_size(offset + len(data))
        if offset > len(self.data):
            self.resize(offset)
        self.data[offset : offset + len(data)] = data
        self._version += 1

    def resize(self, length: int) -> None:
        """Cut, or extend by zeros."""
        _check_size(length)
        del self.data[length:]
        self.data.extend(bytes(length - len(self.data)))
        self._version += 1

    def stat(self) -> bytes:
        """The directory entry."""
        self.check()
        return self._stat().pack()

    def _stat(self) -> Stat:
        times = (self._atime, self._mtime)
        return Stat(0, 0, self._qid(), self.mode, *times, len(self.data), self.name or "/", _OWNER, _OWNER, _OWNER)

    def wstat(self, record: bytes) -> None:
        """Another length, name, mode or time; anything else is refused, and then nothing is changed."""
        self.check()
        wanted, now, nothing = Stat.parse(record), self._stat(), Stat()
        changed = {
            field.name
            for field in fields(Stat)
            if getattr(wanted, field.name) not in {getattr(nothing, field.name), getattr(now, field.name)}
        }
        if "name" in changed:
            changed -= {"muid"}  # Linux's client gives its uname there when it renames
            self._check_name(wanted.name)
        if changed - _CHANGED or ("length" in changed and self.is_dir):
            raise NinepError(errors.WSTAT_PROHIBITED)
        if "mode" in changed:
            self._check_mode(wanted.mode)
        if "length" in changed:
            self.resize(wanted.length)
        if "name" in changed:
            self._rename(wanted.name)
        if "mode" in changed:
            self.mode = wanted.mode
        if "atime" in changed:
            self._atime = wanted.atime
        if "mtime" in changed:
            self._mtime = wanted.mtime

    def _check_mode(self, mode: int) -> None:
        if (mode ^ self.mode) & _wire.DMDIR:
            raise NinepError(errors.WSTAT_PROHIBITED)
        if mode & ~_MODE:
            raise NinepError(errors.ILLEGAL_MODE)

    def _check_name(self, name: str) -> None:
        check_name(name)
        self.parent.check(_WRITE)
        if name == ".." or name in self.parent.entries:
            raise NinepError(errors.NAME_EXISTS)
        if self.parent is self:
            raise NinepError(errors.PERMISSION_DENIED)

    def _rename(self, name: str) -> None:
        del self.parent.entries[self.name]
        self.name = name
        self.parent.entries[name] = self

    def remove(self) -> Awaitable[None] | None:
        """It is gone."""
        self.check()
        self.parent.check(_WRITE)
        if self.entries:
            raise NinepError("directory is not empty")
        if self.parent is self:
            raise NinepError(errors.PERMISSION_DENIED)
        del self.parent.entries[self.name]
        self.gone = True
        return None


def _check_mode(mode: int) -> None:
    if mode & ~(3 | _wire.OTRUNC | _wire.ORCLOSE):
        raise NinepError(errors.ILLEGAL_MODE)


def _check_size(length: int) -> None:
    if length > FILE_BYTES:
        raise NinepError(f"file too large: at most {FILE_BYTES} bytes")


class _OpenPlain(OpenFile):
    """What is read: the content, or the entries as they were when they were last read from the start.

    Args:
        plain: what is open.
        remove: it is removed when the fid is gone.
    """

    __slots__ = ("_listing", "_plain", "_remove")

    def __init__(self, plain: Plain, *, remove: bool) -> None:
        super().__init__()
        self._plain = plain
        self._remove = remove
        self._listing: dict[int, bytes] = {}  # records by the offset they begin at, an empty one at the end

    def read(self, offset: int, count: int) -> bytes:
        """A piece, whole records of a directory."""
        if not self._plain.is_dir:
            return bytes(self._plain.data[offset : offset + count])
        if offset == 0:
            records = [entry.stat() for entry in self._plain.entries.values()]
            starts = itertools.accumulate(map(len, records), initial=0)
            self._listing = dict(zip(starts, [*records, b""], strict=True))
        if offset not in self._listing:
            raise NinepError(errors.BAD_DIRECTORY_OFFSET)
        piece = b""
        while record := self._listing[offset + len(piece)]:
            if len(piece) + len(record) > count:
                break
            piece += record
        if record and not piece:
            raise NinepError(errors.COUNT_TOO_SMALL)
        return piece

    def write(self, offset: int, data: bytes) -> int:
        """Replace and extend."""
        self._plain.write(offset, data)
        return len(data)

    def close(self, *, commit: bool) -> None:
        """Remove it if that was wanted; a Tremove, which comes right after, does so itself."""
        if not self._remove:
            return
        if commit:
            self._remove_now()
        else:
            asyncio.get_running_loop().call_soon(self._remove_now)

    def _remove_now(self) -> None:
        with contextlib.suppress(NinepError):  # somebody else has removed it, or closed its directory
            self._plain.remove()


class PlainServer(Server):
    """Serves such a tree.

    Attributes:
        top: its root.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(Tree((), None), _admit, **options)
        self.top = Plain("", _wire.DMDIR | 0o755, None, itertools.count(1))

    async def attach(self, conn: Conn, uname: str, aname: str, auth: AfidConversation | None, *, held: Held) -> Place:
        """The root, for everybody."""
        return self.top


async def _admit(_conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> Peer:
    return Peer(uname, aname, Role.USER)
