"""One frozen dataclass for each message of 9P2000, and the way from bytes to message and back.

`decode(encode(message)) == message`, and `encode(decode(frame)) == frame` for every frame that decodes.
Field names are the manual's.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar

from ninep import _wire
from ninep.errors import ProtocolError


@dataclass(frozen=True, slots=True)
class Qid:
    """The server's own identification of a file: type bits, version of the content, path."""

    type: int
    vers: int
    path: int

    def pack(self) -> bytes:
        """Its 13 bytes."""
        return _wire.QID.pack(self.type, self.vers, self.path)

    @classmethod
    def parse(cls, data: bytes) -> "Qid":
        """From 13 bytes."""
        return cls(*_wire.QID.unpack(data))


@dataclass(frozen=True, slots=True)
class Stat:
    """A directory entry, stat(5). The defaults are the "don't touch" values of Twstat: `Stat()` means commit."""

    type: int = _wire.MAX16
    dev: int = _wire.MAX32
    qid: Qid = Qid(0xFF, _wire.MAX32, _wire.MAX64)
    mode: int = _wire.MAX32
    atime: int = _wire.MAX32
    mtime: int = _wire.MAX32
    length: int = _wire.MAX64
    name: str = ""
    uid: str = ""
    gid: str = ""
    muid: str = ""

    @property
    def is_dir(self) -> bool:
        """Whether the entry is a directory."""
        return bool(self.mode & _wire.DMDIR)

    def pack(self) -> bytes:
        """The record with its leading size."""
        return _wire.pack_stat(
            self.type,
            self.dev,
            self.qid.pack(),
            self.mode,
            self.atime,
            self.mtime,
            self.length,
            self.name,
            self.uid,
            self.gid,
            self.muid,
        )

    @classmethod
    def parse(cls, data: bytes) -> "Stat":
        """From one whole record; ProtocolError when it is none."""
        return _stat(_wire.parse_stat(data, 0, len(data)))


def _stat(fields: _wire.StatFields) -> Stat:
    kind, dev, qid, *rest = fields
    return Stat(kind, dev, Qid.parse(qid), *rest)  # type: ignore[arg-type]  # a starred tail has no positions for mypy


def parse_directory(data: bytes) -> list[Stat]:
    """The entries that reads of a directory gave, whole records one after another."""
    at, entries = 0, []
    while at < len(data):
        end = _wire.stat_end(data, at, len(data))
        entries.append(_stat(_wire.parse_stat(data, at, end)))
        at = end
    return entries


@dataclass(frozen=True, slots=True)
class Message:
    """What all messages share: the type on the wire, and the tag."""

    type: ClassVar[int]
    tag: int


@dataclass(frozen=True, slots=True)
class Tversion(Message):
    """version(5): what the client offers, the first message of a connection."""

    type = _wire.TVERSION
    msize: int
    version: str


@dataclass(frozen=True, slots=True)
class Rversion(Message):
    """version(5): what both use from now on."""

    type = _wire.RVERSION
    msize: int
    version: str


@dataclass(frozen=True, slots=True)
class Tauth(Message):
    """attach(5): begin an authentication conversation on `afid`."""

    type = _wire.TAUTH
    afid: int
    uname: str
    aname: str


@dataclass(frozen=True, slots=True)
class Rauth(Message):
    """attach(5): the conversation is open for reading and writing."""

    type = _wire.RAUTH
    aqid: Qid


@dataclass(frozen=True, slots=True)
class Tattach(Message):
    """attach(5): introduce a user; `afid` is NOFID without authentication."""

    type = _wire.TATTACH
    fid: int
    afid: int
    uname: str
    aname: str


@dataclass(frozen=True, slots=True)
class Rattach(Message):
    """attach(5): the qid of the root."""

    type = _wire.RATTACH
    qid: Qid


@dataclass(frozen=True, slots=True)
class Rerror(Message):
    """error(5): the request failed."""

    type = _wire.RERROR
    ename: str


@dataclass(frozen=True, slots=True)
class Tflush(Message):
    """flush(5): forget the request with this tag."""

    type = _wire.TFLUSH
    oldtag: int


@dataclass(frozen=True, slots=True)
class Rflush(Message):
    """flush(5): nothing more comes for the old tag."""

    type = _wire.RFLUSH


@dataclass(frozen=True, slots=True)
class Twalk(Message):
    """walk(5): go from `fid` to `newfid` by at most 16 names."""

    type = _wire.TWALK
    fid: int
    newfid: int
    wname: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rwalk(Message):
    """walk(5): the qids of the names walked; fewer than asked means that newfid is unset."""

    type = _wire.RWALK
    wqid: tuple[Qid, ...]


@dataclass(frozen=True, slots=True)
class Topen(Message):
    """open(5): prepare a fid for reading or writing."""

    type = _wire.TOPEN
    fid: int
    mode: int


@dataclass(frozen=True, slots=True)
class Ropen(Message):
    """open(5): `iounit` 0 means msize - 24."""

    type = _wire.ROPEN
    qid: Qid
    iounit: int


@dataclass(frozen=True, slots=True)
class Tcreate(Message):
    """open(5): make a file in the directory `fid` and open it."""

    type = _wire.TCREATE
    fid: int
    name: str
    perm: int
    mode: int


@dataclass(frozen=True, slots=True)
class Rcreate(Message):
    """open(5): the new file is open."""

    type = _wire.RCREATE
    qid: Qid
    iounit: int


@dataclass(frozen=True, slots=True)
class Tread(Message):
    """read(5): at most `count` bytes at `offset`."""

    type = _wire.TREAD
    fid: int
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Rread(Message):
    """read(5): no data is the end of the file."""

    type = _wire.RREAD
    data: bytes


