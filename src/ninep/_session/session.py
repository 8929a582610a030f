"""The server's protocol state of one connection: tags, fids, flush, msize. It does no I/O and waits for nothing.

The driver feeds bytes in (`receive`), lets them be handled (`process`), writes `output` and then says so (`sent`). What
a tree can answer at once is answered within `process`. What has to wait is a `Request`: the driver runs it, and `finish`
is called in the step that ends it. State changes only there, together with the reply.

Rules that are easy to get wrong, and where they are kept:

* Rflush comes when the flushed request has really ended, and after it nothing more is sent for the old tag (`finish`).
  A request that ended well in spite of the flush is answered first: flush(5) makes the client honour that reply.
* Tclunk cancels what runs for the fid, waits for it, and only then closes the file; until Rclunk the number is in use.
* Something that does not end within `cleanup_s` after it was cancelled is left to itself, and what it gives is discarded.
* Tversion and a lost connection discard what was written and not committed; Tclunk commits it.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ninep import _wire, errors
from ninep._session.fids import OPENED, Fid, FidState
from ninep._session.interface import (
    AfidConversation,
    Driver,
    OpenFile,
    Place,
    Running,
    Timer,
    awaitable,
    check_name,
    check_text,
)
from ninep._wire import Buffer
from ninep.errors import NinepError, ProtocolError

_log = logging.getLogger("ninep")

OUTPUT_BYTES = 64 * 1024  # `process` pauses when so much waits to be written
ENAME_BYTES = 1024
_JOIN_BYTES = 4096  # a payload up to this is joined to its header at once


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may use.

    Args:
        msize: the largest message, 256 bytes and more; the client may ask for less.
        fids: in use at once.
        requests: outstanding at once, Tflush and Tclunk not counted.
        written_bytes: in Twrites that have not been answered.
        cleanup_s: how long something cancelled may take to end.
    """

    msize: int = 1024 * 1024
    fids: int = 4096
    requests: int = 1024
    written_bytes: int = 64 * 1024 * 1024
    cleanup_s: float = 5.0


class Abandoned(BaseException):
    """A request was cancelled and did not end."""


def _nothing(_value: Any) -> None:
    pass


class Request:
    """A message that could not be answered at once.

    Attributes:
        tag: of the message; None for what the session does by itself when a connection ends.
        fid: on whose behalf it runs.
        target: the fid that it makes or opens, which goes back when it fails.
        reply: sends the reply for a result.
        flushes: the tags of the Tflush messages that wait for its end, in order.
        silent: nobody is to get a reply any more.
    """

    __slots__ = ("done", "fid", "flushes", "reply", "running", "session", "silent", "size", "tag", "target", "timer")

    def __init__(
        self,
        session: "Session",
        tag: int | None,
        reply: Callable[[Any], None],
        *,
        fid: Fid | None = None,
        target: Fid | None = None,
        size: int = 0,
    ) -> None:
        self.session = session
        self.tag = tag
        self.reply = reply
        self.fid = fid
        self.target = target
        self.size = size
        self.running: Running | None = None
        self.timer: Timer | None = None
        self.flushes: list[int] = []
        self.silent = False
        self.done = False

    def finish(self, value: Any, error: BaseException | None) -> None:
        """It has ended."""
        self.session.finish(self, value, error)


class AuthFile(OpenFile):
    """Reads and writes of an afid."""

    __slots__ = ("aname", "conversation", "uname")

    def __init__(self, conversation: AfidConversation, uname: str, aname: str) -> None:
        super().__init__()
        self.conversation, self.uname, self.aname = conversation, uname, aname

    def read(self, offset: int, count: int) -> Awaitable[bytes]:
        """The conversation has no offsets."""
        return self.conversation.read(count)

    async def write(self, offset: int, data: bytes) -> int:
        """All of it, or the conversation refuses."""
        await self.conversation.write(data)
        return len(data)


