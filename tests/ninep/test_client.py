"""The client against the server."""

import asyncio
import socket
from pathlib import Path

import pytest

from ninep import _wire, dial
from ninep.client import Client
from ninep.client.calls import Calls
from ninep.errors import ConnectionLostError, NinepError, ProtocolError
from ninep.messages import Message, Rversion, Stat, encode
from ninep.server import Server
from ninep.testing import Line, Sample, connected
from ninep.text import parse_message


async def test_files_by_their_paths(server: Server, sample: Sample) -> None:
    """Read, write, rdwr, ls, stat, rename, remove."""
    async with connected(server) as client:
        assert await client.read("/thing/./a/label") == b"a\n"
        await client.write("thing/a/note", b"one")
        await client.write("thing/a/note", b"two", truncate=True)
        assert await client.read("thing/a/note") == b"two"
        assert (await client.stat("thing/a/note")).length == 3
        assert await client.rdwr("thing/a/ctl", b"echo hello\n") == b"hello\n"
        assert [entry.name for entry in await client.ls("thing")] == ["idx", "a"]
        assert (await client.stat("")).is_dir
        await client.rename("thing/a", "b")
        assert [entry.name for entry in await client.ls("thing")] == ["idx", "b"]
        await client.remove("thing/b")
        assert sample.things == {}
        with pytest.raises(NinepError, match="file does not exist"):
            await client.read("thing/b/label")


async def test_a_rename_as_linux_asks_for_it(server: Server, sample: Sample) -> None:
    """With its uname as the one who changed the file last, which is refused without a name."""
    async with connected(server) as client:
        await client.wstat("thing/a", Stat(name="b", muid="somebody"))
        assert list(sample.things) == ["b"]
        with pytest.raises(NinepError, match="wstat prohibited"):
            await client.wstat("thing/b", Stat(name="c", uid="somebody"))
        for path in ("thing/b", "thing/b/note"):
            with pytest.raises(NinepError, match="wstat prohibited"):
                await client.wstat(path, Stat(muid="somebody"))


async def test_what_is_refused_is_raised(server: Server, sample: Sample) -> None:
    """At the commit, so that a write that returned was taken."""
    async with connected(server) as client:
        await client.write("thing/a/inbox", b"good")
        with pytest.raises(NinepError, match="bad message"):
            await client.write("thing/a/inbox", b"bad")
        assert sample.things["a"].messages == [b"good"]
        assert sample.errors == []
        with pytest.raises(NinepError, match="permission denied"):
            await client.read("thing/a/inbox")


async def test_a_close_without_commit_raises_as_well(server: Server, sample: Sample) -> None:
    """Clunk commits, and its error is the caller's and the server's."""
    async with connected(server) as client:
        file = await client.open("thing/a/inbox", _wire.OWRITE)
        await file.write(b"bad")
        with pytest.raises(NinepError, match="bad message"):
            await file.close()
        assert sample.errors == [("glenda", "thing/a/inbox", "bad message")]


async def test_a_block_left_by_an_error_does_not_wait_for_the_clunk(server: Server) -> None:
    """The file is closed all the same, and the error is the block's."""

    async def leave(client: Client) -> None:
        async with await client.open("readme"):
            raise ZeroDivisionError

    async with connected(server) as client:
        with pytest.raises(ZeroDivisionError):
            await leave(client)
        await server.until(lambda now: now.fids == 1)


async def test_long_data_goes_in_many_messages(server: Server) -> None:
    """A file larger than the msize, both ways, and a directory too."""
    data = bytes(range(256)) * 4000
    async with connected(server) as client:
        await client.write("thing/a/note", data)
        assert await client.read("thing/a/note") == data


async def test_a_path_of_many_names(server: Server) -> None:
    """More than 16 names take more than one Twalk."""
    async with connected(server) as client:
        assert await client.read("thing/a/../../" * 10 + "readme")
        with pytest.raises(NinepError, match="file does not exist"):
            await client.stat("thing/a/../../" * 10 + "nothing")
        with pytest.raises(NinepError, match="file does not exist"):
            await client.stat("thing/nothing/" + "x/" * 20)
        await server.until(lambda now: now.fids == 1)


async def test_requests_run_at_the_same_time(server: Server, sample: Sample) -> None:
    """A hundred blocked reads, and everything else goes on."""
    async with connected(server) as client:
        reads = [asyncio.ensure_future(client.read("thing/a/level")) for _ in range(100)]
        await server.until(lambda now: now.outstanding == 100)
        assert await client.read("readme")
        sample.things["a"].ready.set()
        assert await asyncio.gather(*reads) == [b"ready\n"] * 100
        await server.until(lambda now: now.fids == 1)


async def test_a_stream_gives_what_comes_as_it_comes(server: Server, sample: Sample) -> None:
    """A log, piece by piece, to its end; a consumer that stops leaves nothing open."""
    log = sample.things["a"].log
    log.append(b"one\n")
    async with connected(server) as client:
        pieces = []
        async for piece in client.stream("thing/a/log"):
            pieces.append(piece)
            if len(pieces) == 1:
                log.append(b"two\n")
            else:
                log.end()
        assert pieces == [b"one\n", b"two\n"]
        stream = client.stream("thing/a/log")
        assert await anext(stream) == b"one\ntwo\n"
        await stream.aclose()
        await server.until(lambda now: now.fids == 1)


