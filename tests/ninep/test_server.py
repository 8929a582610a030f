"""The server as a whole: connections, their end, back-pressure, authentication."""

import asyncio
import hmac
import os
import socket
from pathlib import Path

import pytest

from ninep import _wire
from ninep.client import Client
from ninep.errors import NinepError
from ninep.messages import (
    Rattach,
    Rauth,
    Rclunk,
    Rerror,
    Ropen,
    Rread,
    Rstat,
    Rversion,
    Rwalk,
    Rwrite,
    Stat,
    Tattach,
    Tauth,
    Tclunk,
    Topen,
    Tread,
    Tstat,
    Tversion,
    Twalk,
    Twrite,
    Twstat,
    encode,
)
from ninep.server import AfidConversation, Conn, Limits, Server
from ninep.testing import Line, Sample, connected, line_to, sample_server, sample_tree
from ninep.tree import Peer, Role


async def opened(line: Line, fid: int, path: str, mode: int = 0) -> None:
    """Walk and open."""
    walked = await line.rpc(Twalk(1, 0, fid, tuple(path.split("/"))))
    assert isinstance(walked, Rwalk)
    assert isinstance(await line.rpc(Topen(1, fid, mode)), Ropen)


# Listening


@pytest.mark.parametrize("address", ["unix!{}/socket", "tcp!127.0.0.1!0", "tcp!127.0.0.1:0"])
async def test_listens_on_both_kinds_of_address(address: str, server: Server, tmp_path: Path) -> None:
    """The address that comes back can be dialled."""
    where = await server.listen(address.format(tmp_path))
    async with await Client.connect(where, uname="glenda") as client:
        assert await client.read("readme") == b"a sample of every kind\n"


async def test_listens_on_several_addresses_at_once(server: Server, tmp_path: Path) -> None:
    """Each serves the same tree, and callbacks see which one a connection came by."""
    addresses = [await server.listen(f"unix!{tmp_path}/{name}") for name in "ab"]
    for address in addresses:
        async with await Client.connect(address, uname="glenda") as client:
            assert await client.ls()


async def test_a_stale_socket_is_replaced_and_one_in_use_is_not(server: Server, sample: Sample, tmp_path: Path) -> None:
    """A second server on the same socket is refused; one that was killed leaves no obstacle."""
    path = tmp_path / "socket"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    await server.listen(f"unix!{path}")
    other = sample_server(sample)
    with pytest.raises(OSError, match="in use"):
        await other.listen(f"unix!{path}")
    async with await Client.connect(f"unix!{path}", uname="glenda") as client:
        assert await client.ls()


async def test_close_ends_connections_and_removes_the_socket(sample: Sample, tmp_path: Path) -> None:
    """Clients see the end, the socket is gone."""
    server = sample_server(sample)
    where = await server.listen(f"unix!{tmp_path}/socket")
    client = await Client.connect(where, uname="glenda")
    reading = asyncio.ensure_future(client.read("thing/a/level"))
    await server.until(lambda now: now.outstanding == 1)
    await server.close()
    with pytest.raises(NinepError, match="connection lost"):
        await reading
    assert not (tmp_path / "socket").exists()
    await client.close()