class Session:
    """One connection's protocol state.

    Args:
        driver: what waits and what knows the server.
        limits: see there.
        trace: called with `"<-"` or `"->"` and each whole message received or sent.

    Attributes:
        output: pieces to write, in order. The driver empties it.
        output_bytes: their length.
    """

    def __init__(self, driver: Driver, limits: Limits, trace: Callable[[str, Buffer], None] | None = None) -> None:
        self.output: list[bytes] = []
        self.output_bytes = 0
        self._driver = driver
        self._limits = limits
        self._trace = trace
        self._msize = limits.msize
        self._iounit = limits.msize - _wire.IO_HEADER_BYTES
        self._handlers = _GREETING
        self._input: bytes | bytearray = b""
        self._at = 0
        self._processing = False
        self._fids: dict[int, Fid] = {}
        self._requests: dict[int, Request] = {}  # by tag
        self._flushes: dict[int, Request] = {}  # by the tag of the Tflush
        self._running: set[Request] = set()  # all that have not ended
        self._written_bytes = 0
        self._deliveries: list[Callable[[], None]] = []
        self._then: Callable[[], None] | None = None  # what comes when everything has ended; until then input waits
        self._stepping = False
        self._closed = False

    # Input

    @property
    def holding(self) -> bool:
        """Whether input waits until everything that runs has ended."""
        return self._then is not None

    @property
    def fids(self) -> int:
        """How many fids are in use."""
        return len(self._fids)

    @property
    def outstanding(self) -> int:
        """How many requests have not ended."""
        return len(self._running)

    def receive(self, data: bytes) -> None:
        """Add input."""
        if self._at == len(self._input):
            self._input, self._at = data, 0
            return
        if self._at or isinstance(self._input, bytes):
            self._input, self._at = bytearray(self._input[self._at :]), 0
        self._input += data

    def process(self) -> bool:
        """Handle what is there, until much output has gathered or something has to end first.

        Returns whether whole messages may be left; then it is to be called again once the output is written.

        Raises:
            ProtocolError: the input is no 9P2000; the connection is to be closed.
        """
        self._processing = True
        try:
            return self._process()
        finally:
            self._processing = False

    def _process(self) -> bool:
        data, size = self._input, len(self._input)
        requests, running, most = self._requests, self._running, self._limits.requests
        while self._then is None and not self._closed:
            if self.output_bytes >= OUTPUT_BYTES:
                return True
            at = self._at
            end = _wire.message_end(data, at, self._msize)
            if not end or end > size:
                break
            self._at = end
            kind, tag = _wire.parse_header(data, at)
            if self._trace is not None:
                self._trace("<-", data[at:end])
            try:
                if tag in requests:
                    raise NinepError(errors.TAG_IN_USE)
                if len(running) >= most and kind not in _ALWAYS:
                    raise NinepError(errors.TOO_MANY_REQUESTS)
                self._handlers[kind](self, tag, data, at, end)
            except ProtocolError:
                raise
            except NinepError as error:
                self._error(tag, str(error))
            except Exception:
                _log.exception("request of type %d failed", kind)
                self._error(tag, errors.INTERNAL)
        return False

    # Output

    def sent(self) -> None:
        """All output was handed to the transport."""
        if self._deliveries:
            deliveries, self._deliveries = self._deliveries, []
            for delivered in deliveries:
                delivered()

    def _send(self, frame: bytes) -> None:
        if self._closed:
            return
        if self._trace is not None:
            self._trace("->", frame)
        self.output.append(frame)
        self.output_bytes += len(frame)
        if not self._processing:
            self._driver.wake()

    def _send_read(self, tag: int, file: OpenFile, count: int, data: bytes) -> None:
        size = len(data)
        if size > count:
            raise ValueError(f"a read of {count} bytes gave {size}")
        if file.sent is not None:
            self._deliveries.append(file.sent)
            file.sent = None
        if size <= _JOIN_BYTES or self._trace is not None:
            self._send(_wire.pack_rread(tag, data))
            return
        if self._closed:
            return
        self.output += (_wire.LAYOUT_32.pack(11 + size, _wire.RREAD, tag, size), data)
        self.output_bytes += 11 + size
        if not self._processing:
            self._driver.wake()

    def _error(self, tag: int, ename: str) -> None:
        limit = min(ENAME_BYTES, self._msize - 9)
        if len(ename) * 4 > limit:
            ename = ename.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
        self._send(_wire.pack_rerror(tag, ename))

    # Requests that wait

    def _run(self, request: Request, work: Awaitable[Any]) -> None:
        """Start it; it is in the tables only if it did not end at once."""
        running = self._driver.start(work, request.finish)
        if not request.done:
            request.running = running
            self._enter(request)

    def _enter(self, request: Request) -> None:
        self._running.add(request)
        self._written_bytes += request.size
        if request.tag is not None:
            self._requests[request.tag] = request
        if request.fid is not None:
            if request.fid.requests is None:
                request.fid.requests = set()
            request.fid.requests.add(request)

    def finish(self, request: Request, value: Any, error: BaseException | None) -> None:
        """A request has ended, or is to be treated as if it had."""
        if request.done:
            self._discard(value)
            return
        request.done = True
        self._leave(request)
        if request.silent:
            self._discard(value)
        else:
            self._answer(request, value, error)
        for tag in request.flushes:
            self._flushes.pop(tag, None)
            if not request.silent:
                self._send(_wire.pack_empty(_wire.RFLUSH, tag))
        fid = request.fid
        if fid is not None and fid.ending is not None and not fid.requests:
            self._end(fid)
        self._step_down()

    def _leave(self, request: Request) -> None:
        if request.timer is not None:
            request.timer.cancel()
        if request in self._running:
            self._running.discard(request)
            self._written_bytes -= request.size
            if request.tag is not None:
                del self._requests[request.tag]
            if request.fid is not None and request.fid.requests is not None:
                request.fid.requests.discard(request)

    def _answer(self, request: Request, value: Any, error: BaseException | None) -> None:
        assert request.tag is not None
        if error is None:
            try:
                request.reply(value)
            except NinepError as refused:
                error = refused
            except Exception as bug:  # noqa: BLE001 - logged below
                error = bug
        if error is None:
            return
        if request.target is not None:
            self._turn(request.target, _wire.RERROR)
        if isinstance(error, NinepError):
            self._error(request.tag, str(error))
        elif isinstance(error, Exception):
            _log.error("request with tag %d failed", request.tag, exc_info=error)
            self._error(request.tag, errors.INTERNAL)
        elif not request.flushes:
            self._error(request.tag, errors.INTERRUPTED)

    def _turn(self, fid: Fid, reply: int) -> None:
        """Move a fid on by the reply that is about to be sent; one that is being clunked stays what it is."""
        state = fid.rules.get(reply)
        if state is FidState.FREE:
            del self._fids[fid.number]
        elif isinstance(state, FidState):
            fid.become(state)

    def _discard(self, value: Any) -> None:
        """Nobody wants the result of a Topen any more."""
        if isinstance(value, OpenFile):
            self._close_silently(value)

    def _cancel(self, request: Request) -> None:
        if request.timer is None and request.running is not None:
            self._bound(request)
            request.running.cancel()

    def _bound(self, request: Request) -> None:
        if request.timer is None:
            request.timer = self._driver.later(self._limits.cleanup_s, partial(self._abandon, request))

    def _abandon(self, request: Request) -> None:
        _log.warning("a request did not end within %g s and is left to itself", self._limits.cleanup_s)
        self.finish(request, None, Abandoned())

    def _tflush(self, tag: int, data: Buffer, at: int, end: int) -> None:
        (old,) = _wire.parse_tflush(data, at, end)
        request = self._requests.get(old)
        if request is not None:
            request.flushes.append(tag)
            self._flushes[tag] = request
            self._cancel(request)
            return
        flushed = self._flushes.pop(old, None)
        if flushed is not None:
            flushed.flushes.remove(old)
        self._send(_wire.pack_empty(_wire.RFLUSH, tag))

    # The whole session

    def _tversion(self, tag: int, data: Buffer, at: int, end: int) -> None:
        msize, version = _wire.parse_version(data, at, end)
        self._wind_down(partial(self._greet, tag, msize, version))

    def _greet(self, tag: int, msize: int, version: str) -> None:
        self._handlers = _GREETING
        if msize < _wire.MIN_MSIZE:
            self._error(tag, errors.MSIZE_TOO_SMALL)
            return
        msize = min(msize, self._limits.msize)
        if version.partition(".")[0] != _wire.VERSION:
            self._send(_wire.pack_version(_wire.RVERSION, tag, msize, _wire.VERSION_UNKNOWN))
            return
        self._msize = msize
        self._iounit = msize - _wire.IO_HEADER_BYTES
        self._handlers = _HANDLERS
        self._send(_wire.pack_version(_wire.RVERSION, tag, msize, _wire.VERSION))

    def _not_yet(self, _tag: int, _data: Buffer, _at: int, _end: int) -> None:
        raise NinepError(errors.VERSION_FIRST)

    def _unknown(self, _tag: int, _data: Buffer, _at: int, _end: int) -> None:
        raise NinepError(errors.UNKNOWN_MESSAGE)

    def close(self) -> None:
        """The connection is lost: everything ends, nothing is sent; then the driver's `closed` is called."""
        self._closed = True
        self._input, self._at = b"", 0
        self.output.clear()
        self._deliveries.clear()
        self._wind_down(self._driver.closed)

    def _wind_down(self, then: Callable[[], None]) -> None:
        """End all requests without replies, then close all files without commit, then go on with `then`.

        A clunk that was received still commits: it is not cancelled, but it has no longer than anything else.
        """
        self._then = then
        for request in list(self._running):
            request.silent = True
            if request.target is None or request.target.state is not FidState.ENDING:
                self._cancel(request)
            else:
                self._bound(request)
        self._step_down()

    def _step_down(self) -> None:
        """Go on with winding down, if that is what happens and nothing runs any more."""
        if self._then is None or self._running or self._stepping:
            return
        self._stepping = True
        fids = list(self._fids.values())
        self._fids.clear()
        for fid in fids:
            if fid.file is not None:
                self._close_silently(fid.file)
        self._stepping = False
        if not self._running:
            then, self._then = self._then, None
            then()
            if not self._closed and not self._processing:
                self._driver.wake()

    def _close_silently(self, file: OpenFile) -> None:
        request = Request(self, None, _nothing)
        request.silent = True
        try:
            closing = file.close(commit=False)
        except Exception:
            _log.exception("closing a file failed")
            return
        if closing is not None:
            self._run(request, closing)
        if not request.done and closing is not None:
            self._bound(request)

    # The page attach

    def _new_fid(self, number: int) -> Fid:
        """A number for a fid to come."""
        self._check_free(number)
        fid = self._fids[number] = Fid(number, FidState.PENDING)
        return fid

    def _check_free(self, number: int) -> None:
        if number in self._fids:
            raise NinepError(errors.FID_IN_USE)
        if number == _wire.NOFID:
            raise NinepError(errors.UNKNOWN_FID)
        if len(self._fids) >= self._limits.fids:
            raise NinepError(errors.TOO_MANY_FIDS)

    def _tauth(self, tag: int, data: Buffer, at: int, end: int) -> None:
        number, uname, aname = _wire.parse_tauth(data, at, end)
        check_text(uname)
        check_text(aname)
        fid = self._new_fid(number)
        request = Request(self, tag, partial(self._authenticating, tag, fid, uname, aname), target=fid)
        self._run(request, self._driver.authenticate(uname, aname))

    def _authenticating(self, tag: int, fid: Fid, uname: str, aname: str, conversation: AfidConversation) -> None:
        fid.file = AuthFile(conversation, uname, aname)
        self._turn(fid, _wire.RAUTH)
        qid = _wire.QID.pack(_wire.QTAUTH, 0, fid.number)
        self._send(_wire.pack_qid_reply(_wire.RAUTH, tag, qid))

    def _tattach(self, tag: int, data: Buffer, at: int, end: int) -> None:
        number, afid, uname, aname = _wire.parse_tattach(data, at, end)
        check_text(uname)
        check_text(aname)
        auth = None if afid == _wire.NOFID else self._finished(afid, uname, aname)
        fid = self._new_fid(number)
        request = Request(self, tag, partial(self._attached, tag, fid), target=fid)
        self._run(request, self._driver.attach(uname, aname, auth))

    def _finished(self, afid: int, uname: str, aname: str) -> AfidConversation:
        """The conversation on the afid, which must have granted entry to this very user."""
        fid = self._fids.get(afid)
        if fid is None or fid.state is FidState.PENDING:
            raise NinepError(errors.UNKNOWN_FID)
        file = fid.file
        if fid.state is not FidState.AUTH or not isinstance(file, AuthFile):
            raise NinepError(errors.AUTHENTICATION_FAILED)
        if (file.uname, file.aname) != (uname, aname):
            raise NinepError(errors.AFID_OF_ANOTHER)
        if not file.conversation.done:
            raise NinepError(errors.AUTHENTICATION_UNFINISHED)
        return file.conversation

    def _attached(self, tag: int, fid: Fid, place: Place) -> None:
        qid = place.qid()
        fid.place = place
        self._turn(fid, _wire.RATTACH)
        self._send(_wire.pack_qid_reply(_wire.RATTACH, tag, qid))

    # The page walk

    def _fid(self, number: int, kind: int) -> Fid:
        """The fid, if the table allows this message for it."""
        fid = self._fids.get(number)
        if fid is None:
            raise NinepError(errors.UNKNOWN_FID)
        rule = fid.rules[kind]
        if rule.__class__ is str:
            raise NinepError(rule)
        return fid

    def _twalk(self, tag: int, data: Buffer, at: int, end: int) -> None:
        number, newnumber, names = _wire.parse_twalk(data, at, end)
        fid = self._fid(number, _wire.TWALK)
        assert fid.place is not None
        if len(names) > _wire.MAXWELEM:
            raise NinepError(errors.TOO_MANY_NAMES)
        if newnumber != number:
            self._check_free(newnumber)
        elif names and fid.state is not FidState.PLACED:
            raise NinepError(errors.OPEN_FID_WALKED)
        walk = Walk(fid.place, names)
        if not walk.steps():
            target = None if newnumber == number else self._new_fid(newnumber)
            reply = partial(self._walked, tag, fid, target)
            self._run(Request(self, tag, reply, fid=fid, target=target), walk.wait())
        elif newnumber == number or not walk.whole:
            self._walked(tag, fid, None, walk)
        else:
            self._fids[newnumber] = Fid(newnumber, FidState.PLACED, walk.place)
            self._send(_wire.pack_rwalk(tag, walk.qids))

    def _walked(self, tag: int, fid: Fid, newfid: Fid | None, walk: "Walk") -> None:
        """Only a walk of all names changes newfid; without a newfid it is `fid` itself."""
        if newfid is not None:
            newfid.place = walk.place
            self._turn(newfid, _wire.RWALK if walk.whole else _wire.RERROR)
        elif walk.whole and walk.qids:
            if fid.state is not FidState.PLACED:
                raise NinepError(errors.OPEN_FID_WALKED)
            fid.place = walk.place
        self._send(_wire.pack_rwalk(tag, walk.qids))

    # The page open

    def _topen(self, tag: int, data: Buffer, at: int, end: int) -> None:
        number, mode = _wire.parse_topen(data, at, end)
        fid = self._fid(number, _wire.TOPEN)
        assert fid.place is not None
        file = fid.place.open(mode, self._iounit)
        if isinstance(file, OpenFile):
            self._opened(tag, fid, mode, file)
            return
        fid.become(FidState.OPENING)
        request = Request(self, tag, partial(self._opened, tag, fid, mode), fid=fid, target=fid)
        self._run(request, file)

    def _opened(self, tag: int, fid: Fid, mode: int, file: OpenFile) -> None:
        assert fid.place is not None
        fid.file = file
        if fid.state is not FidState.ENDING:
            fid.become(OPENED[mode & 3])
        self._send(_wire.pack_opened(_wire.ROPEN, tag, fid.place.qid(), self._iounit))

    def _tcreate(self, _tag: int, data: Buffer, at: int, end: int) -> None:
        number, name, _, _ = _wire.parse_tcreate(data, at, end)
        fid = self._fid(number, _wire.TCREATE)
        assert fid.place is not None
        if not fid.place.is_dir:
            raise NinepError(errors.NOT_DIRECTORY)
        check_name(name)
        raise NinepError(errors.CREATE_PROHIBITED)

    # The page read

    def _tread(self, tag: int, data: Buffer, at: int, end: int) -> None:
        number, offset, count = _wire.parse_tread(data, at, end)
        fid = self._fid(number, _wire.TREAD)
        file = fid.file
        assert file is not None
        count = min(count, self._iounit)
        content = file.read(offset, count)
        if isinstance(content, bytes):
            self._send_read(tag, file, count, content)
        else:
            self._run(Request(self, tag, partial(self._send_read, tag, file, count), fid=fid), content)

    def _twrite(self, tag: int, data: Buffer, at: int, end: int) -> None:
        number, offset, content = _wire.parse_twrite(data, at, end)
        fid = self._fid(number, _wire.TWRITE)
        assert fid.file is not None
        size = len(content)
        if self._written_bytes + size > self._limits.written_bytes:
            raise NinepError(errors.TOO_MANY_BYTES)
        count = fid.file.write(offset, content)
        if isinstance(count, int):
            self._written(tag, count)
        else:
            self._run(Request(self, tag, partial(self._written, tag), fid=fid, size=size), count)

    def _written(self, tag: int, count: int) -> None:
        self._send(_wire.pack_rwrite(tag, count))

    # The pages clunk and remove

    def _tclunk(self, tag: int, data: Buffer, at: int, end: int) -> None:
        (number,) = _wire.parse_fid(data, at, end)
        fid = self._fid(number, _wire.TCLUNK)
        if fid.requests:
            self._end_later(tag, fid, _wire.RCLUNK)
            return
        fid.become(FidState.ENDING)
        try:
            closing = self._clunk(fid)
        except BaseException:
            self._turn(fid, _wire.RERROR)
            raise
        if closing is None:
            self._finish_end(tag, fid, _wire.RCLUNK, None)
        else:
            self._run(self._end_request(tag, fid, _wire.RCLUNK), closing)

    def _tremove(self, tag: int, data: Buffer, at: int, end: int) -> None:
        (number,) = _wire.parse_fid(data, at, end)
        fid = self._fid(number, _wire.TREMOVE)
        if fid.requests:
            self._end_later(tag, fid, _wire.RREMOVE)
            return
        fid.become(FidState.ENDING)
        self._run(self._end_request(tag, fid, _wire.RREMOVE), self._remove(fid))

    def _end_request(self, tag: int, fid: Fid, reply: int) -> Request:
        return Request(self, tag, partial(self._finish_end, tag, fid, reply), target=fid)

    def _end_later(self, tag: int, fid: Fid, reply: int) -> None:
        """Cancel what runs for the fid; `finish` goes on with `_end` when nothing is left."""
        fid.become(FidState.ENDING)
        fid.ending = (self._end_request(tag, fid, reply), reply)
        self._enter(fid.ending[0])
        for request in list(fid.requests or ()):
            self._cancel(request)

    def _end(self, fid: Fid) -> None:
        assert fid.ending is not None
        (request, reply), fid.ending = fid.ending, None
        try:
            work = self._clunk(fid) if reply == _wire.RCLUNK else self._remove(fid)
        except Exception as error:  # noqa: BLE001 - it becomes the reply, and is logged there
            request.finish(None, error)
            return
        if work is None:
            request.finish(None, None)
        else:
            self._run(request, work)

    def _finish_end(self, tag: int, fid: Fid, reply: int, _nothing: None) -> None:
        self._turn(fid, reply)
        self._send(_wire.pack_empty(reply, tag))

    def _clunk(self, fid: Fid) -> Awaitable[None] | None:
        """Close the file and commit what was written; whoever keeps the errors is told as well."""
        file, fid.file = fid.file, None
        if file is None:
            return None
        try:
            closing = file.close(commit=True)
        except NinepError as error:
            self._failed(fid, error)
            raise
        return None if closing is None else self._committing(fid, closing)

    async def _committing(self, fid: Fid, closing: Awaitable[None]) -> None:
        try:
            await closing
        except NinepError as error:
            self._failed(fid, error)
            raise

    def _failed(self, fid: Fid, error: NinepError) -> None:
        if fid.place is not None:
            self._driver.failed(fid.place, error)

    async def _remove(self, fid: Fid) -> None:
        file, fid.file = fid.file, None
        closing = None if file is None else file.close(commit=False)
        if closing is not None:
            await closing
        if fid.place is None:
            raise NinepError(errors.AFID_MISUSED)
        removing = fid.place.remove()
        if removing is not None:
            await removing

    # The page stat

    def _tstat(self, tag: int, data: Buffer, at: int, end: int) -> None:
        (number,) = _wire.parse_fid(data, at, end)
        fid = self._fid(number, _wire.TSTAT)
        assert fid.place is not None
        self._send(_wire.pack_rstat(tag, fid.place.stat()))

    def _twstat(self, tag: int, data: Buffer, at: int, end: int) -> None:
        number, record = _wire.parse_twstat(data, at, end)
        _wire.parse_stat(record, 0, len(record))
        fid = self._fid(number, _wire.TWSTAT)
        assert fid.place is not None
        if record == _wire.NULL_STAT:
            work = None if fid.file is None else fid.file.commit()
        else:
            work = fid.place.wstat(record)
        if work is None:
            self._send(_wire.pack_empty(_wire.RWSTAT, tag))
        else:
            self._run(Request(self, tag, partial(self._changed, tag), fid=fid), work)

    def _changed(self, tag: int, _nothing: None) -> None:
        self._send(_wire.pack_empty(_wire.RWSTAT, tag))


