"""An open file of a client."""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ninep import _wire
from ninep.messages import Stat

if TYPE_CHECKING:
    from ninep.client.client import Client


class File:
    """A fid that is open; `async with` closes it.

    Reads and writes without an offset go on where the last one ended, each with a position of its own kept here as one
    number, as read(2) and write(2) have it. Requests on one file may run at the same time when they name their offsets.

    Attributes:
        fid: the number.
        iounit: the largest payload of one message, in bytes.
        offset: where the next read or write without an offset is.
    """

    def __init__(self, client: "Client", fid: int, iounit: int) -> None:
        self.fid = fid
        self.iounit = iounit
        self.offset = 0
        self._client = client
        self._open = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            self.discard()

    async def read(self, count: int | None = None, offset: int | None = None) -> bytes:
        """One Tread: at most `count` bytes (the iounit when omitted); empty is the end of the file.

        Raises:
            NinepError: the server's ename.
        """
        at = self.offset if offset is None else offset
        wanted = self.iounit if count is None else min(count, self.iounit)
        frame = await self._client.calls.call(_wire.RREAD, _wire.pack_tread, self.fid, at, wanted)
        (data,) = _wire.parse_rread(frame, 0, len(frame))
        if offset is None:
            self.offset = at + len(data)
        return data

    async def chunks(self) -> AsyncIterator[bytes]:
        """Reads from the present offset to the end of the file, each as it comes."""
        while data := await self.read():
            yield data

    async def read_all(self) -> bytes:
        """Everything from the present offset to the end of the file."""
        return b"".join([data async for data in self.chunks()])

    async def write(self, data: bytes, offset: int | None = None) -> int:
        """Write all of `data`, in as many Twrites as it takes; an empty one when it is empty.

        Returns:
            Its length.

        Raises:
            NinepError: the server's ename; what came before the refused part is written.
        """
        at = self.offset if offset is None else offset
        done = 0
        while True:
            piece = data[done : done + self.iounit]
            frame = await self._client.calls.call(_wire.RWRITE, _wire.pack_twrite, self.fid, at + done, piece)
            (count,) = _wire.parse_rwrite(frame, 0, len(frame))
            done += count
            if offset is None:
                self.offset = at + done
            if done >= len(data) or not count:
                return done

    async def commit(self) -> None:
        """Have the server take what was written, and tell: a Twstat that changes nothing."""
        await self.wstat(Stat())

    async def stat(self) -> Stat:
        """The directory entry."""
        return await self._client.fstat(self.fid)

    async def wstat(self, stat: Stat) -> None:
        """Change what is not a "don't touch" value."""
        await self._client.fwstat(self.fid, stat)

    async def close(self) -> None:
        """Clunk it. Without a commit before, this commits, and raises what is wrong with what was written."""
        if self._open:
            self._open = False
            await self._client.clunk(self.fid)

    def discard(self) -> None:
        """Clunk it without waiting; errors are lost."""
        if self._open:
            self._open = False
            self._client.forget(self.fid)