async def test_a_request_is_streamed_and_cancelled_by_leaving_it(server: Server, sample: Sample) -> None:
    """Closing the stream clunks the fid, which ends what runs."""
    thing = sample.things["a"]
    async with connected(server) as client:
        stream = client.rdwr_stream("thing/a/ask", b"who")
        assert await anext(stream) == b"got who"
        assert thing.running == 1
        await stream.aclose()
        await server.until(lambda now: now.fids == 1)
        assert (thing.running, thing.closed) == (0, 1)


async def test_cancelling_a_task_flushes_its_request(server: Server, sample: Sample) -> None:
    """The cancellation goes on when the server has ended what ran; the fid is given back, the client goes on."""
    thing = sample.things["a"]
    async with connected(server) as client:
        asking = asyncio.ensure_future(client.rdwr("thing/a/ask", b"who"))
        await server.until(lambda now: now.outstanding == 1 and thing.running == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (thing.running, thing.closed) == (0, 1)
        await server.until(lambda now: now.fids == 1)
        assert await client.read("readme")


async def test_a_slow_open_is_cancelled(server: Server, sample: Sample) -> None:
    """The fid that was walked to is given back."""
    async with connected(server) as client:
        opening = asyncio.ensure_future(client.open("thing/a/slow"))
        await server.until(lambda now: now.outstanding == 1)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await server.until(lambda now: now.fids == 1 and now.outstanding == 0)
        sample.things["a"].released.set()
        assert await client.read("thing/a/slow") == b"slow\n"


async def test_a_lost_connection_ends_what_waits(server: Server) -> None:
    """Reads that wait, and everything after."""
    async with connected(server) as client:
        reading = asyncio.ensure_future(client.read("thing/a/level"))
        await server.until(lambda now: now.outstanding == 1)
        client.calls.abort()
        with pytest.raises(ConnectionLostError, match="connection lost"):
            await reading
        with pytest.raises(ConnectionLostError):
            await client.read("readme")


async def test_two_clients_of_one_server_are_independent(server: Server, sample: Sample) -> None:
    """Per-fid state is each client's own."""
    async with connected(server) as one, connected(server) as two:
        first = await one.open("thing/a/ctl", _wire.ORDWR)
        second = await two.open("thing/a/ctl", _wire.ORDWR)
        await first.write(b"echo one")
        await second.write(b"echo two")
        assert (await first.read(), await second.read()) == (b"one\n", b"two\n")
        await first.close()
        await second.close()
    assert sample.attaches == [("glenda", ""), ("glenda", "")]


async def test_wstat_and_positions_of_a_file(server: Server) -> None:
    """Reads and writes go on where the last ended, unless they say where."""
    async with connected(server) as client:
        async with await client.open("thing/a/note", _wire.ORDWR) as file:
            await file.write(b"abcdef")
            assert await file.read(offset=2, count=2) == b"cd"
            assert await file.read() == b""
            await file.wstat(Stat(length=3))
            assert (await file.stat()).length == 3
            assert await file.write(b"", offset=0) == 0
        assert await client.read("thing/a/note") == b"abc"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Rversion(_wire.NOTAG, 8192, "unknown"), "the server speaks 'unknown'"),
        (Rversion(_wire.NOTAG, 100, "9P2000"), "msize of 100"),
        (Rversion(_wire.NOTAG, 2**31, "9P2000"), "msize of 2147483648"),
        (parse_message("Rflush tag=~"), "Rflush to no request"),
        (parse_message("Rclunk tag=7"), "reply to no request, tag 7"),
        (parse_message("Rclunk tag=~"), "reply of type 121 where 101 was expected"),
        (b"\x00\x00\x00\x00", "shorter than its header"),
    ],
)
async def test_a_server_that_speaks_something_else(reply: Message | bytes, error: str) -> None:
    """The client gives up with what was wrong."""
    ours, theirs = socket.socketpair()
    theirs.sendall(reply if isinstance(reply, bytes) else encode(reply))
    with pytest.raises(ProtocolError, match=error):
        await Client.adopt(ours, uname="glenda")
    theirs.close()


async def test_nobody_there(tmp_path: Path) -> None:
    """The system's error, or the address's."""
    with pytest.raises(FileNotFoundError):
        await Client.connect(f"unix!{tmp_path}/nothing")
    with pytest.raises(dial.AddressError):
        await Client.connect("nowhere")


async def scripted(flush_s: float = 10) -> tuple[Client, Line]:
    """A client, and the other end of its connection after Tversion and Tattach."""
    ours, theirs = socket.socketpair()
    connecting = asyncio.ensure_future(Client.adopt(ours, uname="glenda", flush_s=flush_s))
    line = await Line.adopt(theirs)
    await line.receive()
    await line.send(Rversion(_wire.NOTAG, 8192, "9P2000"))
    await line.receive()
    await line.send(parse_message("Rattach tag=0 qid=80.0.0"))
    return await connecting, line