class Walk:
    """A walk under way.

    Attributes:
        place: where it is.
        qids: of the names walked.
        whole: it has ended, and every name was walked.
    """

    __slots__ = ("_names", "_step", "place", "qids", "whole")

    def __init__(self, place: Place, names: list[str]) -> None:
        self.place = place
        self.qids: list[bytes] = []
        self.whole = False
        self._names = names
        self._step: Awaitable[Place] | None = None

    def steps(self) -> bool:
        """Go on until it has ended, True, or a step has to wait, False; NinepError when the first name fails."""
        names = self._names
        for number in range(len(self.qids), len(names)):
            try:
                check_name(names[number])
                step = self.place.walk(names[number])
            except NinepError:
                if number == 0:
                    raise
                return True
            if awaitable(step):
                self._step = step
                return False
            self._arrive(step)  # type: ignore[arg-type]  # not awaitable
        self.whole = True
        return True

    def _arrive(self, place: Place) -> None:
        self.qids.append(place.qid())
        self.place = place

    async def wait(self) -> "Walk":
        """Itself, ended."""
        ended = False
        while not ended:
            assert self._step is not None
            try:
                self._arrive(await self._step)
            except NinepError:
                if not self.qids:
                    raise
                return self
            ended = self.steps()
        return self


_Handler = Callable[[Session, int, Buffer, int, int], None]

_ALWAYS = {_wire.TVERSION, _wire.TFLUSH, _wire.TCLUNK, _wire.TREMOVE}  # what frees something has no limit

_GREETING: list[_Handler] = [Session._not_yet] * 256
_HANDLERS: list[_Handler] = [Session._unknown] * 256
_GREETING[_wire.TVERSION] = Session._tversion
for _kind, _handler in {
    _wire.TVERSION: Session._tversion,
    _wire.TAUTH: Session._tauth,
    _wire.TATTACH: Session._tattach,
    _wire.TFLUSH: Session._tflush,
    _wire.TWALK: Session._twalk,
    _wire.TOPEN: Session._topen,
    _wire.TCREATE: Session._tcreate,
    _wire.TREAD: Session._tread,
    _wire.TWRITE: Session._twrite,
    _wire.TCLUNK: Session._tclunk,
    _wire.TREMOVE: Session._tremove,
    _wire.TSTAT: Session._tstat,
    _wire.TWSTAT: Session._twstat,
}.items():
    _HANDLERS[_kind] = _handler