async def test_callbacks_see_the_socket(tmp_path: Path) -> None:
    """Peer credentials come from it; `state` is the callbacks' own."""
    seen: list[tuple[int, object]] = []

    async def attach(conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> Peer:
        pid = conn.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        conn.state.setdefault("count", 0)
        conn.state["count"] += 1
        seen.append((int.from_bytes(pid[:4], "little"), conn.state["count"]))
        return Peer(uname, aname, Role.USER)

    server = Server(sample_tree(Sample()), attach)
    where = await server.listen(f"unix!{tmp_path}/socket")
    line = await Line.dial(where)
    await line.begin()
    await line.rpc(Tattach(1, 1, _wire.NOFID, "glenda", ""))
    assert seen == [(os.getpid(), 1), (os.getpid(), 2)]
    await line.close()
    await server.close()


async def test_a_slow_attach_delays_nothing_else(sample: Sample) -> None:
    """Another attach of the same connection is answered first; the fid is reserved meanwhile."""
    go_on = asyncio.Event()

    async def attach(_conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> Peer:
        if uname == "slow":
            await go_on.wait()
        return Peer(uname, aname, Role.USER)

    server = Server(sample_tree(sample), attach)
    async with line_to(server) as line:
        await line.begin()
        await line.send(Tattach(1, 1, _wire.NOFID, "slow", ""), Tattach(2, 1, _wire.NOFID, "glenda", ""))
        assert await line.receive() == Rerror(2, "fid already in use")
        assert await line.rpc(Twalk(2, 1, 3, ())) == Rerror(2, "unknown fid")
        assert isinstance(await line.rpc(Tattach(2, 2, _wire.NOFID, "glenda", "")), Rattach)
        go_on.set()
        assert isinstance(await line.receive(), Rattach)
    await server.close()


async def test_the_trace_has_a_line_for_each_message(sample: Sample) -> None:
    """Both directions, in the notation of scripts."""
    lines: list[str] = []
    server = sample_server(sample, trace=lines.append)
    async with line_to(server) as line:
        await line.rpc(Tversion(_wire.NOTAG, 8192, "9P2000"))
    assert lines == [
        '<- Tversion tag=~ msize=8192 version="9P2000"',
        '-> Rversion tag=~ msize=8192 version="9P2000"',
    ]
    await server.close()


# Messages in segments


async def test_many_messages_in_one_segment(server: Server) -> None:
    """They are handled in order, each on the outcome of the one before."""
    async with line_to(server) as line:
        await line.begin()
        await line.send(
            Twalk(1, 0, 1, ("thing", "a", "note")),
            Topen(2, 1, _wire.ORDWR),
            Twrite(3, 1, 0, b"text"),
            Tread(4, 1, 0, 10),
            Tclunk(5, 1),
            Twalk(6, 0, 1, ("readme",)),
        )
        replies = [type(await line.receive()) for _ in range(6)]
        assert replies == [Rwalk, Ropen, Rwrite, Rread, Rclunk, Rwalk]


async def test_a_message_in_many_segments(server: Server, sample: Sample) -> None:
    """A Twrite as large as the msize arrives in pieces and is one write."""
    async with line_to(server) as line:
        await line.begin(msize=1024 * 1024)
        await opened(line, 1, "thing/a/note", _wire.OWRITE)
        data = bytes(range(256)) * 4000
        frame = encode(Twrite(1, 1, 0, data))
        for at in range(0, len(frame), 50_000):
            await line.send(frame[at : at + 50_000])
        assert await line.receive() == Rwrite(1, len(data))
        assert sample.things["a"].note.data == data


async def test_a_large_reply_is_whole(server: Server, sample: Sample) -> None:
    """More than 64 KiB in one message."""
    sample.things["a"].note.data = bytes(range(256)) * 4000
    async with line_to(server) as line:
        await line.begin(msize=1024 * 1024)
        await opened(line, 1, "thing/a/note")
        assert await line.rpc(Tread(1, 1, 0, 1024 * 1024)) == Rread(1, sample.things["a"].note.data)


async def test_a_malformed_message_is_one_line_in_the_log(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """It ends its connection, says why once, and leaves nothing."""
    async with line_to(server) as line:
        await line.begin()
        await opened(line, 1, "thing/a/level")
        await line.send(Tread(1, 1, 0, 100), b"\x06\0\0\0\x78\1\0" * 5)
        assert await line.closed()
    await server.until(lambda now: now.connections == 0)
    assert [record.getMessage() for record in caplog.records] == [
        "closed a connection: message of 6 bytes is shorter than its header"
    ]


# The end of connections


async def test_a_lost_connection_frees_its_readers_and_stops_what_runs(server: Server, sample: Sample) -> None:
    """Blocked reads of every kind, requests, slow opens, a command: no fid, no request, no task is left."""
    thing = sample.things["a"]
    line: Line
    async with line_to(server) as line:
        await line.begin()
        for fid, name in enumerate(["level", "change", "log"], 1):
            await opened(line, fid, f"thing/a/{name}")
            await line.send(Tread(20 + fid, fid, 0, 100))
        await opened(line, 4, "thing/a/ask", _wire.ORDWR)
        assert isinstance(await line.rpc(Twrite(9, 4, 0, b"q")), Rwrite)
        assert isinstance(await line.rpc(Tread(9, 4, 0, 100)), Rread)
        await line.send(Tread(24, 4, 5, 100))
        await opened(line, 5, "thing/a/ctl", _wire.ORDWR)
        await line.send(Twrite(25, 5, 0, b"wait"))
        await line.rpc(Twalk(9, 0, 6, ("thing", "a", "slow")))
        await line.send(Topen(26, 6, 0))
        now = await server.until(lambda now: now.outstanding == 6)
        assert (now.connections, now.fids) == (1, 7)
        assert (thing.running, thing.changes.watchers) == (1, 1)
        line.abort()
        now = await server.until(lambda now: now.connections == 0)
    assert (now.fids, now.outstanding) == (0, 0)
    assert (thing.running, thing.closed, thing.changes.watchers) == (0, 1, 0)


async def test_a_client_that_disappears_in_any_state_leaves_nothing(server: Server) -> None:
    """Cut anywhere in a conversation, also in the middle of a message."""
    conversation = b"".join(
        map(
            encode,
            [
                Tversion(_wire.NOTAG, 8192, "9P2000"),
                Tattach(0, 0, _wire.NOFID, "glenda", ""),
                Twalk(1, 0, 1, ("thing", "a", "ask")),
                Topen(1, 1, _wire.ORDWR),
                Twrite(1, 1, 0, b"q"),
                Tread(1, 1, 0, 100),
                Tread(2, 1, 5, 100),
                Tclunk(3, 1),
            ],
        )
    )
    for cut in range(1, len(conversation) + 1, 3):
        async with line_to(server) as line:
            await line.send(conversation[:cut])
    now = await server.until(lambda now: now.connections == 0)
    assert (now.fids, now.outstanding) == (0, 0)


async def test_a_lost_connection_discards_what_was_not_committed(server: Server, sample: Sample) -> None:
    """Half a message is no message."""
    async with line_to(server) as line:
        await line.begin()
        await opened(line, 1, "thing/a/inbox", _wire.OWRITE)
        assert isinstance(await line.rpc(Twrite(1, 1, 0, b"half a mess")), Rwrite)
    await server.until(lambda now: now.connections == 0)
    assert sample.things["a"].messages == []


async def test_a_clunk_that_was_sent_commits_though_nobody_waits_for_it(server: Server, sample: Sample) -> None:
    """A client may clunk and go."""
    async with line_to(server) as line:
        await line.begin()
        await opened(line, 1, "thing/a/inbox", _wire.OWRITE)
        await line.send(Twrite(1, 1, 0, b"a message"), Tclunk(2, 1))
    await server.until(lambda now: now.connections == 0)
    assert sample.things["a"].messages == [b"a message"]


async def test_a_callback_that_ignores_its_cancellation_does_not_hold_the_server(sample: Sample) -> None:
    """After `cleanup_s` it is left to itself."""
    never = asyncio.Event()
    entered = asyncio.Event()

    async def attach(_conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> Peer:
        while not never.is_set():
            entered.set()
            try:
                await never.wait()
            except asyncio.CancelledError:
                continue
        return Peer(uname, aname, Role.USER)

    server = Server(sample_tree(sample), attach, limits=Limits(cleanup_s=0.01))
    async with line_to(server) as line:
        await line.rpc(Tversion(_wire.NOTAG, 8192, "9P2000"))
        await line.send(Tattach(1, 0, _wire.NOFID, "glenda", ""))
        await entered.wait()
    await server.until(lambda now: now.connections == 0)
    never.set()
    await server.close()


# Back-pressure


async def test_a_client_that_does_not_read_stops_being_served(server: Server, sample: Sample) -> None:
    """Of replies for many times the socket's buffer the server makes a few, and the rest as they are read."""
    reads, size = 400, 100_000
    made = 0
    note = sample.things["a"].note
    note.data = b"x" * size

    def read(offset: int, count: int) -> bytes:
        nonlocal made
        made += 1
        return note.data[offset : offset + count]

    note.read = read  # type: ignore[method-assign]  # counted
    async with line_to(server) as line:
        await line.begin(msize=1024 * 1024)
        await opened(line, 1, "thing/a/note")
        await line.send(*[Tread(tag, 1, 0, size) for tag in range(reads)])
        assert isinstance(await line.receive(), Rread)
        made_before = made
        for _ in range(reads - 1):
            assert isinstance(await line.receive(), Rread)
        assert made_before < reads / 4
        assert made == reads
        assert isinstance(await line.rpc(Tstat(1, 1)), Rstat)


async def test_requests_sent_one_by_one_stop_being_served_as_well(server: Server, sample: Sample) -> None:
    """Each in a segment of its own, and none of the replies is read."""
    sample.things["a"].note.data = b"x" * 100_000
    async with line_to(server) as line:
        await line.begin(msize=1024 * 1024)
        await opened(line, 1, "thing/a/note")
        for tag in range(300):
            await line.send(Tread(tag, 1, 0, 100_000))
            await asyncio.sleep(0)
        (connection,) = server.connections
        assert connection.buffered_bytes < 1024 * 1024
        for _ in range(300):
            assert isinstance(await line.receive(), Rread)


async def test_each_fid_may_have_a_read_that_waits(server: Server, sample: Sample) -> None:
    """Thousands at once hold up nothing; then a read gives little, so that all together do not fill memory."""
    reads = 3000
    sample.things["a"].note.data = b"x" * 10_000
    async with line_to(server) as line:
        await line.begin(msize=1024 * 1024)
        await opened(line, 1, "thing/a/note")
        assert await line.rpc(Tread(1, 1, 0, 10_000)) == Rread(1, bytes(sample.things["a"].note.data))
        for number in range(reads):
            await opened(line, 10 + number, "thing/a/level")
            await line.send(Tread(10 + number, 10 + number, 0, 10_000))
        assert await line.rpc(Tread(1, 1, 0, 10_000)) == Rread(1, b"x" * 4096)
        sample.things["a"].ready.set()
        for _ in range(reads):
            reply = await line.receive()
            assert isinstance(reply, Rread)
            assert reply.data == b"ready\n"
        assert isinstance(await line.rpc(Tread(1, 1, 4096, 10_000)), Rread)


# Authentication


class Secrets:
    """Right is what was set; a token is read back."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    async def begin(self, _conn: Conn, uname: str, _aname: str) -> AfidConversation:
        """Everybody but `nobody` may try."""
        if uname == "nobody":
            raise NinepError("permission denied")
        return _Conversation(self.secret)


class _Conversation:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.done = False

    async def read(self, count: int) -> bytes:
        return b"token"[:count] if self.done else b""

    async def write(self, data: bytes) -> None:
        if not hmac.compare_digest(data, self._secret):
            raise NinepError("authentication failed")
        self.done = True


@pytest.fixture
def guarded(sample: Sample) -> Server:
    """A server that attaches only who has the secret."""

    async def attach(_conn: Conn, uname: str, aname: str, auth: AfidConversation | None) -> Peer:
        if auth is None:
            raise NinepError("authentication failed")
        return Peer(uname, aname, Role.USER)

    return Server(sample_tree(sample), attach, auth=Secrets(b"open sesame"))


async def test_the_secret_opens_the_door(guarded: Server) -> None:
    """The token comes back, and the tree is there."""
    async with connected(guarded, secret=b"open sesame") as client:
        assert client.token == b"token"
        assert await client.read("readme")
    with pytest.raises(NinepError, match="authentication failed"):
        async with connected(guarded, secret=b"open barley"):
            pass
    with pytest.raises(NinepError, match="authentication failed"):
        async with connected(guarded):
            pass
    await guarded.close()


async def test_tauth_where_none_is_needed_is_an_error_that_clients_fall_back_from(server: Server) -> None:
    """The client attaches without an afid then."""
    async with line_to(server) as line:
        await line.rpc(Tversion(_wire.NOTAG, 8192, "9P2000"))
        assert await line.rpc(Tauth(1, 5, "glenda", "")) == Rerror(1, "authentication not required")
        assert isinstance(await line.rpc(Tattach(1, 5, _wire.NOFID, "glenda", "")), Rattach)
    async with connected(server, secret=b"whatever") as client:
        assert client.token == b""
        assert await client.read("readme")


async def test_an_afid_is_for_authentication_only(guarded: Server) -> None:
    """It can be read, written and clunked, nothing else; it attaches only when finished, and only its own user."""
    async with line_to(guarded) as line:
        await line.rpc(Tversion(_wire.NOTAG, 8192, "9P2000"))
        assert isinstance(await line.rpc(Tauth(1, 9, "glenda", "tree")), Rauth)
        misused = "fid is for authentication only"
        for message in (Twalk(1, 9, 8, ()), Topen(1, 9, 0), Tstat(1, 9), Twstat(1, 9, Stat())):
            assert await line.rpc(message) == Rerror(1, misused)
        assert await line.rpc(Tattach(1, 0, 9, "glenda", "tree")) == Rerror(1, "authentication is not finished")
        assert await line.rpc(Twrite(1, 9, 0, b"wrong")) == Rerror(1, "authentication failed")
        assert isinstance(await line.rpc(Twrite(1, 9, 0, b"open sesame")), Rwrite)
        assert await line.rpc(Tread(1, 9, 100, 2)) == Rread(1, b"to")
        other = "authentication was for another uname or aname"
        assert await line.rpc(Tattach(1, 0, 9, "boyd", "tree")) == Rerror(1, other)
        assert await line.rpc(Tattach(1, 0, 9, "glenda", "")) == Rerror(1, other)
        assert isinstance(await line.rpc(Tattach(1, 0, 9, "glenda", "tree")), Rattach)
        assert isinstance(await line.rpc(Tattach(1, 1, 9, "glenda", "tree")), Rattach)
        assert await line.rpc(Tattach(1, 2, 0, "glenda", "tree")) == Rerror(1, "authentication failed")
        assert await line.rpc(Tattach(1, 2, 77, "glenda", "tree")) == Rerror(1, "unknown fid")
        assert await line.rpc(Tclunk(1, 9)) == Rclunk(1)
        assert isinstance(await line.rpc(Tstat(1, 0)), Rstat)
        assert await line.rpc(Tauth(1, 9, "nobody", "")) == Rerror(1, "permission denied")
        assert isinstance(await line.rpc(Tauth(1, 9, "glenda", "")), Rauth)
    await guarded.close()


async def test_a_version_with_a_larger_msize_than_ours(sample: Sample) -> None:
    """The server's own limit holds."""
    server = sample_server(sample, limits=Limits(msize=4096))
    async with line_to(server) as line:
        assert await line.rpc(Tversion(_wire.NOTAG, 65536, "9P2000")) == Rversion(_wire.NOTAG, 4096, "9P2000")
        await line.send(b"\x01\x10\0\0\x78\1\0" + bytes(4090))
        assert await line.closed()
    await server.close()
