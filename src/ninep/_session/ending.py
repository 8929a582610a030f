"""Tclunk and Tremove: the end of a fid.

What runs on behalf of the fid is cancelled first. Only when it has ended is the file closed, which commits what was
written, and only with the reply the number becomes free.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from ninep import _wire, errors
from ninep._session.fids import FAILED, Fid
from ninep._session.request import Request
from ninep._session.session import Session
from ninep._wire import Buffer
from ninep.errors import NinepError

_Work = Callable[[Session, Fid], Awaitable[None] | None]


def clunk(session: Session, tag: int, data: Buffer, at: int, end: int) -> bytes | None:
    """Tclunk."""
    (number,) = _wire.parse_fid(data, at, end)
    return _end(session, tag, _wire.TCLUNK, _clunk, number)


def remove(session: Session, tag: int, data: Buffer, at: int, end: int) -> bytes | None:
    """Tremove; the fid is gone even when the file cannot be removed."""
    (number,) = _wire.parse_fid(data, at, end)
    return _end(session, tag, _wire.TREMOVE, _remove, number)


def _end(session: Session, tag: int, kind: int, work: _Work, number: int) -> bytes | None:
    fid = session.fids.use(number, kind)
    if fid.requests:
        _work_later(session, tag, kind, fid, work)
        return None
    try:
        working = work(session, fid)
    except BaseException:  # whatever it is: `use` has moved the fid, which would stay between two states for good
        session.fids.turn(fid, kind | FAILED)
        raise
    if working is None:
        return _ended(session, tag, kind, fid, None)
    session.run(_request(session, tag, kind, fid), working)
    return None


def _work_later(session: Session, tag: int, kind: int, fid: Fid, work: _Work) -> None:
    """Once everything that runs for the fid has ended."""
    request = _request(session, tag, kind, fid)
    session.enter(request)
    fid.ending = partial(_work_now, session, request, fid, work)
    for running in list(fid.requests or ()):
        session.cancel(running)


def _request(session: Session, tag: int, kind: int, fid: Fid) -> Request:
    return Request(tag, partial(_ended, session, tag, kind, fid), target=fid, kind=kind)


def _work_now(session: Session, request: Request, fid: Fid, work: _Work) -> None:
    try:
        working = work(session, fid)
    except Exception as error:  # noqa: BLE001  it becomes the reply, and is logged there
        session.finish(request, None, error)
        return
    if working is None:
        session.finish(request, None, None)
    else:
        session.run(request, working)


def _ended(session: Session, tag: int, kind: int, fid: Fid, _nothing: None) -> bytes:
    session.fids.turn(fid, kind + 1)
    return _wire.pack_empty(kind + 1, tag)


def _clunk(session: Session, fid: Fid) -> Awaitable[None] | None:
    """Close the file and commit what was written; whoever keeps the errors is told as well."""
    file, fid.file = fid.file, None
    if file is None:
        return None
    try:
        closing = file.close(commit=True)
    except NinepError as error:
        _failed(session, fid, error)
        raise
    return None if closing is None else _committing(session, fid, closing)


async def _committing(session: Session, fid: Fid, closing: Awaitable[None]) -> None:
    try:
        await closing
    except NinepError as error:
        _failed(session, fid, error)
        raise


def _failed(session: Session, fid: Fid, error: NinepError) -> None:
    if fid.place is not None:
        session.driver.failed(fid.place, error)


async def _remove(_session: Session, fid: Fid) -> None:
    file, fid.file = fid.file, None
    closing = None if file is None else file.close(commit=False)
    if closing is not None:
        await closing
    if fid.place is None:
        raise NinepError(errors.AFID_MISUSED)
    removing = fid.place.remove()
    if removing is not None:
        await removing
