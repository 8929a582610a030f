"""Twalk: from fid to newfid, name by name."""

from functools import lru_cache, partial

from ninep import _wire, errors
from ninep._session.fids import FAILED, PLACED, TMOVE, Fid
from ninep._session.interface import Walked
from ninep._session.request import Request
from ninep._session.session import Session
from ninep._wire import Buffer
from ninep.errors import NinepError

_NAMES_BYTES = 256
_known_names = lru_cache(maxsize=1024)(_wire.parse_names)  # clients walk the same few paths again and again


def walk(session: Session, tag: int, data: Buffer, at: int, end: int) -> bytes | None:
    """Twalk."""
    number, newnumber, count, packed = _wire.split_twalk(data, at, end)
    fids = session.fids
    fid = fids.use(number, TMOVE if newnumber == number and count else _wire.TWALK)
    place = fid.place
    assert place is not None
    if count > _wire.MAXWELEM:
        raise NinepError(errors.TOO_MANY_NAMES)
    if newnumber != number:
        fids.check_free(newnumber)
    if isinstance(packed, bytes) and len(packed) <= _NAMES_BYTES:
        names = _known_names(count, packed)
    else:
        names = _wire.parse_names(count, packed)
    walked = place.walk(names)
    if not isinstance(walked, tuple):
        target = None if newnumber == number else fids.reserve(newnumber)
        reply = partial(_walked, session, tag, fid, target, count)
        session.run(Request(tag, reply, fid=fid, target=target, kind=_wire.TWALK), walked)
        return None
    place, qids = walked
    if newnumber == number or len(qids) < count:
        return _walked(session, tag, fid, None, count, walked)
    fids[newnumber] = Fid(newnumber, PLACED, place)
    return _wire.pack_rwalk(tag, qids)


def _walked(  # noqa: PLR0917  a partial leaves the result last
    session: Session, tag: int, fid: Fid, newfid: Fid | None, count: int, walked: Walked
) -> bytes:
    """Only a walk of all names changes newfid; without a newfid it is `fid` itself."""
    place, qids = walked
    whole = len(qids) == count
    if newfid is not None:
        newfid.place = place
        session.fids.turn(newfid, _wire.RWALK if whole else _wire.TWALK | FAILED)
    elif whole and qids:
        session.fids.use(fid.number, TMOVE).place = place  # it may be open or on its way out by now
    return _wire.pack_rwalk(tag, qids)
