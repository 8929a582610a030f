"""The blocking client against real servers: one of ours in a thread, and sockets that misbehave."""

import asyncio
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ninep import _wire
from ninep.blocking import Connection
from ninep.dial import AddressError
from ninep.errors import ConnectionLostError, NinepError, ProtocolError
from ninep.files import Dir, Level, Peer, Request, Sink, Text
from threaded import Threaded

_BIG = bytes(range(256)) * 4096
_DEEP = "/".join(["d"] * 40)


class Served(Threaded):
    """A server of a small tree."""

    def __init__(self, address: str, secret: bytes = b"") -> None:
        self.taken: list[bytes] = []
        self.cancelled = threading.Event()
        self.waiting = threading.Event()
        super().__init__(address, secret)

    def entries(self) -> tuple[Any, ...]:
        """Files of every kind that a client meets."""

        async def echo(_obj: object, _peer: Peer, data: bytes) -> AsyncIterator[bytes]:
            yield b"you said: "
            yield data

        async def bare(_obj: object, _peer: Peer, data: bytes) -> None:
            self.taken.append(data)

        async def take(_obj: object, _peer: Peer, data: bytes) -> None:
            if b"bad" in data:
                raise NinepError("bad words")
            self.taken.append(data)

        def check(_obj: object, _peer: Peer, _data: bytes, size: int) -> None:
            if size > 2**21:
                raise NinepError("too long")

        async def hang(_obj: object, _peer: Peer) -> bytes:
            self.waiting.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return b""

        deep: Any = Text("end", 0o440, "The end.", render=lambda _obj, _peer: b"deep\n")
        for _ in range(40):
            deep = Dir("d", "Deeper.", (deep,))
        many: tuple[Any, ...] = tuple(
            Text(f"{n:04}", 0o440, "One of many.", render=lambda _obj, _peer: b"") for n in range(500)
        )
        return (
            Text("hello", 0o440, "A greeting.", render=lambda _obj, _peer: b"hello\n"),
            Text("big", 0o440, "A megabyte.", render=lambda _obj, _peer: _BIG),
            Text("private", 0o400, "Not for all.", render=lambda _obj, _peer: b""),
            Request("echo", 0o660, "Says it again.", run=echo, bare=bare),
            Sink("inbox", 0o220, "Takes messages.", take=take, check=check),
            Level("hang", 0o440, "Never.", wait=hang),
            Dir("many", "Many files.", many),
            deep,
        )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(f"unix!{tmp_path}/s")
    yield served
    served.close()


def _open(served: Served, **options: Any) -> Connection:
    return Connection(served.address, uname="glenda", **options)


@pytest.mark.parametrize("msize", [256, 1000, 8192, 65560, 2**20])
def test_read(served: Served, msize: int) -> None:
    """Files of any size are read whole, whatever the messages' size."""
    with _open(served, msize=msize) as connection:
        assert connection.msize == msize
        for path, data in [("hello", b"hello\n"), ("/hello/", b"hello\n"), ("big", _BIG[: 64 * msize])]:
            got = b""
            with connection.open(path, _wire.OREAD) as file:
                for piece in file:
                    got += piece
                    if len(got) >= len(data):
                        break
            assert got[: len(data)] == data


@pytest.mark.parametrize("msize", [256, 65560])
def test_ls(served: Served, msize: int) -> None:
    """Directories longer than a message are listed whole; a file is its own list."""
    with _open(served, msize=msize) as connection:
        assert [entry.name for entry in connection.ls("many")] == [f"{n:04}" for n in range(500)]
        names = {entry.name: entry.is_directory for entry in connection.ls("/")}
        assert names["many"]
        assert not names["hello"]
        assert [entry.name for entry in connection.ls("hello")] == ["hello"]


def test_stat(served: Served) -> None:
    """A directory entry has the server's mode, owner and times."""
    with _open(served) as connection:
        entry = connection.stat("hello")
        assert (entry.name, stat.S_IMODE(entry.mode), entry.gid, entry.length) == ("hello", 0o440, "agent", 0)
        assert connection.stat("").is_directory
        assert entry.qid != connection.stat("big").qid


