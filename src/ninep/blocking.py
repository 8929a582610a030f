"""A 9P2000 client that waits for each reply, for command lines.

One connection, one request at a time, no threads. It is built on `_socket` and `_wire` alone: a command line spends
most of its time starting, and `socket`, `asyncio` and the message classes would double that.
"""

import _socket

from ninep import _wire
from ninep._wire import DMAPPEND, DMDIR, ORDWR, OREAD, OTRUNC, OWRITE
from ninep.dial import Unix, parse
from ninep.errors import AUTHENTICATION_FAILED, NAME_TOO_LONG, NOT_FOUND, ConnectionLostError, NinepError, ProtocolError

__all__ = ["DMAPPEND", "DMDIR", "ORDWR", "OREAD", "OTRUNC", "OWRITE", "Connection", "File", "Stat"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    Trace = Callable[[bytes], None]

MSIZE = 64 * 1024 + _wire.IO_HEADER_BYTES

_TAG = 0
_FLUSH_TAG = 1
_ROOT_FID = 0
_AUTH_FID = 1
_FLUSH_TIMEOUT_S = 10.0
_NAMES_TOO_LONG = "uname or aname is too long"


class Stat:
    """A directory entry.

    Args:
        record: its fields in the order of stat(5).
    """

    __slots__ = ("atime", "gid", "length", "mode", "mtime", "muid", "name", "qid", "uid")

    def __init__(self, record: _wire.StatFields) -> None:
        _, _, qid, self.mode, self.atime, self.mtime, self.length, self.name, self.uid, self.gid, self.muid = record
        self.qid: tuple[int, int, int] = _wire.QID.unpack(qid)

    @property
    def is_directory(self) -> bool:
        """Whether it can be listed."""
        return bool(self.mode & DMDIR)


class Connection:
    """A connection, attached.

    Args:
        address: a dial string; or a connected socket, which becomes this connection's own.
        uname: who attaches.
        aname: what is attached to.
        secret: gives the secret when the server asks for one; it may raise what the caller of this wants to see.
        trace: is given every message, sent or received, but those that carry the secret and its answer.
        msize: the longest message offered, in bytes.

    Raises:
        AddressError: for what is no dial string.
        OSError: when nobody listens there.
        NinepError: when the server refuses, with its words; `ConnectionLostError` when it hangs up.
    """

    def __init__(
        self,
        address: str | _socket.socket,
        *,
        uname: str,
        aname: str = "",
        secret: "Callable[[], bytes] | None" = None,
        trace: "Trace | None" = None,
        msize: int = MSIZE,
    ) -> None:
        self._buffer = bytearray()
        self._trace = trace
        self._fids = _AUTH_FID
        self.msize = msize
        self._socket = _connect(address) if isinstance(address, str) else address
        try:
            self._version()
            self._attach(uname, aname, secret)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: "TracebackType | None"
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up: the server gives up every fid, and what was written but not committed is dropped."""
        self._socket.close()

    def open(self, path: str, mode: int) -> "File":
        """The file at `path`, opened; the modes are OREAD, OWRITE, ORDWR, with OTRUNC or not.

        Raises:
            NinepError: `file does not exist`, `permission denied` and others, in the server's words.
        """
        fid = self._walk(path)
        try:
            reply = self.request(_wire.pack_topen(_TAG, fid, mode), _wire.ROPEN)
        except NinepError:
            self._clunk(fid)
            raise
        qid, iounit = _wire.parse_opened(reply, 0, len(reply))
        largest = self.msize - _wire.IO_HEADER_BYTES
        return File(self, fid, min(iounit or largest, largest), is_directory=bool(qid[0] & _wire.QTDIR))

    def stat(self, path: str) -> Stat:
        """The directory entry of `path`."""
        fid = self._walk(path)
        try:
            reply = self.request(_wire.pack_fid(_wire.TSTAT, _TAG, fid), _wire.RSTAT)
        finally:
            self._clunk(fid)
        (record,) = _wire.parse_rstat(reply, 0, len(reply))
        return Stat(_wire.parse_stat(record, 0, len(record)))

    def ls(self, path: str) -> "list[Stat]":
        """The entries of a directory, in the server's order; of a file, its own."""
        entry = self.stat(path)
        if not entry.is_directory:
            return [entry]
        entries = []
        with self.open(path, OREAD) as directory:
            for data in directory:
                at = 0
                while at < len(data):
                    end = _wire.stat_end(data, at, len(data))
                    entries.append(Stat(_wire.parse_stat(data, at, end)))
                    at = end
        return entries

    def request(self, message: bytes, reply: int) -> bytes:
        """Send a message with tag 0 and wait for its reply, which must be of type `reply`: the whole message.

        Interrupted (KeyboardInterrupt), it sends Tflush and waits, at most 10 s, for the server to have stopped.

        Raises:
            NinepError: the ename of an Rerror; `ConnectionLostError`; `ProtocolError` for a reply that is none.
        """
        self._send(message)
        try:
            return self._reply(_wire.parse_header(message, 0)[1], reply)
        except KeyboardInterrupt:
            self._flush()
            raise

    def clunk(self, fid: int) -> None:
        """Give up a fid.

        Raises:
            NinepError: what a commit at clunk met.
        """
        self.request(_wire.pack_fid(_wire.TCLUNK, _TAG, fid), _wire.RCLUNK)

    def _clunk(self, fid: int) -> None:
        try:  # noqa: SIM105  contextlib is slow to import
            self.clunk(fid)
        except NinepError:
            pass  # the error that is on its way already says more

    def _version(self) -> None:
        message = _wire.pack_version(_wire.TVERSION, _wire.NOTAG, self.msize, _wire.VERSION)
        reply = self.request(message, _wire.RVERSION)
        msize, version = _wire.parse_version(reply, 0, len(reply))
        if version != _wire.VERSION:
            raise ProtocolError(f"server speaks {version}, not {_wire.VERSION}")
        if not _wire.MIN_MSIZE <= msize <= self.msize:
            raise ProtocolError(f"server wants messages of {msize} bytes")
        self.msize = msize

    def _attach(self, uname: str, aname: str, secret: "Callable[[], bytes] | None") -> None:
        afid = self._authenticate(uname, aname, secret)
        message = self._packed(_NAMES_TOO_LONG, _wire.pack_tattach, _TAG, _ROOT_FID, afid, uname, aname)
        self.request(message, _wire.RATTACH)
        if afid != _wire.NOFID:
            self._clunk(afid)

    def _authenticate(self, uname: str, aname: str, secret: "Callable[[], bytes] | None") -> int:
        """The fid of a finished authentication, NOFID where the server wants none."""
        message = self._packed(_NAMES_TOO_LONG, _wire.pack_tauth, _TAG, _AUTH_FID, uname, aname)
        try:
            self.request(message, _wire.RAUTH)
        except (ConnectionLostError, ProtocolError):
            raise
        except NinepError:
            return _wire.NOFID  # attach(5): an error means that none is needed
        if secret is None:
            raise NinepError(AUTHENTICATION_FAILED)
        trace, self._trace = self._trace, None
        conversation = File(self, _AUTH_FID, self.msize - _wire.IO_HEADER_BYTES)
        conversation.write(secret())
        conversation.read()  # the session's token: whoever reads it knows that the secret was right
        self._trace = trace
        return _AUTH_FID

    def _walk(self, path: str) -> int:
        """A new fid for `path`; elements that are empty or `.` count as none."""
        names = [name for name in path.split("/") if name and name != "."]
        self._fids = newfid = self._fids + 1
        fid = _ROOT_FID
        while True:
            step, names = names[: _wire.MAXWELEM], names[_wire.MAXWELEM :]
            try:
                reply = self.request(
                    self._packed(NAME_TOO_LONG, _wire.pack_twalk, _TAG, fid, newfid, step), _wire.RWALK
                )
                if len(_wire.parse_rwalk(reply, 0, len(reply))[0]) < len(step):
                    raise NinepError(NOT_FOUND)
            except NinepError:
                if fid == newfid:
                    self._clunk(newfid)
                raise
            fid = newfid
            if not names:
                return fid

    def _packed(self, too_long: str, pack: "Callable[..., bytes]", *fields: object) -> bytes:
        """A message with names, which may be longer than it has room for."""
        try:
            message = pack(*fields)
        except ValueError:
            raise NinepError(too_long) from None
        if len(message) > self.msize:
            raise NinepError(too_long)
        return message

    def _send(self, message: bytes) -> None:
        if self._trace:
            self._trace(message)
        try:
            self._socket.sendall(message)
        except OSError:
            raise ConnectionLostError from None

    def _reply(self, tag: int, kind: int) -> bytes:
        message = self._receive()
        got, its_tag = _wire.parse_header(message, 0)
        if its_tag != tag:
            raise ProtocolError(f"reply to tag {its_tag}, which is not in use")
        if got == _wire.RERROR:
            raise NinepError(_wire.parse_rerror(message, 0, len(message))[0])
        if got != kind:
            raise ProtocolError(f"reply of type {got} instead of {kind}")
        return message

    def _receive(self) -> bytes:
        buffer = self._buffer
        while not (end := _wire.message_end(buffer, 0, self.msize)) or len(buffer) < end:
            try:
                data = self._socket.recv(self.msize)
            except OSError:
                raise ConnectionLostError from None
            if not data:
                raise ConnectionLostError
            buffer += data
        message = bytes(buffer[:end])
        del buffer[:end]
        if self._trace:
            self._trace(message)
        return message

    def _flush(self) -> None:
        """Stop the outstanding request and wait until the server has; nothing can be asked after that."""
        try:
            self._socket.settimeout(_FLUSH_TIMEOUT_S)
            self._send(_wire.pack_tflush(_FLUSH_TAG, _TAG))
            while _wire.parse_header(self._receive(), 0)[1] != _FLUSH_TAG:
                pass
        except (NinepError, OSError):
            pass  # the connection ends in any case
        self.close()


class File:
    """An open file; reads and writes go on where the last one ended, each with a place of its own.

    Iterating gives its pieces as they arrive, to the end of the file. As a context manager it is clunked at the end;
    after an interrupt, or an error in the middle of a write, the connection ends instead, so that no half of a message
    is taken for a whole one.

    Attributes:
        is_directory: whether reading gives directory entries.
    """

    def __init__(self, connection: Connection, fid: int, iounit: int, *, is_directory: bool = False) -> None:
        self.is_directory = is_directory
        self._connection = connection
        self._fid = fid
        self._iounit = iounit
        self._read_offset = 0
        self._write_offset = 0

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: "TracebackType | None"
    ) -> None:
        if kind is None:
            self.close()
        elif self._write_offset or not issubclass(kind, Exception):
            self._connection.close()
        else:
            self._connection._clunk(self._fid)  # noqa: SLF001  the other half of this module

    def __iter__(self) -> "Iterator[bytes]":
        while data := self.read():
            yield data

    def read(self) -> bytes:
        """What one read gives: whatever is there, at most an iounit, after waiting for it; empty at the end."""
        message = _wire.pack_tread(_TAG, self._fid, self._read_offset, self._iounit)
        reply = self._connection.request(message, _wire.RREAD)
        (data,) = _wire.parse_rread(reply, 0, len(reply))
        self._read_offset += len(data)
        return data

    def write(self, data: bytes) -> None:
        """Write all of `data`, in as many messages as it takes; nothing is written by one message without data.

        Raises:
            NinepError: in the server's words; `short write` when it took less than was sent.
        """
        for at in range(0, len(data) or 1, self._iounit):
            piece = data[at : at + self._iounit]
            message = _wire.pack_twrite(_TAG, self._fid, self._write_offset, piece)
            reply = self._connection.request(message, _wire.RWRITE)
            if _wire.parse_rwrite(reply, 0, len(reply))[0] != len(piece):
                raise NinepError("short write")
            self._write_offset += len(piece)

    def commit(self) -> None:
        """Have the server take what was written, by a Twstat that changes nothing (stat(5)).

        Raises:
            NinepError: when it does not take it.
        """
        self._connection.request(_wire.pack_twstat(_TAG, self._fid, _wire.NULL_STAT), _wire.RWSTAT)

    def close(self) -> None:
        """Clunk the file."""
        self._connection.clunk(self._fid)


def _connect(address: str) -> _socket.socket:
    endpoint = parse(address)
    if isinstance(endpoint, Unix):
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.connect(endpoint.path)
        except BaseException:
            connection.close()
            raise
        return connection
    return _connect_tcp(endpoint.host, endpoint.port)


def _connect_tcp(host: str, port: int) -> _socket.socket:
    """A connection to the first address of the host that answers."""
    failure: OSError | None = None
    for family, kind, protocol, _, place in _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM):
        connection = _socket.socket(family, kind, protocol)
        try:
            connection.connect(place)
            connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        except OSError as error:
            connection.close()
            failure = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise failure or OSError(f"no address for {host}")
