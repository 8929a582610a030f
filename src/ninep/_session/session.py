"""The server's protocol state of one connection: tags, flush, msize. It does no I/O and waits for nothing.

The driver hands in what has come (`process`), writes `output` and then says so (`sent`). What
a tree can answer at once is answered within `process`. What has to wait is a `Request`: the driver runs it, and
`finish` is called in the step that ends it. What happens to a fid is in its tables (`fids.py`): it moves when a message
comes and when the reply is made, nowhere else.

How a message is handled is not here but in a dialect: its version, and a table with a handler for each type of message.

Rules that are easy to get wrong, and where they are kept:

* Rflush comes when the flushed request has really ended, and after it nothing more is sent for the old tag (`finish`).
  A request that ended well in spite of the flush is answered first: the client has to honour that reply.
* Tclunk cancels what runs for the fid, waits for it, and only then closes the file; until Rclunk the number is in use
  (`ending.py`).
* Something that does not end within `cleanup_s` after it was cancelled is left to itself, and its result is discarded.
* Tversion and a lost connection discard what was written and not committed; a Tclunk that was received commits it.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from ninep import _wire, errors
from ninep._session.fids import FAILED, Fids
from ninep._session.interface import Driver, OpenFile
from ninep._session.output import Output
from ninep._session.request import Abandoned, Limits, Request
from ninep._wire import Buffer
from ninep.errors import NinepError, ProtocolError

_log = logging.getLogger("ninep")

GREETING_BYTES = 8 * 1024  # the largest message of somebody who has not attached, whatever msize is agreed on
OUTPUT_BYTES = 64 * 1024  # `process` pauses when so much waits to be written
_ENDINGS = {_wire.TCLUNK, _wire.TREMOVE}
_ALWAYS = {_wire.TVERSION, _wire.TFLUSH, *_ENDINGS}  # what frees something has no limit

_own_tags = count(-1, -1)  # of what a session does by itself
_unpack_header = _wire.HEADER.unpack_from

Handler = Callable[["Session", int, Buffer, int, int], Buffer | None]


@dataclass(frozen=True, slots=True)
class Dialect:
    """A version of the protocol.

    Args:
        version: as Rversion has it.
        handlers: by type, 256 of them: `(session, tag, data, at, end)`, the message being `data[at:end]`. It gives the
            reply, or None when it has started a request; NinepError is the reply Rerror, ProtocolError ends the
            connection.
    """

    version: str
    handlers: Sequence[Handler]


class Session(Output):
    """One connection's protocol state.

    Args:
        driver: what waits and what knows the server.
        limits: see there.
        dialect: what is spoken once the version is negotiated.
        trace: called with `"<-"` or `"->"` and each whole message received or sent.

    Attributes:
        iounit: the largest payload of one message.
        fids: in use.
        requests: all that have not ended, by tag.
        then: what comes when everything has ended; until then input waits.
        written_bytes: in Twrites that have not been answered.
    """

    __slots__ = (
        "_closing_files",
        "_dialect",
        "_flushes",
        "_handlers",
        "_left",
        "_left_at",
        "_longest",
        "fids",
        "iounit",
        "limits",
        "requests",
        "then",
        "written_bytes",
    )

    def __init__(
        self,
        driver: Driver,
        limits: Limits,
        dialect: Dialect,
        trace: Callable[[str, Buffer], None] | None = None,
    ) -> None:
        super().__init__(driver, min(limits.msize, GREETING_BYTES), trace)
        self._longest = self._msize  # message to come
        self.limits = limits
        self.iounit = limits.msize - _wire.IO_HEADER_BYTES
        self.fids = Fids(limits.fids)
        self.written_bytes = 0
        self._dialect = dialect
        self._handlers: Sequence[Handler] = _GREETING
        self._left: Buffer = b""  # of the input, from `_left_at` on
        self._left_at = 0
        self.requests: dict[int, Request] = {}
        self._flushes: dict[int, Request] = {}  # the flushed request, by the tag of the Tflush
        self.then: Callable[[], None] | None = None
        self._closing_files = False

    @property
    def outstanding(self) -> int:
        """How many requests have not ended."""
        return len(self.requests)

    # Input

    def process(self, data: Buffer = b"") -> bool:  # noqa: C901  in one piece, since each message comes this way
        """Handle what was left of the input and what has come, until much output has gathered or something has to end.

        Returns:
            Whether it stopped for the output: it is to be called again once that is written.

        Raises:
            ProtocolError: the input is no 9P2000; the connection is to be closed.
        """
        at = 0
        if self._left:
            data, at = self._after_left(data)
        size = len(data)
        trace, output = self._trace, self.output
        self.processing = True
        try:
            while size - at >= _wire.HEADER_BYTES and self.then is None:
                if self.output_bytes >= OUTPUT_BYTES:
                    return True
                length, kind, tag = _unpack_header(data, at)
                end = at + length
                if end > size or length > self._longest or length < _wire.HEADER_BYTES:
                    _wire.message_end(data, at, self._longest)  # it refuses a size that no message has
                    break  # the rest is still to come
                if trace is not None:
                    trace("<-", data[at:end])
                try:
                    if self.requests:
                        self._check_tag(kind, tag)
                    reply = self._handlers[kind](self, tag, data, at, end)
                except Exception as error:  # noqa: BLE001  a bug of the tree ends its request and nothing else
                    reply = self._failed(kind, tag, error)
                if reply is not None:
                    if trace is not None:  # as `send`, without the cost of a call
                        trace("->", reply)
                    output.append(reply)
                    self.output_bytes += len(reply)
                at = end
        finally:
            self.processing = False
            if at < size:
                self._left, self._left_at = data, at
        return False

    def _after_left(self, data: Buffer) -> tuple[Buffer, int]:
        """The input, and where in it that begins which was not handled yet."""
        left, at, self._left = self._left, self._left_at, b""
        if not data:
            return left, at
        if at or not isinstance(left, bytearray):
            left = bytearray(left[at:])
        left += data
        return left, 0

    def _failed(self, kind: int, tag: int, error: Exception) -> bytes:
        """The reply to a message; a bug in a callback ends its request, and only bad input the connection."""
        if isinstance(error, ProtocolError):
            raise error
        if isinstance(error, NinepError):
            return self.rerror(tag, str(error))
        _log.error("a message of type %d failed", kind, exc_info=error)
        return self.rerror(tag, errors.INTERNAL)

    def _check_tag(self, kind: int, tag: int) -> None:
        if (tag in self.requests or tag in self._flushes) and kind != _wire.TVERSION:  # that one ends the others
            raise NinepError(errors.TAG_IN_USE)
        if len(self.requests) >= self.limits.requests and kind not in _ALWAYS:
            raise NinepError(errors.TOO_MANY_REQUESTS)

    # Requests that wait

    def run(self, request: Request, work: Awaitable[Any]) -> None:
        """Start it; it is in the tables only if it did not end at once."""
        running = self.driver.start(work, partial(self.finish, request))
        if not request.done:
            request.running = running
            self.enter(request)

    def enter(self, request: Request) -> None:
        """It is one of those that have not ended."""
        if request.tag in self.requests:
            return
        self.requests[request.tag] = request
        self.written_bytes += request.written_bytes
        if request.fid is not None:
            if request.fid.requests is None:
                request.fid.requests = set()
            request.fid.requests.add(request)

    def finish(self, request: Request, value: Any, error: BaseException | None) -> None:
        """It has ended, or is to be treated as if it had; what comes after that is discarded."""
        if request.done:
            self._discard(value)
            return
        request.done = True
        if request.tag in self.requests:
            self._leave(request)
        if request.silent:
            self._discard(value)
        else:
            self._answer(request, value, error)
        for tag in request.flushes:
            del self._flushes[tag]
            if not request.silent:
                self.send(_wire.pack_empty(_wire.RFLUSH, tag))
        fid = request.fid
        if fid is not None and fid.ending is not None and not fid.requests:
            ending, fid.ending = fid.ending, None
            ending()
        if self.then is not None:
            self._wind_on()

    def _leave(self, request: Request) -> None:
        if request.timer is not None:
            request.timer.cancel()
        del self.requests[request.tag]
        self.written_bytes -= request.written_bytes
        fid = request.fid
        if fid is not None and fid.requests is not None:
            fid.requests.discard(request)

    def _answer(self, request: Request, value: Any, error: BaseException | None) -> None:
        if error is None:
            try:
                reply = request.reply(value)
            except Exception as refused:  # noqa: BLE001  becomes the reply, below
                error = refused
            else:
                self.send(reply)
                return
        if request.target is not None:
            self.fids.turn(request.target, request.kind | FAILED)
        if isinstance(error, NinepError):
            self.send(self.rerror(request.tag, str(error)))
        elif isinstance(error, Exception):
            _log.error("the request with tag %d failed", request.tag, exc_info=error)
            self.send(self.rerror(request.tag, errors.INTERNAL))
        elif not request.flushes:
            self.send(self.rerror(request.tag, errors.INTERRUPTED))

    def cancel(self, request: Request) -> None:
        """Have it end soon."""
        if request.timer is None and request.running is not None:
            self._bound(request)
            request.running.cancel()

    def _bound(self, request: Request) -> None:
        if request.timer is None:
            request.timer = self.driver.later(self.limits.cleanup_s, partial(self._abandon, request))

    def _abandon(self, request: Request) -> None:
        _log.warning("a request did not end within %g s and is left to itself", self.limits.cleanup_s)
        self.finish(request, None, Abandoned())

    def _discard(self, value: Any) -> None:
        """Nobody wants the result any more; that of a Topen or a Tcreate has to be closed."""
        file = value[1] if isinstance(value, tuple) else value
        if isinstance(file, OpenFile):
            self.close_silently(file)

    def close_silently(self, file: OpenFile) -> None:
        """Close what no fid has, or no fid any more, without commit."""
        try:
            closing = file.close(commit=False)
        except Exception:  # noqa: BLE001  the other files have to be closed
            _log.exception("closing a file failed")
            return
        if closing is None:
            return
        request = Request(next(_own_tags), _no_reply)
        request.silent = True
        self.run(request, closing)
        if not request.done:
            self._bound(request)

    def flush(self, tag: int, oldtag: int) -> bytes | None:
        """Cancel a request; Rflush comes when it has ended, at once when there is none."""
        request = self.requests.get(oldtag)
        if request is not None:
            request.flushes += (tag,)
            self._flushes[tag] = request
            self.cancel(request)
            return None
        flushed = self._flushes.pop(oldtag, None)
        if flushed is not None:  # a Tflush that has not been answered never will be
            flushed.flushes = tuple(other for other in flushed.flushes if other != oldtag)
        return _wire.pack_empty(_wire.RFLUSH, tag)

    # The whole session

    def greet(self, tag: int, msize: int, version: str) -> None:
        """Tversion: begin a new session, when everything of the one before has ended."""
        self._wind_down(partial(self._begin, tag, msize, version))

    def _begin(self, tag: int, msize: int, version: str) -> None:
        self._handlers = _GREETING
        self._longest = self._msize = min(self.limits.msize, GREETING_BYTES)
        if msize < _wire.MIN_MSIZE:
            self.send(self.rerror(tag, errors.MSIZE_TOO_SMALL))
            return
        msize = min(msize, self.limits.msize)
        if version.partition(".")[0] != self._dialect.version:
            self.send(_wire.pack_version(_wire.RVERSION, tag, msize, _wire.VERSION_UNKNOWN))
            return
        self._msize = msize
        self._longest = min(msize, GREETING_BYTES)
        self.iounit = msize - _wire.IO_HEADER_BYTES
        self._handlers = self._dialect.handlers
        self.send(_wire.pack_version(_wire.RVERSION, tag, msize, self._dialect.version))

    def admit(self) -> None:
        """Somebody has attached: messages may be as long as was agreed on."""
        self._longest = self._msize

    def close(self) -> None:
        """The connection is lost: everything ends, nothing is sent; then the driver's `closed` is called."""
        self.discard()
        self._left = b""
        self._wind_down(self.driver.closed)

    def _wind_down(self, then: Callable[[], None]) -> None:
        """End all requests without replies, then close all files without commit, then go on with `then`.

        A clunk that was received still commits: it is not cancelled, but has no longer than anything else.
        """
        self.then = then
        for request in list(self.requests.values()):
            request.silent = True
            if request.kind in _ENDINGS:
                self._bound(request)
            else:
                self.cancel(request)
        self._wind_on()

    def _wind_on(self) -> None:
        if self.then is None or self.requests or self._closing_files:
            return
        self._closing_files = True
        for fid in self.fids.pop_all():
            if fid.file is not None:
                self.close_silently(fid.file)
        self._closing_files = False
        if self.requests:
            return
        then, self.then = self.then, None
        then()
        if not self.closed and not self.processing:
            self.driver.wake()


def _no_reply(_value: Any) -> bytes:
    """What the session does by itself has nobody to reply to: such a request is silent."""
    return b""


def greet(session: Session, tag: int, data: Buffer, at: int, end: int) -> None:
    """Tversion, the same in every dialect."""
    session.greet(tag, *_wire.parse_version(data, at, end))


def _not_yet(_session: Session, _tag: int, _data: Buffer, _at: int, _end: int) -> bytes:
    raise NinepError(errors.VERSION_FIRST)


_GREETING: list[Handler] = [_not_yet] * 256
_GREETING[_wire.TVERSION] = greet