def test_long_walks(served: Served) -> None:
    """A path of more than sixteen names is walked in steps, and leaves nothing behind where it fails."""
    with _open(served) as connection:
        with connection.open(f"{_DEEP}/end", _wire.OREAD) as file:
            assert file.read() == b"deep\n"
        for path in ("nowhere", f"{_DEEP}/nowhere", "d/" * 20 + "x/y", "hello/x"):
            with pytest.raises(NinepError, match=r"file does not exist|not a directory"):
                connection.stat(path)
        assert served.server.statistics().fids == 1


def test_errors_leave_the_connection_usable(served: Served) -> None:
    """An error of the server is told in its words, and the next request works."""
    with _open(served) as connection:
        with pytest.raises(NinepError, match="permission denied"):
            connection.open("private", _wire.OREAD)
        with pytest.raises(NinepError, match="permission denied"), connection.open("hello", _wire.OWRITE):
            pass
        assert connection.stat("hello").name == "hello"
        assert served.server.statistics().fids == 1


def test_write_and_commit(served: Served) -> None:
    """What is written in pieces is taken as one message at the commit, and only once."""
    with _open(served) as connection, connection.open("inbox", _wire.OWRITE | _wire.OTRUNC) as file:
        file.write(b"one ")
        file.write(b"message")
        assert served.taken == []
        file.commit()
        assert served.taken == [b"one message"]
    served.until_idle()
    assert served.taken == [b"one message"]


def test_an_empty_message(served: Served) -> None:
    """Nothing, written on purpose, is a message; a commit of a file that was not written to takes none."""
    with _open(served) as connection, connection.open("inbox", _wire.OWRITE) as file:
        file.commit()
        assert served.taken == []
        file.write(b"")
        file.commit()
        assert served.taken == [b""]
    served.until_idle()
    assert served.taken == [b""]


def test_names_too_long(served: Served) -> None:
    """A name that no message can carry is refused before it is sent."""
    with _open(served) as connection:
        for path in ("x" * 70_000, "x" * 60_000 + "/" + "y" * 60_000, "hello/" + "x" * 70_000):
            with pytest.raises(NinepError, match="file name too long"):
                connection.stat(path)
        assert connection.stat("./hello").name == "hello"
        assert served.server.statistics().fids == 1


def test_commit_tells_the_error(served: Served) -> None:
    """A message that the server does not take is an error of the commit."""
    with _open(served) as connection:
        file = connection.open("inbox", _wire.OWRITE)
        file.write(b"bad")
        with pytest.raises(NinepError, match="bad words"):
            file.commit()
    served.until_idle()
    assert served.taken == []


def test_no_half_message_is_taken(served: Served) -> None:
    """When a write is refused in the middle, what came before it is dropped, not taken."""
    with (
        pytest.raises(NinepError, match="too long"),
        _open(served) as connection,
        connection.open("inbox", _wire.OWRITE) as file,
    ):
        file.write(b"x" * 2**22)
    served.until_idle()
    assert served.taken == []


def test_rdwr(served: Served) -> None:
    """A request is answered after it was written, from the answer's beginning."""
    with _open(served) as connection, connection.open("echo", _wire.ORDWR) as file:
        file.write(b"hi")
        assert b"".join(file) == b"you said: hi"


@pytest.mark.parametrize("address", ["tcp!127.0.0.1!0", "tcp!localhost!0"])
def test_tcp(address: str) -> None:
    """TCP works as a unix socket does."""
    served = Served(address)
    try:
        with _open(served) as connection, connection.open("hello", _wire.OREAD) as file:
            assert file.read() == b"hello\n"
    finally:
        served.close()


def test_secret(tmp_path: Path) -> None:
    """A server that asks for a secret gets it, and it is in no trace; without it, or with another, the attach fails."""
    served = Served(f"unix!{tmp_path}/s", b"open sesame")
    trace: list[bytes] = []
    try:
        with _open(served, secret=lambda: b"open sesame", trace=trace.append) as connection:
            assert connection.stat("hello").name == "hello"
            assert served.server.statistics().fids == 1
        assert not any(b"sesame" in message or b"token" in message for message in trace)
        with pytest.raises(NinepError, match="wrong secret"):
            _open(served, secret=lambda: b"mellon")
        with pytest.raises(NinepError, match="authentication failed"):
            _open(served)
        served.until_idle()
    finally:
        served.close()