async def test_an_iounit_of_zero_means_the_msize() -> None:
    """What fits into a message beside its header."""
    client, line = await scripted()
    opening = asyncio.ensure_future(client.open("x"))
    await line.receive()
    await line.send(parse_message("Rwalk tag=0 wqid=[0.0.1]"))
    await line.receive()
    await line.send(parse_message("Ropen tag=0 qid=0.0.1 iounit=0"))
    assert (await opening).iounit == 8192 - 24
    await client.close()
    await line.close()


async def test_a_walk_that_was_done_in_spite_of_its_flush_is_taken_back() -> None:
    """The reply that comes before Rflush has made a fid, which is clunked."""
    client, line = await scripted()
    walking = asyncio.ensure_future(client.walk("x"))
    await line.receive()
    walking.cancel()
    assert await line.receive() == parse_message("Tflush tag=1 oldtag=0")
    await line.send(parse_message("Rwalk tag=0 wqid=[0.0.1]"), parse_message("Rflush tag=1"))
    with pytest.raises(asyncio.CancelledError):
        await walking
    assert await line.receive() == parse_message("Tclunk tag=2 fid=1")
    await line.send(parse_message("Rclunk tag=2"))
    await line.close()
    await client.close()


def deliver(calls: Calls, data: bytes) -> None:
    """As the transport does when data has come."""
    calls.get_buffer(-1)[: len(data)] = data
    calls.buffer_updated(len(data))


async def test_a_reply_and_a_cancellation_at_the_same_moment() -> None:
    """A reply that is there already needs no flush; its fid is taken back as well."""
    client, line = await scripted()
    walking = asyncio.ensure_future(client.walk("x"))
    await line.receive()
    deliver(client.calls, encode(parse_message("Rwalk tag=0 wqid=[0.0.1]")))
    walking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await walking
    assert await line.receive() == parse_message("Tclunk tag=0 fid=1")
    await line.close()
    await client.close()


async def test_a_reply_right_behind_a_cancellation() -> None:
    """It comes before Tflush is sent: none is needed, its fid is taken back, and its tag is free once, not twice."""
    client, line = await scripted()
    walking = asyncio.ensure_future(client.walk("x"))
    await line.receive()
    walking.cancel()
    deliver(client.calls, encode(parse_message("Rwalk tag=0 wqid=[0.0.1]")))
    with pytest.raises(asyncio.CancelledError):
        await walking
    assert await line.receive() == parse_message("Tclunk tag=0 fid=1")
    others = [asyncio.ensure_future(client.fstat(0)) for _ in range(2)]
    assert [(await line.receive()).tag for _ in others] == [1, 2]
    await line.close()
    assert all(isinstance(end, ConnectionLostError) for end in await asyncio.gather(*others, return_exceptions=True))
    await client.close()


async def test_a_lost_connection_ends_a_wait_for_rflush() -> None:
    """The cancellation goes on."""
    client, line = await scripted()
    walking = asyncio.ensure_future(client.walk("x"))
    await line.receive()
    walking.cancel()
    await line.receive()
    await line.close()
    with pytest.raises(asyncio.CancelledError):
        await walking
    assert client.calls.lost


async def test_a_server_that_answers_no_flush_does_not_hold_the_client() -> None:
    """After a while the cancellation goes on; the tags stay in use."""
    client, line = await scripted(flush_s=0.01)
    walking = asyncio.ensure_future(client.walk("x"))
    await line.receive()
    walking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await walking
    await line.receive()
    walking = asyncio.ensure_future(client.walk("y"))
    assert (await line.receive()).tag == 2
    walking.cancel()
    await line.close()
    with pytest.raises(asyncio.CancelledError):
        await walking
    await client.close()


async def test_requests_wait_while_the_server_does_not_read() -> None:
    """More is not buffered than the transport wants."""
    client, line = await scripted()
    writes = [asyncio.ensure_future(client.fwstat(1, Stat(name="x" * 5000))) for _ in range(200)]
    transport = client.calls._transport
    assert transport is not None
    for _ in range(10):  # whatever would be sent now, is
        await asyncio.sleep(0)
    assert len(client.calls._calls) < 200
    assert 0 < transport.get_write_buffer_size() <= transport.get_write_buffer_limits()[1] + 6000
    for write in writes:
        message = await line.receive()
        await line.send(parse_message(f"Rwstat tag={message.tag}"))
        await write
    await line.close()
    await client.close()


async def test_the_trace_of_a_client(server: Server) -> None:
    """The same lines as the server's, the other way round."""
    ours, theirs = socket.socketpair()
    await server.adopt(theirs)
    traced: list[str] = []
    async with await Client.adopt(ours, uname="glenda", trace=traced.append):
        pass
    assert traced[0] == '-> Tversion tag=~ msize=131072 version="9P2000"'
    assert traced[-1].startswith("<- Rattach")
