"""Requests and replies of one connection: tags, flush, and the transport.

A tag is free again when its reply came and, if it was flushed, when Rflush came. That is kept here, where messages
arrive, so that it holds whatever becomes of the task that waited.
"""

import asyncio
import socket
from collections.abc import Callable
from struct import Struct
from typing import Any

from ninep import _wire
from ninep.errors import ConnectionLostError, NinepError, ProtocolError

FLUSH_S = 10.0  # how long Rflush is waited for, where nobody says otherwise

# Received into a buffer of its own: a plain asyncio.Protocol has 256 KiB allocated for every segment that comes.
INPUT_BYTES = 64 * 1024

_UCRED = Struct("iII")  # pid, uid, gid: unix(7)


class Call:
    """A request under way.

    Attributes:
        future: the reply, a whole message; or ConnectionLostError.
        reply: one that came when the caller was cancelled and had not sent Tflush yet; the tag is free then.
        flushed_by: what Rflush will end, once Tflush was sent.
        late: called with a reply that comes between the two; None drops it.
    """

    __slots__ = ("flushed_by", "future", "late", "reply", "tag")

    def __init__(self, tag: int, future: asyncio.Future[bytes]) -> None:
        self.tag = tag
        self.future = future
        self.reply: bytes | None = None
        self.flushed_by: asyncio.Future[bytes] | None = None
        self.late: Callable[[bytes], None] | None = None


