"""Topen, Tcreate, Tread, Twrite, Tstat, Twstat: what is done with a file."""

from functools import partial
from typing import TYPE_CHECKING

from ninep import _wire, errors
from ninep._session.fids import FAILED, ROPENS, Fid
from ninep._session.interface import OpenFile, Place, check_name
from ninep._session.request import Request
from ninep._session.session import Session
from ninep._wire import Buffer
from ninep.errors import NinepError

if TYPE_CHECKING:
    from collections.abc import Awaitable

_DATA = (bytes, memoryview)
# With so many requests outstanding a read gives little, so that replies that come all at once cannot fill memory.
_MANY = 256
_LITTLE_BYTES = 4096


def open_(session: Session, tag: int, data: Buffer, at: int, end: int) -> bytes | None:
    """Topen."""
    number, mode = _wire.parse_topen(data, at, end)
    fid = session.fids.use(number, _wire.TOPEN)
    place = fid.place
    assert place is not None
    try:
        file = place.open(mode, session.iounit)
        if isinstance(file, OpenFile):
            return _opened(session, tag, _wire.ROPEN, fid, mode, (place, file))
    except BaseException:  # whatever it is: `use` has moved the fid, which would stay between two states for good
        session.fids.turn(fid, _wire.TOPEN | FAILED)
        raise
    reply = partial(_opened_here, session, tag, fid, mode)
    session.run(Request(tag, reply, fid=fid, target=fid, kind=_wire.TOPEN), file)
    return None


def create(session: Session, tag: int, data: Buffer, at: int, end: int) -> None:
    """Tcreate; the fid becomes the new file, open."""
    number, name, perm, mode = _wire.parse_tcreate(data, at, end)
    fid = session.fids.use(number, _wire.TCREATE)
    assert fid.place is not None
    try:
        if not fid.place.is_dir:
            raise NinepError(errors.NOT_DIRECTORY)
        check_name(name)
        creating = fid.place.create(name, perm, mode, session.iounit)
    except BaseException:  # as in `open_`
        session.fids.turn(fid, _wire.TCREATE | FAILED)
        raise
    reply = partial(_opened, session, tag, _wire.RCREATE, fid, mode)
    session.run(Request(tag, reply, fid=fid, target=fid, kind=_wire.TCREATE), creating)


def _opened_here(session: Session, tag: int, fid: Fid, mode: int, file: OpenFile) -> bytes:
    assert fid.place is not None
    return _opened(session, tag, _wire.ROPEN, fid, mode, (fid.place, file))


def _opened(  # noqa: PLR0917  a partial leaves what was opened last
    session: Session, tag: int, kind: int, fid: Fid, mode: int, opened: tuple[Place, OpenFile]
) -> bytes:
    place, file = opened
    try:
        reply = _wire.pack_opened(kind, tag, place.qid(), session.iounit)
    except BaseException:  # whatever it is, no fid has the file to close it later
        session.close_silently(file)
        raise
    fid.place, fid.file = opened
    session.fids.turn(fid, ROPENS[mode & 3])
    return reply


def read(session: Session, tag: int, data: Buffer, at: int, end: int) -> Buffer | None:
    """Tread; the count is clamped to what a message may carry, and to less where much may come at once."""
    number, offset, count = _wire.parse_tread(data, at, end)
    fid = session.fids.use(number, _wire.TREAD)
    file = fid.file
    assert file is not None
    most = session.iounit if len(session.requests) < _MANY else _LITTLE_BYTES
    count = count if count < most else most  # noqa: FURB136  `min` takes much longer
    content = file.read(offset, count)
    if isinstance(content, _DATA):
        return session.rread(tag, file, count, content)
    session.run(Request(tag, partial(session.rread, tag, file, count), fid=fid), content)
    return None


def write(session: Session, tag: int, data: Buffer, at: int, end: int) -> bytes | None:
    """Twrite."""
    number, offset, content = _wire.parse_twrite(data, at, end)
    fid = session.fids.use(number, _wire.TWRITE)
    file = fid.file
    assert file is not None
    size = len(content)
    if session.written_bytes + size > session.limits.written_bytes:
        raise NinepError(errors.TOO_MANY_BYTES)
    count = file.write(offset, content)
    if isinstance(count, int):
        return _wire.pack_rwrite(tag, count)
    session.run(Request(tag, partial(_wire.pack_rwrite, tag), fid=fid, written_bytes=size), count)
    return None


def stat(session: Session, tag: int, data: Buffer, at: int, end: int) -> bytes:
    """Tstat."""
    (number,) = _wire.parse_fid(data, at, end)
    fid = session.fids.use(number, _wire.TSTAT)
    assert fid.place is not None
    return _wire.pack_rstat(tag, fid.place.stat())


def wstat(session: Session, tag: int, data: Buffer, at: int, end: int) -> bytes | None:
    """Twstat; one that changes nothing commits what was written."""
    number, record = _wire.parse_twstat(data, at, end)
    _wire.parse_stat(record, 0, len(record))
    fid = session.fids.use(number, _wire.TWSTAT)
    assert fid.place is not None
    work: Awaitable[None] | None = None
    if record != _wire.NULL_STAT:
        work = fid.place.wstat(record)
    elif fid.file is not None:
        work = fid.file.commit()
    if work is None:
        return _changed(tag, None)
    session.run(Request(tag, partial(_changed, tag), fid=fid), work)
    return None


def _changed(tag: int, _nothing: None) -> bytes:
    return _wire.pack_empty(_wire.RWSTAT, tag)
