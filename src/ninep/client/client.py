"""A client: one connection, one attach, any number of requests at the same time."""

import asyncio
import os
import pwd
import socket
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import TracebackType
from typing import Self

from ninep import _wire, dial, errors, text
from ninep._wire import NOFID, ORDWR, OREAD, OTRUNC, OWRITE
from ninep.client.calls import FLUSH_S, Calls, expect
from ninep.client.file import File
from ninep.errors import ConnectionLostError, NinepError, ProtocolError
from ninep.messages import Stat, decode, parse_directory

MSIZE = 128 * 1024
ROOT = 0  # the fid of the tree attached to


class Client:
    """Files of a server by their paths.

    Paths are relative to the root attached to; `/` at either end and `.` mean nothing. Everything that waits may be
    cancelled: Tflush is sent, and the cancellation goes on when the server has answered it.

    Attributes:
        calls: requests and replies, for what is not here.
        token: what the server gave at the end of an authentication, empty without one.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.token = b""
        self._next_fid = ROOT + 1
        self._free_fids: list[int] = []

    # Connecting

    @classmethod
    async def connect(
        cls,
        address: str,
        *,
        uname: str | None = None,
        aname: str = "",
        secret: bytes | None = None,
        msize: int = MSIZE,
        trace: Callable[[str], None] | None = None,
        flush_s: float = FLUSH_S,
    ) -> Self:
        """Dial, negotiate, authenticate with `secret` if there is one, and attach.

        Args:
            address: a dial string.
            uname: the user's name on this machine when omitted.
            aname: the tree, and options.
            secret: written to the afid; a server that needs no authentication is attached to without.
            msize: the largest message, in bytes.
            trace: gets one line for each message.
            flush_s: how long a cancelled caller waits for the server to have stopped, in seconds.

        Raises:
            dial.AddressError: it is no dial string.
            OSError: nobody listens there.
            NinepError: the server refuses.
        """
        where = dial.parse(address)
        loop = asyncio.get_running_loop()
        factory = partial(Calls, msize, _tracer(trace), flush_s)
        if isinstance(where, dial.Unix):
            _, calls = await loop.create_unix_connection(factory, where.path)
        else:
            _, calls = await loop.create_connection(factory, where.host, where.port)
        return await cls._start(calls, uname, aname, secret)

    @classmethod
    async def adopt(
        cls,
        sock: socket.socket,
        *,
        uname: str | None = None,
        aname: str = "",
        secret: bytes | None = None,
        msize: int = MSIZE,
        trace: Callable[[str], None] | None = None,
        flush_s: float = FLUSH_S,
    ) -> Self:
        """As `connect`, on a socket that is connected already and belongs to the client from now on."""
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        _, calls = await loop.connect_accepted_socket(partial(Calls, msize, _tracer(trace), flush_s), sock)
        return await cls._start(calls, uname, aname, secret)

    @classmethod
    async def _start(cls, calls: Calls, uname: str | None, aname: str, secret: bytes | None) -> Self:
        client = cls(calls)
        try:
            await client._greet()
            await client._attach(_user() if uname is None else uname, aname, secret)
        except BaseException:
            calls.abort()
            raise
        return client

    async def _greet(self) -> None:
        pack = partial(_pack_version, msize=self.calls.msize)
        frame = await self.calls.call(_wire.RVERSION, pack, tag=_wire.NOTAG)
        msize, version = _wire.parse_version(frame, 0, len(frame))
        if version != _wire.VERSION:
            raise ProtocolError(f"the server speaks {version!r}, not {_wire.VERSION}")
        if not _wire.MIN_MSIZE <= msize <= self.calls.msize:
            raise ProtocolError(f"the server offers an msize of {msize}")
        self.calls.msize = msize

    async def _attach(self, uname: str, aname: str, secret: bytes | None) -> None:
        afid = NOFID if secret is None else await self._authenticate(uname, aname, secret)
        await self.calls.call(_wire.RATTACH, _wire.pack_tattach, ROOT, afid, uname, aname)
        if afid != NOFID:
            await self.clunk(afid)

    async def _authenticate(self, uname: str, aname: str, secret: bytes) -> int:
        afid = self._fid()
        try:
            await self.calls.call(_wire.RAUTH, _wire.pack_tauth, afid, uname, aname)
        except ConnectionLostError:
            raise
        except NinepError:
            self._free_fids.append(afid)
            return NOFID
        file = File(self, afid, self.calls.msize - _wire.IO_HEADER_BYTES)
        await file.write(secret)
        self.token = await file.read()
        return afid

    async def close(self) -> None:
        """End the connection; what is written and not committed is lost."""
        await self.calls.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # Fids

    def _fid(self) -> int:
        if self._free_fids:
            return self._free_fids.pop()
        self._next_fid += 1
        return self._next_fid - 1

    async def walk(self, path: str, start: int = ROOT) -> int:
        """A new fid at `path`, as seen from the fid `start`; to be clunked.

        Raises:
            NinepError: `file does not exist`, where the server gave no reason of its own; `permission denied`, …
        """
        names = [name for name in path.split("/") if name not in {"", "."}]
        fid = self._fid()
        at = start
        try:
            while True:
                await self._step(at, fid, names[: _wire.MAXWELEM])
                at, names = fid, names[_wire.MAXWELEM :]
                if not names:
                    return fid
        except BaseException:
            if at == fid:
                self.forget(fid)
            raise

    async def _step(self, at: int, fid: int, names: list[str]) -> None:
        def late(frame: bytes) -> None:
            if at == fid or not _whole(frame, names):
                return
            self.forget(fid)

        frame = await self._walk(at, fid, names, late)
        if not _whole(frame, names):
            if at != fid:
                self._free_fids.append(fid)
            raise NinepError(errors.NOT_FOUND)

    async def _walk(self, at: int, fid: int, names: list[str], late: Callable[[bytes], None]) -> bytes:
        try:
            return await self.calls.call(_wire.RWALK, _wire.pack_twalk, at, fid, names, late=late)
        except NinepError:
            if at != fid:
                self._free_fids.append(fid)
            raise

    async def clunk(self, fid: int) -> None:
        """Give a fid up and wait for the answer; NinepError when what was written through it is refused.

        It is not cancelled: a clunk cannot be taken back. A cancelled caller leaves it to itself.
        """
        call = self.calls.send(partial(_wire.pack_fid, _wire.TCLUNK), fid)
        call.future.add_done_callback(lambda _: self._free_fids.append(fid))
        expect(_wire.RCLUNK, await asyncio.shield(call.future))

    def forget(self, fid: int) -> None:
        """Give a fid up without waiting."""
        if not self.calls.lost:
            call = self.calls.send(partial(_wire.pack_fid, _wire.TCLUNK), fid)
            call.future.add_done_callback(lambda _: self._free_fids.append(fid))

    async def fstat(self, fid: int) -> Stat:
        """The directory entry of a fid."""
        frame = await self.calls.call(_wire.RSTAT, partial(_wire.pack_fid, _wire.TSTAT), fid)
        return Stat.parse(*_wire.parse_rstat(frame, 0, len(frame)))

    async def fwstat(self, fid: int, stat: Stat) -> None:
        """Change what is not a "don't touch" value."""
        await self.calls.call(_wire.RWSTAT, _wire.pack_twstat, fid, stat.pack())

    # Files

    async def open(self, path: str, mode: int = OREAD, start: int = ROOT) -> File:
        """Walk to a file, from the fid `start`, and open it; `mode` as Topen's."""
        fid = await self.walk(path, start)
        try:
            frame = await self.calls.call(_wire.ROPEN, _wire.pack_topen, fid, mode)
        except BaseException:
            self.forget(fid)
            raise
        return self._file(fid, frame)

    async def create(self, path: str, perm: int = 0o666, mode: int = ORDWR, start: int = ROOT) -> File:
        """Make a file and open it; with DMDIR in `perm` a directory, opened by OREAD. The server may allow less.

        Raises:
            NinepError: `file already exists`, `permission denied` where nothing can be made, …
        """
        parent, _, name = path.strip("/").rpartition("/")
        fid = await self.walk(parent, start)
        try:
            frame = await self.calls.call(_wire.RCREATE, _wire.pack_tcreate, fid, name, perm, mode)
        except BaseException:
            self.forget(fid)
            raise
        return self._file(fid, frame)

    def _file(self, fid: int, frame: bytes) -> File:
        """What Ropen or Rcreate says."""
        _, iounit = _wire.parse_opened(frame, 0, len(frame))
        most = self.calls.msize - _wire.IO_HEADER_BYTES
        return File(self, fid, min(iounit, most) or most)

    async def read(self, path: str) -> bytes:
        """The whole file; for one that waits, until its end."""
        async with await self.open(path) as file:
            return await file.read_all()

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """The pieces of a file as they come, to its end."""
        async with await self.open(path) as file:
            async for data in file.chunks():
                yield data

    async def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        """Write `data` from offset 0, commit, clunk; what the server refuses is raised."""
        async with await self.open(path, OWRITE | (OTRUNC if truncate else 0)) as file:
            await file.write(data)
            await file.commit()

    async def rdwr(self, path: str, data: bytes) -> bytes:
        """Write a request and read the whole answer, on one fid."""
        return b"".join([piece async for piece in self.rdwr_stream(path, data)])

    async def rdwr_stream(self, path: str, data: bytes) -> AsyncIterator[bytes]:
        """Write a request and give the pieces of the answer as they come, which say how the request was taken.

        The clunk behind them is not waited for: a file that judges what was written only then is none for this.
        """
        file = await self.open(path, ORDWR)
        try:
            await file.write(data)
            async for piece in file.chunks():
                yield piece
        finally:
            file.discard()

    async def ls(self, path: str = "") -> list[Stat]:
        """The entries of a directory, in the server's order."""
        return parse_directory(await self.read(path))

    async def stat(self, path: str) -> Stat:
        """The directory entry of a file."""
        fid = await self.walk(path)
        try:
            return await self.fstat(fid)
        finally:
            self.forget(fid)

    async def wstat(self, path: str, stat: Stat) -> None:
        """Change what is not a "don't touch" value."""
        fid = await self.walk(path)
        try:
            await self.fwstat(fid, stat)
        finally:
            self.forget(fid)

    async def rename(self, path: str, name: str) -> None:
        """Give a file another name in its directory."""
        await self.wstat(path, Stat(name=name))

    async def remove(self, path: str, start: int = ROOT) -> None:
        """Remove a file; `path` as seen from the fid `start`."""
        fid = await self.walk(path, start)
        call = self.calls.send(partial(_wire.pack_fid, _wire.TREMOVE), fid)
        call.future.add_done_callback(lambda _: self._free_fids.append(fid))
        expect(_wire.RREMOVE, await asyncio.shield(call.future))


def _whole(frame: bytes, names: list[str]) -> bool:
    kind, _ = _wire.parse_header(frame, 0)
    return kind == _wire.RWALK and len(_wire.parse_rwalk(frame, 0, len(frame))[0]) == len(names)


def _pack_version(tag: int, msize: int) -> bytes:
    return _wire.pack_version(_wire.TVERSION, tag, msize, _wire.VERSION)


def _user() -> str:
    try:
        return os.environ.get("USER") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _tracer(trace: Callable[[str], None] | None) -> Callable[[str, bytes], None] | None:
    if trace is None:
        return None
    write = trace

    def line(direction: str, frame: bytes) -> None:
        write(f"{direction} {text.format_message(decode(frame), data_limit=text.TRACE_BYTES)}")

    return line