def test_trace(served: Served) -> None:
    """Every message is told, in order, whole."""
    trace: list[bytes] = []
    with _open(served, trace=trace.append) as connection:
        connection.stat("hello")
    kinds = [_wire.parse_header(message, 0)[0] for message in trace]
    expected = [_wire.TVERSION, _wire.TAUTH, _wire.TATTACH, _wire.TWALK, _wire.TSTAT, _wire.TCLUNK]
    assert kinds[::2] == expected
    assert kinds[1::2] == [_wire.RERROR if kind == _wire.TAUTH else kind + 1 for kind in expected]
    assert all(_wire.message_end(message, 0, 2**20) == len(message) for message in trace)


@pytest.mark.parametrize("path", ["hang", "inbox"])
def test_interrupt(served: Served, path: str) -> None:
    """An interrupt stops what runs on the server, hangs up, and drops what was not committed."""
    code = f"""
import sys
from ninep.blocking import Connection
try:
    with Connection({served.address!r}, uname="u") as connection:
        with connection.open({path!r}, {1 if path == "inbox" else 0}) as file:
            if {path!r} == "inbox":
                file.write(b"half a message")
                print("written", flush=True)
                sys.stdin.read()
            file.read()
except KeyboardInterrupt:
    print("interrupted")
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        if path == "hang":
            assert served.waiting.wait(30)
        else:
            assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"
    served.until_idle()
    assert served.cancelled.is_set() == (path == "hang")
    assert served.taken == []


def test_server_goes(served: Served) -> None:
    """A server that hangs up in the middle of a read is told as such."""
    failures: list[Exception] = []

    def read() -> None:
        try:
            with _open(served) as connection, connection.open("hang", _wire.OREAD) as file:
                file.read()
        except NinepError as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert served.waiting.wait(30)
    served.run(served.server.close())
    reader.join()
    assert [type(failure) for failure in failures] == [ConnectionLostError]


def test_nobody_there(tmp_path: Path) -> None:
    """Where nobody listens the system's error is told, and what is no address is refused."""
    with pytest.raises(FileNotFoundError):
        Connection(f"unix!{tmp_path}/none", uname="u")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            Connection(f"tcp!127.0.0.1!{closed.getsockname()[1]}", uname="u")
    with pytest.raises(AddressError):
        Connection("nowhere", uname="u")


def _version(message: bytes) -> bytes:
    return _wire.pack_version(_wire.RVERSION, _wire.NOTAG, _wire.parse_version(message, 0, len(message))[0], "9P2000")


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (lambda _: b"", ConnectionLostError, "connection lost"),
        (lambda _: b"\x03\0\0\0", ProtocolError, "shorter than its header"),
        (lambda _: b"\xff\xff\xff\xff", ProtocolError, "longer than the msize"),
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError, "longer than the msize"),
        (lambda _: _wire.pack_version(_wire.RVERSION, _wire.NOTAG, 8192, "unknown"), ProtocolError, "speaks unknown"),
        (lambda _: _wire.pack_version(_wire.RVERSION, _wire.NOTAG, 2**30, "9P2000"), ProtocolError, "messages of"),
        (lambda _: _wire.pack_version(_wire.RVERSION, _wire.NOTAG, 10, "9P2000"), ProtocolError, "messages of"),
        (lambda _: _wire.pack_rerror(_wire.NOTAG, "go away"), NinepError, "go away"),
        (lambda _: _wire.pack_empty(_wire.RCLUNK, _wire.NOTAG), ProtocolError, "reply of type 121 instead of 101"),
        (lambda message: _version(message) * 2, ProtocolError, "which is not in use"),
    ],
)
def test_bad_servers(answer: Callable[[bytes], bytes], error: type[Exception], text: str, tmp_path: Path) -> None:
    """A server that does not speak 9P2000, or not as it should, is an error with the reason, never a hang."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                reply = answer(peer.recv(8192))
                peer.sendall(reply)
                # Whatever is asked next gets no further answer: the client has to make do with what came.
                if reply:
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(8192):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(error, match=text):
            Connection(f"unix!{tmp_path}/s", uname="u")
        thread.join()


def test_imports() -> None:
    """The client brings nothing along that is slow to import."""
    code = "import sys; before = set(sys.modules); import ninep.blocking; print(*sorted(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(out.split()) <= {
        *("_socket", "_struct", "struct"),
        *("ninep", "ninep._wire", "ninep.blocking", "ninep.dial", "ninep.errors"),
    }
