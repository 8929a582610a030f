"""The layout of 9P2000 on the wire: packing and parsing, nothing else.

Every message is `size[4] type[1] tag[2] fields…`, integers little-endian, strings `length[2] bytes` in UTF-8, as
intro(5) has it. Bytes that are no UTF-8 travel through `str` as lone surrogates (`surrogateescape`), so that parsing
loses nothing and the layer above decides what to refuse.

`pack_*` functions give one whole message. `parse_*` functions take `(data, at, end)`: `data[at:end]` is one whole
message whose size field is `end - at`. They give its fields without the tag and raise `ProtocolError` when the fields
do not end exactly at `end`. A qid is its 13 bytes here, a stat its record with the leading size.

This module imports nothing that is slow to load: the blocking client of command lines is built on it alone.
"""

from struct import Struct

from ninep.errors import ProtocolError

TVERSION, RVERSION = 100, 101
TAUTH, RAUTH = 102, 103
TATTACH, RATTACH = 104, 105
RERROR = 107
TFLUSH, RFLUSH = 108, 109
TWALK, RWALK = 110, 111
TOPEN, ROPEN = 112, 113
TCREATE, RCREATE = 114, 115
TREAD, RREAD = 116, 117
TWRITE, RWRITE = 118, 119
TCLUNK, RCLUNK = 120, 121
TREMOVE, RREMOVE = 122, 123
TSTAT, RSTAT = 124, 125
TWSTAT, RWSTAT = 126, 127

VERSION = "9P2000"
VERSION_UNKNOWN = "unknown"

NOTAG = 0xFFFF
NOFID = 0xFFFF_FFFF
MAX16, MAX32, MAX64 = 0xFFFF, 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF

OREAD, OWRITE, ORDWR, OEXEC = 0, 1, 2, 3
OTRUNC, ORCLOSE = 0x10, 0x40

QTDIR, QTAPPEND, QTEXCL, QTAUTH, QTTMP, QTFILE = 0x80, 0x40, 0x20, 0x08, 0x04, 0x00
DMDIR, DMAPPEND, DMEXCL, DMAUTH, DMTMP = 0x8000_0000, 0x4000_0000, 0x2000_0000, 0x0800_0000, 0x0400_0000

MAXWELEM = 16
HEADER_BYTES = 7
IO_HEADER_BYTES = 24  # what Tread and Twrite may need beside the data; msize - 24 is the largest payload
MIN_MSIZE = 256

U16 = Struct("<H")
U32 = Struct("<I")
HEADER = Struct("<IBH")
QID = Struct("<BIQ")
LAYOUT_32 = Struct("<IBHI")  # one fid or count after the header
LAYOUT_16 = Struct("<IBHH")  # one tag or length after the header
LAYOUT_QID = Struct("<IBH13s")
LAYOUT_OPENED = Struct("<IBH13sI")
LAYOUT_TWALK = Struct("<IBHIIH")
LAYOUT_TOPEN = Struct("<IBHIB")
LAYOUT_TREAD = Struct("<IBHIQI")
LAYOUT_TATTACH = Struct("<IBHII")
LAYOUT_TWSTAT = Struct("<IBHIH")
STAT = Struct("<HHI13sIIIQ")

# Of the messages that come most often, the fields after the header.
_FID = Struct("<7xI")
_TWALK = Struct("<7xIIH")
_TOPEN = Struct("<7xIB")
_TREAD = Struct("<7xIQI")

Buffer = bytes | bytearray | memoryview


# Primitive fields