@dataclass(frozen=True, slots=True)
class Twrite(Message):
    """read(5): write `data` at `offset`."""

    type = _wire.TWRITE
    fid: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Rwrite(Message):
    """read(5): how many bytes were taken."""

    type = _wire.RWRITE
    count: int


@dataclass(frozen=True, slots=True)
class Tclunk(Message):
    """clunk(5): the fid is no longer needed."""

    type = _wire.TCLUNK
    fid: int


@dataclass(frozen=True, slots=True)
class Rclunk(Message):
    """clunk(5): the fid is free."""

    type = _wire.RCLUNK


@dataclass(frozen=True, slots=True)
class Tremove(Message):
    """remove(5): remove the file and clunk the fid."""

    type = _wire.TREMOVE
    fid: int


@dataclass(frozen=True, slots=True)
class Rremove(Message):
    """remove(5): both were done."""

    type = _wire.RREMOVE


@dataclass(frozen=True, slots=True)
class Tstat(Message):
    """stat(5): ask for the directory entry."""

    type = _wire.TSTAT
    fid: int


@dataclass(frozen=True, slots=True)
class Rstat(Message):
    """stat(5): the directory entry."""

    type = _wire.RSTAT
    stat: Stat


@dataclass(frozen=True, slots=True)
class Twstat(Message):
    """stat(5): change what is not a "don't touch" value."""

    type = _wire.TWSTAT
    fid: int
    stat: Stat


@dataclass(frozen=True, slots=True)
class Rwstat(Message):
    """stat(5): all changes were made."""

    type = _wire.RWSTAT


class _Codec:
    """How one type of message is packed and parsed: the class, and the two functions of `_wire`."""

    __slots__ = ("fields", "message", "pack", "parse")

    def __init__(
        self, message: type[Message], pack: Callable[..., bytes], parse: Callable[..., tuple[Any, ...]]
    ) -> None:
        self.message, self.pack, self.parse = message, pack, parse
        self.fields = [_FROM_WIRE.get(field.type, _same) for field in fields(message)[1:]]


def _same(value: Any) -> Any:
    return value


def _to_wire(value: Any) -> Any:
    if isinstance(value, Qid | Stat):
        return value.pack()
    return [_to_wire(item) for item in value] if isinstance(value, tuple) else value


_FROM_WIRE: dict[Any, Callable[[Any], Any]] = {
    Qid: Qid.parse,
    Stat: Stat.parse,
    tuple[Qid, ...]: lambda qids: tuple(map(Qid.parse, qids)),
    tuple[str, ...]: tuple,
}


def _codecs() -> dict[int, _Codec]:
    def of_kind(pack: Callable[..., bytes], message: type[Message]) -> Callable[..., bytes]:
        return partial(pack, message.type)

    rows = [_Codec(m, of_kind(_wire.pack_version, m), _wire.parse_version) for m in (Tversion, Rversion)]
    rows += [_Codec(m, of_kind(_wire.pack_empty, m), _wire.parse_empty) for m in (Rflush, Rclunk, Rremove, Rwstat)]
    rows += [_Codec(m, of_kind(_wire.pack_fid, m), _wire.parse_fid) for m in (Tclunk, Tremove, Tstat)]
    rows += [_Codec(m, of_kind(_wire.pack_qid_reply, m), _wire.parse_qid_reply) for m in (Rauth, Rattach)]
    rows += [_Codec(m, of_kind(_wire.pack_opened, m), _wire.parse_opened) for m in (Ropen, Rcreate)]
    rows += [
        _Codec(Tauth, _wire.pack_tauth, _wire.parse_tauth),
        _Codec(Tattach, _wire.pack_tattach, _wire.parse_tattach),
        _Codec(Rerror, _wire.pack_rerror, _wire.parse_rerror),
        _Codec(Tflush, _wire.pack_tflush, _wire.parse_tflush),
        _Codec(Twalk, _wire.pack_twalk, _wire.parse_twalk),
        _Codec(Rwalk, _wire.pack_rwalk, _wire.parse_rwalk),
        _Codec(Topen, _wire.pack_topen, _wire.parse_topen),
        _Codec(Tcreate, _wire.pack_tcreate, _wire.parse_tcreate),
        _Codec(Tread, _wire.pack_tread, _wire.parse_tread),
        _Codec(Rread, _wire.pack_rread, _wire.parse_rread),
        _Codec(Twrite, _wire.pack_twrite, _wire.parse_twrite),
        _Codec(Rwrite, _wire.pack_rwrite, _wire.parse_rwrite),
        _Codec(Rstat, _wire.pack_rstat, _wire.parse_rstat),
        _Codec(Twstat, _wire.pack_twstat, _wire.parse_twstat),
    ]
    return {row.message.type: row for row in rows}


_CODECS = _codecs()
MESSAGES: dict[str, type[Message]] = {codec.message.__name__: codec.message for codec in _CODECS.values()}


def encode(message: Message) -> bytes:
    """The whole message, size first. ValueError or struct.error when a field does not fit its place on the wire."""
    values = [_to_wire(getattr(message, field.name)) for field in fields(message)]
    return _CODECS[message.type].pack(*values)


def decode(frame: bytes) -> Message:
    """The message that `frame`, one whole message with its size, holds; ProtocolError when it is none."""
    if len(frame) < _wire.HEADER_BYTES or _wire.U32.unpack_from(frame)[0] != len(frame):
        raise ProtocolError("message and its size differ")
    kind, tag = _wire.parse_header(frame, 0)
    codec = _CODECS.get(kind)
    if codec is None:
        raise ProtocolError(f"message of unknown type {kind}")
    values = codec.parse(frame, 0, len(frame))
    return codec.message(tag, *(convert(value) for convert, value in zip(codec.fields, values, strict=True)))
