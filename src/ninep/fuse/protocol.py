"""The kernel's side of a mount: the messages of `/dev/fuse`, as tables.

Every request is an `IN_HEADER` and what its opcode says, every reply an `OUT_HEADER` and likewise; integers are in the
machine's byte order. One read(2) gives one whole request, one write(2) gives one whole reply. The names are those of
the kernel's `include/uapi/linux/fuse.h`, version 7.38, and each layout is checked against the size it has there.

Reserved fields are padding here: written as zeros, and not looked at.
"""

from struct import Struct
from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R", bound=tuple[Any, ...])

MAJOR, MINOR = 7, 38
OLDEST_MINOR = 23  # Linux 3.15: the reply to INIT has the size that it has now
ROOT_ID = 1
MIN_READ_BUFFER = 8192


class MalformedError(ValueError):
    """A message that is shorter than it says, or than its opcode wants."""


# Flags of INIT
ATOMIC_O_TRUNC = 1 << 3
BIG_WRITES = 1 << 5
AUTO_INVAL_DATA = 1 << 12
PARALLEL_DIROPS = 1 << 18
MAX_PAGES = 1 << 22

# Flags of the reply to OPEN
FOPEN_DIRECT_IO = 1 << 0
FOPEN_NOFLUSH = 1 << 5
FOPEN_PARALLEL_DIRECT_WRITES = 1 << 6

# What SETATTR changes
FATTR_MODE = 1 << 0
FATTR_UID = 1 << 1
FATTR_GID = 1 << 2
FATTR_SIZE = 1 << 3
FATTR_ATIME = 1 << 4
FATTR_MTIME = 1 << 5
FATTR_MTIME_NOW = 1 << 8

RENAME_NOREPLACE = 1 << 0


class InHeader(NamedTuple):
    """fuse_in_header. `pid` is a thread's, and 0 where it is not in the reader's PID namespace."""

    len: int
    opcode: int
    unique: int
    nodeid: int
    uid: int
    gid: int
    pid: int
    total_extlen: int


class OutHeader(NamedTuple):
    """fuse_out_header. `error` is 0 or a negative errno."""

    len: int
    error: int
    unique: int


class InitIn(NamedTuple):
    """The beginning of fuse_init_in, which older kernels end here."""

    major: int
    minor: int
    max_readahead: int
    flags: int


class InitOut(NamedTuple):
    """fuse_init_out."""

    major: int
    minor: int
    max_readahead: int
    flags: int
    max_background: int
    congestion_threshold: int
    max_write: int
    time_gran: int
    max_pages: int
    map_alignment: int
    flags2: int


class Attr(NamedTuple):
    """fuse_attr. `size` in bytes, `blocks` in 512 bytes, times in seconds and nanoseconds."""

    ino: int
    size: int
    blocks: int
    atime: int
    mtime: int
    ctime: int
    atimensec: int
    mtimensec: int
    ctimensec: int
    mode: int
    nlink: int
    uid: int
    gid: int
    rdev: int
    blksize: int
    flags: int


class EntryOut(NamedTuple):
    """fuse_entry_out up to its fuse_attr, which follows."""

    nodeid: int
    generation: int
    entry_valid: int
    attr_valid: int
    entry_valid_nsec: int
    attr_valid_nsec: int


class AttrOut(NamedTuple):
    """fuse_attr_out up to its fuse_attr, which follows."""

    attr_valid: int
    attr_valid_nsec: int


class SetattrIn(NamedTuple):
    """fuse_setattr_in. Only what `valid` names means something."""

    valid: int
    fh: int
    size: int
    lock_owner: int
    atime: int
    mtime: int
    ctime: int
    atimensec: int
    mtimensec: int
    ctimensec: int
    mode: int
    uid: int
    gid: int


class ForgetIn(NamedTuple):
    """fuse_forget_in: how many lookups of the node are taken back."""

    nlookup: int


class BatchForgetIn(NamedTuple):
    """fuse_batch_forget_in; as many ForgetOne follow."""

    nodes: int


class ForgetOne(NamedTuple):
    """fuse_forget_one."""

    nodeid: int
    nlookup: int


class OpenIn(NamedTuple):
    """fuse_open_in. `flags` are those of open(2)."""

    flags: int
    open_flags: int


class CreateIn(NamedTuple):
    """fuse_create_in; the name follows. `flags` are those of open(2), `mode` is without what the umask takes away."""

    flags: int
    mode: int
    umask: int
    open_flags: int


class MknodIn(NamedTuple):
    """fuse_mknod_in; the name follows. `mode` has the type, and is without what the umask takes away."""

    mode: int
    rdev: int
    umask: int


class MkdirIn(NamedTuple):
    """fuse_mkdir_in; the name follows. `mode` as in MknodIn."""

    mode: int
    umask: int


class OpenOut(NamedTuple):
    """fuse_open_out."""

    fh: int
    open_flags: int


class ReadIn(NamedTuple):
    """fuse_read_in."""

    fh: int
    offset: int
    size: int
    read_flags: int
    lock_owner: int
    flags: int


class WriteIn(NamedTuple):
    """fuse_write_in; `size` bytes follow."""

    fh: int
    offset: int
    size: int
    write_flags: int
    lock_owner: int
    flags: int