def pack_string(text: str) -> bytes:
    """The string with its length; ValueError above 65535 bytes."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > MAX16:
        raise ValueError("string is longer than 65535 bytes")
    return U16.pack(len(data)) + data


def parse_string(data: Buffer, at: int, end: int) -> tuple[str, int]:
    """The string at `at` and where it ends."""
    start = at + 2
    if start > end:
        raise ProtocolError("string runs past the end of its message")
    stop = start + U16.unpack_from(data, at)[0]
    if stop > end:
        raise ProtocolError("string runs past the end of its message")
    return str(data[start:stop], "utf-8", "surrogateescape"), stop


def message_end(data: Buffer, at: int, limit_bytes: int) -> int:
    """Where the message at `at` ends, 0 when not even its size is there yet; ProtocolError for an impossible size."""
    if len(data) - at < 4:
        return 0
    size: int = U32.unpack_from(data, at)[0]
    if size < HEADER_BYTES:
        raise ProtocolError(f"message of {size} bytes is shorter than its header")
    if size > limit_bytes:
        raise ProtocolError(f"message of {size} bytes is longer than the msize of {limit_bytes}")
    return at + size


def parse_header(data: Buffer, at: int) -> tuple[int, int]:
    """Type and tag of the message at `at`."""
    _, kind, tag = HEADER.unpack_from(data, at)
    return kind, tag


def _frame(kind: int, tag: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER_BYTES + len(body), kind, tag) + body


def _wrong_size(data: Buffer, at: int, end: int, size: int) -> ProtocolError:
    return ProtocolError(f"message of type {data[at + 4]} has {end - at} bytes instead of {size}")


def _fits(layout: Struct, data: Buffer, at: int, end: int) -> tuple[int, ...]:
    """The fields of a message whose layout is `layout` and nothing else."""
    if end - at != layout.size:
        raise _wrong_size(data, at, end, layout.size)
    return layout.unpack_from(data, at)


def _starts(layout: Struct, data: Buffer, at: int, end: int) -> tuple[int, ...]:
    """The leading fixed fields of a message that goes on after them."""
    if end - at < layout.size:
        raise ProtocolError(f"message of type {data[at + 4]} is cut short")
    return layout.unpack_from(data, at)


def _ends(at: int, end: int) -> None:
    if at < end:
        raise ProtocolError(f"{end - at} bytes are left over at the end of a message")
    if at > end:
        raise ProtocolError(f"a message ends {at - end} bytes too early")


# Messages without fields, and with one fid or tag


def pack_empty(kind: int, tag: int) -> bytes:
    """Rflush, Rclunk, Rremove, Rwstat."""
    return HEADER.pack(HEADER_BYTES, kind, tag)


def parse_empty(data: Buffer, at: int, end: int) -> tuple[()]:
    """Rflush, Rclunk, Rremove, Rwstat: no fields."""
    _fits(HEADER, data, at, end)
    return ()


def pack_fid(kind: int, tag: int, fid: int) -> bytes:
    """Tclunk, Tremove, Tstat."""
    return LAYOUT_32.pack(11, kind, tag, fid)


def parse_fid(data: Buffer, at: int, end: int) -> tuple[int]:
    """Tclunk, Tremove, Tstat: the fid."""
    if end - at != 11:
        raise _wrong_size(data, at, end, 11)
    return _FID.unpack_from(data, at)


def pack_tflush(tag: int, oldtag: int) -> bytes:
    """flush(5)."""
    return LAYOUT_16.pack(9, TFLUSH, tag, oldtag)


def parse_tflush(data: Buffer, at: int, end: int) -> tuple[int]:
    """The old tag."""
    return (_fits(LAYOUT_16, data, at, end)[3],)


# Greeting and errors: the pages version, attach and error of section 5


def pack_version(kind: int, tag: int, msize: int, version: str) -> bytes:
    """Tversion and Rversion."""
    return _frame(kind, tag, U32.pack(msize) + pack_string(version))


def parse_version(data: Buffer, at: int, end: int) -> tuple[int, str]:
    """Tversion and Rversion: msize and version."""
    msize = _starts(LAYOUT_32, data, at, end)[3]
    version, at = parse_string(data, at + 11, end)
    _ends(at, end)
    return msize, version


def pack_tauth(tag: int, afid: int, uname: str, aname: str) -> bytes:
    """The message auth of attach(5)."""
    return _frame(TAUTH, tag, U32.pack(afid) + pack_string(uname) + pack_string(aname))


def parse_tauth(data: Buffer, at: int, end: int) -> tuple[int, str, str]:
    """The afid, uname, aname."""
    afid = _starts(LAYOUT_32, data, at, end)[3]
    uname, at = parse_string(data, at + 11, end)
    aname, at = parse_string(data, at, end)
    _ends(at, end)
    return afid, uname, aname


def pack_tattach(tag: int, fid: int, afid: int, uname: str, aname: str) -> bytes:
    """attach(5); `afid` is NOFID without authentication."""
    return _frame(TATTACH, tag, U32.pack(fid) + U32.pack(afid) + pack_string(uname) + pack_string(aname))


def parse_tattach(data: Buffer, at: int, end: int) -> tuple[int, int, str, str]:
    """The fid, afid, uname, aname."""
    _, _, _, fid, afid = _starts(LAYOUT_TATTACH, data, at, end)
    uname, at = parse_string(data, at + 15, end)
    aname, at = parse_string(data, at, end)
    _ends(at, end)
    return fid, afid, uname, aname


def pack_qid_reply(kind: int, tag: int, qid: bytes) -> bytes:
    """Rauth and Rattach."""
    return LAYOUT_QID.pack(20, kind, tag, qid)


def parse_qid_reply(data: Buffer, at: int, end: int) -> tuple[bytes]:
    """Rauth and Rattach: the qid."""
    _fits(LAYOUT_QID, data, at, end)
    return (bytes(data[at + 7 : end]),)


def pack_rerror(tag: int, ename: str) -> bytes:
    """error(5)."""
    return _frame(RERROR, tag, pack_string(ename))


def parse_rerror(data: Buffer, at: int, end: int) -> tuple[str]:
    """The ename."""
    ename, at = parse_string(data, at + 7, end)
    _ends(at, end)
    return (ename,)


# Walking: the page walk


def pack_twalk(tag: int, fid: int, newfid: int, names: list[str]) -> bytes:
    """At most 16 names; none clones the fid."""
    body = b"".join(map(pack_string, names))
    return LAYOUT_TWALK.pack(17 + len(body), TWALK, tag, fid, newfid, len(names)) + body


def split_twalk(data: Buffer, at: int, end: int) -> tuple[int, int, int, Buffer]:
    """The fid, newfid and the arguments of `parse_names`."""
    if end - at < 17:
        raise _wrong_size(data, at, end, 17)
    fid, newfid, count = _TWALK.unpack_from(data, at)
    return fid, newfid, count, data[at + 17 : end]


def parse_names(count: int, packed: Buffer) -> tuple[str, ...]:
    """The names of a Twalk, however many; nothing else is in `packed`."""
    at, end = 0, len(packed)
    names = []
    for _ in range(count):
        name, at = parse_string(packed, at, end)
        names.append(name)
    _ends(at, end)
    return tuple(names)


def parse_twalk(data: Buffer, at: int, end: int) -> tuple[int, int, tuple[str, ...]]:
    """The fid, newfid and the names, however many."""
    fid, newfid, count, packed = split_twalk(data, at, end)
    return fid, newfid, parse_names(count, packed)


def pack_rwalk(tag: int, qids: list[bytes]) -> bytes:
    """One qid for each name that was walked."""
    return LAYOUT_16.pack(9 + 13 * len(qids), RWALK, tag, len(qids)) + b"".join(qids)


def parse_rwalk(data: Buffer, at: int, end: int) -> tuple[list[bytes]]:
    """The qids."""
    count = _starts(LAYOUT_16, data, at, end)[3]
    at += 9
    _ends(at + 13 * count, end)
    return ([bytes(data[start : start + 13]) for start in range(at, end, 13)],)


# Opening and creating: the page open


def pack_topen(tag: int, fid: int, mode: int) -> bytes:
    """`mode` is OREAD, OWRITE, ORDWR or OEXEC with OTRUNC and ORCLOSE."""
    return LAYOUT_TOPEN.pack(12, TOPEN, tag, fid, mode)


def parse_topen(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """The fid and mode."""
    if end - at != 12:
        raise _wrong_size(data, at, end, 12)
    return _TOPEN.unpack_from(data, at)


def pack_opened(kind: int, tag: int, qid: bytes, iounit: int) -> bytes:
    """Ropen and Rcreate."""
    return LAYOUT_OPENED.pack(24, kind, tag, qid, iounit)


def parse_opened(data: Buffer, at: int, end: int) -> tuple[bytes, int]:
    """Ropen and Rcreate: qid and iounit."""
    iounit = _fits(LAYOUT_OPENED, data, at, end)[4]
    return bytes(data[at + 7 : at + 20]), iounit


def pack_tcreate(tag: int, fid: int, name: str, perm: int, mode: int) -> bytes:
    """`perm` with DMDIR makes a directory."""
    return _frame(TCREATE, tag, U32.pack(fid) + pack_string(name) + U32.pack(perm) + bytes((mode,)))


def parse_tcreate(data: Buffer, at: int, end: int) -> tuple[int, str, int, int]:
    """The fid, name, perm, mode."""
    fid = _starts(LAYOUT_32, data, at, end)[3]
    name, at = parse_string(data, at + 11, end)
    _ends(at + 5, end)
    return fid, name, U32.unpack_from(data, at)[0], data[at + 4]


# Data: the page read


def pack_tread(tag: int, fid: int, offset: int, count: int) -> bytes:
    """Ask for at most `count` bytes at `offset`."""
    return LAYOUT_TREAD.pack(23, TREAD, tag, fid, offset, count)


def parse_tread(data: Buffer, at: int, end: int) -> tuple[int, int, int]:
    """The fid, offset, count."""
    if end - at != 23:
        raise _wrong_size(data, at, end, 23)
    return _TREAD.unpack_from(data, at)


def pack_rread(tag: int, payload: bytes) -> bytes:
    """Data read; empty is the end of the file."""
    return LAYOUT_32.pack(11 + len(payload), RREAD, tag, len(payload)) + payload


def parse_rread(data: Buffer, at: int, end: int) -> tuple[bytes]:
    """The data."""
    count = _starts(LAYOUT_32, data, at, end)[3]
    _ends(at + 11 + count, end)
    return (bytes(data[at + 11 : end]),)


def pack_twrite(tag: int, fid: int, offset: int, payload: bytes) -> bytes:
    """Data to write at `offset`."""
    return LAYOUT_TREAD.pack(23 + len(payload), TWRITE, tag, fid, offset, len(payload)) + payload


def parse_twrite(data: Buffer, at: int, end: int) -> tuple[int, int, bytes]:
    """The fid, offset, data."""
    size = end - at
    if size < 23:
        raise _wrong_size(data, at, end, 23)
    fid, offset, count = _TREAD.unpack_from(data, at)
    if size != 23 + count:
        raise _wrong_size(data, at, end, 23 + count)
    return fid, offset, bytes(data[at + 23 : end])


def pack_rwrite(tag: int, count: int) -> bytes:
    """How many bytes were written."""
    return LAYOUT_32.pack(11, RWRITE, tag, count)


def parse_rwrite(data: Buffer, at: int, end: int) -> tuple[int]:
    """The count."""
    return (_fits(LAYOUT_32, data, at, end)[3],)


# Directory entries: the page stat


def pack_rstat(tag: int, stat: bytes) -> bytes:
    """`stat` is a whole record; the message carries its length once more."""
    return LAYOUT_16.pack(9 + len(stat), RSTAT, tag, len(stat)) + stat


def parse_rstat(data: Buffer, at: int, end: int) -> tuple[bytes]:
    """The stat record."""
    count = _starts(LAYOUT_16, data, at, end)[3]
    _ends(at + 9 + count, end)
    return (bytes(data[at + 9 : end]),)


def pack_twstat(tag: int, fid: int, stat: bytes) -> bytes:
    """`stat` is a whole record; see `NULL_STAT`."""
    return LAYOUT_TWSTAT.pack(13 + len(stat), TWSTAT, tag, fid, len(stat)) + stat


def parse_twstat(data: Buffer, at: int, end: int) -> tuple[int, bytes]:
    """The fid and the stat record."""
    _, _, _, fid, count = _starts(LAYOUT_TWSTAT, data, at, end)
    _ends(at + 13 + count, end)
    return fid, bytes(data[at + 13 : end])


StatFields = tuple[int, int, bytes, int, int, int, int, str, str, str, str]


def pack_stat(  # noqa: PLR0917  the fields of the record, in their order
    kind: int,
    dev: int,
    qid: bytes,
    mode: int,
    atime: int,
    mtime: int,
    length: int,
    name: str,
    uid: str,
    gid: str,
    muid: str,
) -> bytes:
    """A directory entry with its leading size; `kind` is the field `type`. ValueError above 65535 bytes."""
    strings = pack_string(name) + pack_string(uid) + pack_string(gid) + pack_string(muid)
    return pack_record(kind, dev, qid, mode, atime, mtime, length, strings)


def pack_record(  # noqa: PLR0917  the fields of the record, in their order
    kind: int, dev: int, qid: bytes, mode: int, atime: int, mtime: int, length: int, strings: bytes
) -> bytes:
    """The same with the four strings packed."""
    size = 39 + len(strings)
    if size > MAX16 - 2:
        raise ValueError("stat record is longer than 65535 bytes")
    return STAT.pack(size, kind, dev, qid, mode, atime, mtime, length) + strings


def stat_end(data: Buffer, at: int, end: int) -> int:
    """Where the stat record at `at` ends, for the records of a directory read."""
    if end - at < STAT.size or at + 2 + U16.unpack_from(data, at)[0] > end:
        raise ProtocolError("stat record is cut short")
    return at + 2 + int(U16.unpack_from(data, at)[0])


def parse_stat(data: Buffer, at: int, end: int) -> StatFields:
    """The fields of the record `data[at:end]`, in the order in which `pack_stat` takes them."""
    if stat_end(data, at, end) != end:
        raise ProtocolError("stat record and its size differ")
    _, kind, dev, qid, mode, atime, mtime, length = STAT.unpack_from(data, at)
    name, at = parse_string(data, at + STAT.size, end)
    uid, at = parse_string(data, at, end)
    gid, at = parse_string(data, at, end)
    muid, at = parse_string(data, at, end)
    _ends(at, end)
    return kind, dev, qid, mode, atime, mtime, length, name, uid, gid, muid


NULL_QID = b"\xff" * 13
NULL_STAT = pack_stat(MAX16, MAX32, NULL_QID, MAX32, MAX32, MAX32, MAX64, "", "", "", "")  # Twstat: commit