class Calls(asyncio.BufferedProtocol):
    """Sends requests and hands replies to whoever waits for them.

    Args:
        msize: the largest message to accept until the version is negotiated.
        trace: gets `"->"` or `"<-"` and each whole message sent or received.
        flush_s: how long a cancelled caller waits for Rflush, in seconds. A server that does not even answer Tflush
            must not hold up a program that wants to end; its tags stay in use.
    """

    def __init__(self, msize: int, trace: Callable[[str, bytes], None] | None = None, flush_s: float = FLUSH_S) -> None:
        self.msize = msize
        self._trace = trace
        self._flush_s = flush_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._input = memoryview(bytearray(INPUT_BYTES))
        self._buffer = bytearray()
        self._calls: dict[int, Call] = {}
        self._flushes: dict[int, Call] = {}  # the flushed call, by the tag of its Tflush
        self._free_tags: list[int] = []
        self._next_tag = 0
        self._writable: asyncio.Future[None] | None = None  # while the transport's buffer is full
        self._lost: NinepError | None = None
        self._gone = self._loop.create_future()

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection begins."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def pause_writing(self) -> None:
        """Requests wait."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """They go on."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def connection_lost(self, error: Exception | None) -> None:
        """All that wait get ConnectionLostError."""
        if self._lost is None:
            self._lost = ConnectionLostError() if error is None else ConnectionLostError(str(error))
        for call in [*self._calls.values(), *self._flushes.values()]:
            if not call.future.done():
                call.future.set_exception(self._lost)
                call.future.exception()  # whoever has given up does not ask
            if call.flushed_by is not None and not call.flushed_by.done():
                call.flushed_by.set_result(b"")
        self._calls.clear()
        self._flushes.clear()
        self.resume_writing()
        if not self._gone.done():
            self._gone.set_result(None)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where to receive."""
        return self._input

    def buffer_updated(self, nbytes: int) -> None:
        """Hand out every whole reply."""
        self._buffer += self._input[:nbytes]
        at = 0
        try:
            while True:
                end = _wire.message_end(self._buffer, at, self.msize)
                if not end or end > len(self._buffer):
                    break
                self._arrived(bytes(memoryview(self._buffer)[at:end]))
                at = end
        except ProtocolError as error:
            self._lost = error
            self.abort()
        del self._buffer[:at]

    def _arrived(self, frame: bytes) -> None:
        if self._trace is not None:
            self._trace("<-", frame)
        kind, tag = _wire.parse_header(frame, 0)
        if kind == _wire.RFLUSH:
            self._flushed(tag)
            return
        call = self._calls.get(tag)
        if call is None:
            raise ProtocolError(f"reply to no request, tag {tag}")
        if call.flushed_by is None:
            self._release(tag)
        if not call.future.done():
            call.future.set_result(frame)
        elif call.flushed_by is None:
            call.reply = frame
        elif call.late is not None:
            late, call.late = call.late, None
            late(frame)

    def _flushed(self, tag: int) -> None:
        call = self._flushes.pop(tag, None)
        if call is None or call.flushed_by is None:
            raise ProtocolError(f"Rflush to no request, tag {tag}")
        self._release(tag)
        self._release(call.tag)
        if not call.flushed_by.done():
            call.flushed_by.set_result(b"")

    # Requests

    def _tag(self) -> int:
        if self._free_tags:
            return self._free_tags.pop()
        if self._next_tag >= _wire.NOTAG:
            raise NinepError("too many requests outstanding")
        self._next_tag += 1
        return self._next_tag - 1

    def _release(self, tag: int) -> None:
        self._calls.pop(tag, None)
        if tag != _wire.NOTAG:
            self._free_tags.append(tag)

    def send(self, pack: Callable[..., bytes], *args: Any, tag: int | None = None) -> Call:
        """Send `pack(tag, *args)` and give the call, without waiting.

        Raises:
            ConnectionLostError: the connection has ended.
            ValueError: a field does not fit its place on the wire.
        """
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionLostError()
        number = self._tag() if tag is None else tag
        try:
            frame = pack(number, *args)
        except BaseException:
            self._release(number)
            raise
        call = self._calls[number] = Call(number, self._loop.create_future())
        if self._trace is not None:
            self._trace("->", frame)
        self._transport.write(frame)
        return call

    async def call(
        self,
        reply: int,
        pack: Callable[..., bytes],
        *args: Any,
        tag: int | None = None,
        late: Callable[[bytes], None] | None = None,
    ) -> bytes:
        """Send a request and wait for its reply, a whole message of type `reply`.

        When the waiting task is cancelled, Tflush is sent and Rflush awaited, for at most `flush_s`, before the
        cancellation goes on. A reply that comes first goes to `late`: it has changed the server's state.

        Raises:
            NinepError: the ename of an Rerror.
            ProtocolError: a reply of another type.
            ConnectionLostError: the connection has ended.
        """
        while self._writable is not None:
            await asyncio.shield(self._writable)
        call = self.send(pack, *args, tag=tag)
        try:
            frame = await call.future
        except asyncio.CancelledError:
            await self._give_up(call, late)
            raise
        return expect(reply, frame)

    async def _give_up(self, call: Call, late: Callable[[bytes], None] | None) -> None:
        if not call.future.cancelled() and call.future.done() and call.future.exception() is None:
            call.reply = call.future.result()
        if call.reply is not None:
            if late is not None:
                late(call.reply)
            return
        call.late = late
        if self._lost is not None or self._transport is None:
            return
        tag = self._tag()
        call.flushed_by = self._loop.create_future()
        self._flushes[tag] = call
        frame = _wire.pack_tflush(tag, call.tag)
        if self._trace is not None:
            self._trace("->", frame)
        self._transport.write(frame)
        await asyncio.wait({call.flushed_by}, timeout=self._flush_s)

    # The connection

    @property
    def server_pid(self) -> int:
        """The process that listened on the unix socket, in our PID namespace; 0 where that is not known."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        if sock is None or sock.family != socket.AF_UNIX:
            return 0
        pid: int = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[0]
        return pid

    @property
    def lost(self) -> bool:
        """Whether it has ended."""
        return self._lost is not None

    async def gone(self) -> None:
        """Wait until it has ended."""
        await asyncio.shield(self._gone)

    async def close(self) -> None:
        """End it and wait until it has ended."""
        if self._transport is not None:
            self._transport.close()
            await asyncio.shield(self._gone)

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()


def expect(reply: int, frame: bytes) -> bytes:
    """The frame, if it is of this type."""
    kind, _ = _wire.parse_header(frame, 0)
    if kind == reply:
        return frame
    if kind == _wire.RERROR:
        raise NinepError(*_wire.parse_rerror(frame, 0, len(frame)))
    raise ProtocolError(f"reply of type {kind} where {reply} was expected")