class WriteOut(NamedTuple):
    """fuse_write_out."""

    size: int


class ReleaseIn(NamedTuple):
    """fuse_release_in."""

    fh: int
    flags: int
    release_flags: int
    lock_owner: int


class FlushIn(NamedTuple):
    """fuse_flush_in."""

    fh: int
    lock_owner: int


class FsyncIn(NamedTuple):
    """fuse_fsync_in."""

    fh: int
    fsync_flags: int


class AccessIn(NamedTuple):
    """fuse_access_in. `mask` as of access(2)."""

    mask: int


class InterruptIn(NamedTuple):
    """fuse_interrupt_in: which request its caller waits for no longer."""

    unique: int


class RenameIn(NamedTuple):
    """fuse_rename_in; the old and the new name follow."""

    newdir: int


class Rename2In(NamedTuple):
    """fuse_rename2_in; the old and the new name follow."""

    newdir: int
    flags: int


class StatfsOut(NamedTuple):
    """fuse_statfs_out."""

    blocks: int
    bfree: int
    bavail: int
    files: int
    ffree: int
    bsize: int
    namelen: int
    frsize: int


class Dirent(NamedTuple):
    """fuse_dirent; the name follows, padded to 8 bytes. `off` is where the next entry is."""

    ino: int
    off: int
    namelen: int
    type: int


class Layout(Generic[R]):
    """How one structure lies in memory.

    Args:
        record: its fields that mean something.
        fields: the format of `struct`, reserved fields as padding.
        size: its size in the kernel's header, in bytes.
    """

    __slots__ = ("_record", "_struct", "size")

    def __init__(self, record: type[R], fields: str, size: int) -> None:
        self._record = record
        self._struct = Struct("=" + fields)
        self.size = self._struct.size
        assert self.size == size, f"{record.__name__} has {self.size} bytes, not {size}"

    def pack(self, record: R) -> bytes:
        """Its bytes; struct.error when a field is too large."""
        return self._struct.pack(*record)

    def parse(self, data: bytes | memoryview, at: int = 0) -> R:
        """From `data[at:]`; MalformedError where that is too short."""
        if len(data) - at < self.size:
            raise MalformedError(f"{self._record.__name__} of {len(data) - at} bytes, {self.size} expected")
        return self._record(*self._struct.unpack_from(data, at))


IN_HEADER = Layout(InHeader, "IIQQIIIH2x", 40)
OUT_HEADER = Layout(OutHeader, "IiQ", 16)
INIT_IN = Layout(InitIn, "IIII", 16)
INIT_OUT = Layout(InitOut, "IIIIHHIIHHI28x", 64)
ATTR = Layout(Attr, "QQQQQQIIIIIIIIII", 88)
ENTRY_OUT = Layout(EntryOut, "QQQQII", 128 - ATTR.size)
ATTR_OUT = Layout(AttrOut, "QI4x", 104 - ATTR.size)
SETATTR_IN = Layout(SetattrIn, "I4xQQQQQQIIII4xII4x", 88)
FORGET_IN = Layout(ForgetIn, "Q", 8)
BATCH_FORGET_IN = Layout(BatchForgetIn, "I4x", 8)
FORGET_ONE = Layout(ForgetOne, "QQ", 16)
OPEN_IN = Layout(OpenIn, "II", 8)
CREATE_IN = Layout(CreateIn, "IIII", 16)
MKNOD_IN = Layout(MknodIn, "III4x", 16)
MKDIR_IN = Layout(MkdirIn, "II", 8)
OPEN_OUT = Layout(OpenOut, "QI4x", 16)
READ_IN = Layout(ReadIn, "QQIIQI4x", 40)
WRITE_IN = Layout(WriteIn, "QQIIQI4x", 40)
WRITE_OUT = Layout(WriteOut, "I4x", 8)
RELEASE_IN = Layout(ReleaseIn, "QIIQ", 24)
FLUSH_IN = Layout(FlushIn, "Q8xQ", 24)
FSYNC_IN = Layout(FsyncIn, "QI4x", 16)
ACCESS_IN = Layout(AccessIn, "I4x", 8)
INTERRUPT_IN = Layout(InterruptIn, "Q", 8)
RENAME_IN = Layout(RenameIn, "Q", 8)
RENAME2_IN = Layout(Rename2In, "QI4x", 16)
STATFS_OUT = Layout(StatfsOut, "QQQQQIII28x", 80)
DIRENT = Layout(Dirent, "QQII", 24)


def pack_dirent(ino: int, off: int, kind: int, name: bytes) -> bytes:
    """A directory entry with its name; `kind` is the file type of a mode, shifted as readdir(3) has it."""
    pad = -len(name) % 8
    return DIRENT.pack(Dirent(ino, off, len(name), kind)) + name + bytes(pad)


def parse_names(data: bytes, at: int, count: int) -> list[str]:
    """The names that end a request, each with a NUL; bytes that are no UTF-8 become lone surrogates."""
    names = data[at:].split(b"\0", count)
    if len(names) != count + 1:
        raise MalformedError(f"{len(names) - 1} names, {count} expected")
    return [name.decode("utf-8", "surrogateescape") for name in names[:count]]
