"""9P2000: which function handles which message."""

from ninep import _wire, errors
from ninep._session import attach, ending, io, walk
from ninep._session.session import Dialect, Handler, Session, greet
from ninep._wire import Buffer
from ninep.errors import NinepError


def _flush(session: Session, tag: int, data: Buffer, at: int, end: int) -> bytes | None:
    return session.flush(tag, *_wire.parse_tflush(data, at, end))


def _unknown(_session: Session, _tag: int, _data: Buffer, _at: int, _end: int) -> None:
    raise NinepError(errors.UNKNOWN_MESSAGE)


_HANDLERS: dict[int, Handler] = {
    _wire.TVERSION: greet,
    _wire.TAUTH: attach.auth,
    _wire.TATTACH: attach.attach,
    _wire.TFLUSH: _flush,
    _wire.TWALK: walk.walk,
    _wire.TOPEN: io.open_,
    _wire.TCREATE: io.create,
    _wire.TREAD: io.read,
    _wire.TWRITE: io.write,
    _wire.TCLUNK: ending.clunk,
    _wire.TREMOVE: ending.remove,
    _wire.TSTAT: io.stat,
    _wire.TWSTAT: io.wstat,
}

DIALECT = Dialect(_wire.VERSION, [_HANDLERS.get(kind, _unknown) for kind in range(256)])
