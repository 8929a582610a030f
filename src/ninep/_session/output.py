"""What a session sends."""

import logging
from collections.abc import Callable

from ninep import _wire
from ninep._session.interface import Driver, OpenFile
from ninep._wire import Buffer

_log = logging.getLogger("ninep")

_ENAME_BYTES = 1024
_LAYOUT = _wire.LAYOUT_32
_JOIN_BYTES = 4096  # a payload up to this is joined to its header at once


class Output:
    """The output of a session, which is made of this and of what it does with input.

    Args:
        driver: woken where there is output and no messages are being handled.
        msize: the largest message.
        trace: called with `"->"` and each whole message.

    Attributes:
        output: pieces to write, in order. The driver empties it.
        output_bytes: their length.
        processing: messages are being handled; the driver writes after that.
        closed: nothing is sent any more.
        wording: makes the text of an Rerror from an ename; None leaves it as it is.
    """

    __slots__ = (
        "_msize",
        "_trace",
        "closed",
        "deliveries",
        "driver",
        "output",
        "output_bytes",
        "processing",
        "wording",
    )

    def __init__(self, driver: Driver, msize: int, trace: Callable[[str, Buffer], None] | None) -> None:
        self.driver = driver
        self.output: list[Buffer] = []
        self.output_bytes = 0
        self.wording: Callable[[str], str] | None = None
        self._msize = msize
        self._trace = trace
        self.processing = False
        self.closed = False
        self.deliveries: list[Callable[[], None]] | None = None

    def send(self, frame: Buffer) -> None:
        """Send a whole message that is no handler's reply."""
        if self.closed:
            return
        if self._trace is not None:
            self._trace("->", frame)
        self.output.append(frame)
        self.output_bytes += len(frame)
        if not self.processing:
            self.driver.wake()

    def rread(self, tag: int, file: OpenFile, count: int, data: bytes | memoryview) -> Buffer:
        """Rread, about to be sent, which the file will be told of; before a large payload the header goes by itself."""
        size = len(data)
        if size > count:
            raise ValueError(f"a read of {count} bytes gave {size}")
        if file.sent is not None:
            if self.deliveries is None:
                self.deliveries = []
            self.deliveries.append(file.sent)
            file.sent = None
        if size <= _JOIN_BYTES or self._trace is not None or self.closed:
            return _LAYOUT.pack(11 + size, _wire.RREAD, tag, size) + data
        self.output.append(_LAYOUT.pack(11 + size, _wire.RREAD, tag, size))
        self.output_bytes += 11
        return data

    def rerror(self, tag: int, ename: str) -> bytes:
        """Rerror; a long text is cut."""
        if self.wording is not None:
            ename = self.wording(ename)
        limit = min(_ENAME_BYTES, self._msize - 9)
        if len(ename) * 4 > limit:
            ename = ename.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
        return _wire.pack_rerror(tag, ename)

    def discard(self) -> None:
        """Nobody reads it any more: neither what there is nor what is still to come."""
        self.closed = True
        self.output.clear()
        self.output_bytes = 0
        self.deliveries = None

    def sent(self) -> None:
        """All output was handed to the transport."""
        if self.deliveries is not None:
            deliveries, self.deliveries = self.deliveries, None
            for delivered in deliveries:
                try:
                    delivered()
                except Exception:  # noqa: BLE001  a bug in a callback, and nobody to answer any more
                    _log.exception("telling of a delivery failed")
