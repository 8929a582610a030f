"""The kinds of file where timing and mistakes of callbacks decide; the rest is in `scripts/`."""

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Any

import pytest

from ninep import _wire
from ninep.client import Client
from ninep.errors import NinepError
from ninep.files import Command, Control, Entry, Head, Level, Log, Peer, Queue, Request, Role, Sink, Text, Tree, Watch
from ninep.messages import Rerror, Ropen, Rread, Rremove, Rwalk, Rwrite, Topen, Tread, Tremove, Twalk, Twrite
from ninep.server import AfidConversation, Conn, Limits, Server
from ninep.testing import Sample, connected, line_to


async def attach(_conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> Peer:
    """Everybody."""
    return Peer(uname, aname, Role.USER)


class Taker:
    """Takes values when it is let."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.taking = asyncio.Event()
        self.taken: list[bytes] = []
        self.cancelled = 0
        self.failures: list[str] = []

    async def take(self, data: bytes) -> None:
        """One value."""
        self.taking.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if data == b"bug":
            raise ZeroDivisionError
        self.taken.append(data)


class Never:
    """A watcher without changes."""

    async def next(self) -> bytes:
        """Wait."""
        await asyncio.Event().wait()
        return b""

    def delivered(self) -> None:
        """Never called."""

    def close(self) -> None:
        """A mistake."""
        raise ZeroDivisionError


def serve(taker: Taker, *entries: Entry[Taker], **options: Any) -> Server:
    """A tree of these files."""
    return Server(
        Tree(entries, taker),
        attach,
        on_error=lambda _peer, path, error: taker.failures.append(f"{path}: {error}"),
        **options,
    )


def watch(watcher: type[Any] = Never) -> Watch[Taker]:
    """Values are taken after 1 ms."""
    return Watch(
        "feed", 0o660, "", watch=lambda *_: watcher(), take=lambda taker, _, data: taker.take(data), pause_s=0.001
    )


class Quiet(Never):
    """Closes without a mistake."""

    def close(self) -> None:
        """Nothing."""


async def test_a_commit_comes_after_what_a_pause_began_to_take() -> None:
    """Values keep their order."""
    taker = Taker()
    server = serve(taker, watch(Quiet))
    async with connected(server) as client, await client.open("feed", _wire.ORDWR) as file:
        await file.write(b"one")
        await taker.taking.wait()
        await file.write(b"two")
        committing = asyncio.ensure_future(file.commit())
        await server.until(lambda now: now.outstanding == 1)
        taker.go_on.set()
        await committing
        assert taker.taken == [b"one", b"two"]
    await server.close()


async def test_what_a_pause_began_to_take_ends_with_the_connection() -> None:
    """No task outlives it."""
    taker = Taker()
    server = serve(taker, watch(Quiet))
    async with connected(server) as client:
        file = await client.open("feed", _wire.OWRITE)
        await file.write(b"one")
        await taker.taking.wait()
    await server.close()
    assert (taker.taken, taker.cancelled) == ([], 1)


async def test_a_watch_without_take_refuses_writes() -> None:
    """Whatever its mode says."""
    server = serve(Taker(), Watch("events", 0o660, "", watch=lambda *_: Quiet()))
    async with connected(server) as client:
        with pytest.raises(NinepError, match="fid is not open for writing"):
            await client.write("events", b"x")
    await server.close()


async def test_a_mistake_while_closing_frees_the_fid_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """The client gets an error, the log the traceback, and a lost connection takes the rest with it."""
    server = serve(Taker(), watch(Never))
    async with connected(server) as client:
        file = await client.open("feed", _wire.ORDWR)
        with pytest.raises(NinepError, match="internal error"):
            await file.close()
        await server.until(lambda now: now.fids == 1)
        file = await client.open("feed", _wire.ORDWR)
        reading = asyncio.ensure_future(file.read())
        await server.until(lambda now: now.outstanding == 1)
        with pytest.raises(NinepError, match="internal error"):
            await file.close()
        with pytest.raises(NinepError, match="interrupted"):
            await reading
        await client.open("feed", _wire.ORDWR)
    await server.close()
    assert len(caplog.records) == 3


async def test_a_mistake_while_taking_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    """It is no error of the writer's, so nobody keeps it but the log."""
    taker = Taker()
    taker.go_on.set()
    server = serve(taker, Sink("inbox", 0o220, "", take=lambda taker, _, data: taker.take(data)))
    async with connected(server) as client:
        with pytest.raises(NinepError, match="internal error"):
            await client.write("inbox", b"bug")
    await server.close()
    assert taker.failures == []
    assert "ZeroDivisionError" in caplog.text


async def test_a_mistake_while_being_told_of_a_delivery_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The reply was sent already."""

    class Broken(Quiet):
        async def next(self) -> bytes:
            return b"value"

        def delivered(self) -> None:
            raise ZeroDivisionError

    server = serve(Taker(), watch(Broken))
    async with connected(server) as client, await client.open("feed") as file:
        assert await file.read() == b"value"
        assert await file.read() == b""
    await server.close()
    assert "ZeroDivisionError" in caplog.text


async def test_a_clunk_that_takes_too_long_at_the_end_of_a_connection_is_left_to_itself() -> None:
    """It is not cancelled: it was received, and commits in its own time."""
    taker = Taker()
    sink: Sink[Taker] = Sink("inbox", 0o220, "", take=lambda taker, _, data: taker.take(data))
    server = serve(taker, sink, limits=Limits(cleanup_s=0.01))
    async with connected(server) as client:
        file = await client.open("inbox", _wire.OWRITE)
        await file.write(b"message")
        client.forget(file.fid)
        await taker.taking.wait()
    await server.until(lambda now: now.connections == 0)
    assert (taker.taken, taker.cancelled) == ([], 0)
    taker.go_on.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert taker.taken == [b"message"]
    await server.close()


@pytest.mark.parametrize("later", [False, True])
async def test_a_command_as_long_as_the_iounit_is_ended_by_commit_clunk_or_read(later: bool) -> None:
    """It is not known before whether more comes."""
    commands: list[str] = []

    async def soon(text: str) -> str:
        commands.append(text)
        return "done\n"

    def command(_taker: Taker, _peer: Peer, text: str) -> str | Awaitable[str]:
        if later:
            return soon(text)
        commands.append(text)
        return "done\n"

    server = serve(Taker(), Control("ctl", 0o660, "", command=command))
    async with connected(server) as client:
        async with await client.open("ctl", _wire.ORDWR) as file:
            long = b"x" * file.iounit
            await file.write(long)
            await file.write(b"y\n")
            assert commands == [long.decode() + "y"]
            await file.write(long)
            assert len(commands) == 1
            await file.commit()
            assert len(commands) == 2
            await file.write(long)
            assert await file.read() == b"done\n"
            assert len(commands) == 3
            await file.write(long)
        assert len(commands) == 4
        assert await client.read("ctl") == b""
    await server.close()


async def test_a_command_that_needs_no_time_waits_for_one_that_does() -> None:
    """Those of one fid run one after another; on another fid it runs at once."""
    done: list[str] = []
    go_on = asyncio.Event()

    async def slow() -> str:
        await go_on.wait()
        done.append("slow")
        return "slow\n"

    def command(_taker: Taker, _peer: Peer, text: str) -> str | Awaitable[str]:
        if text == "slow":
            return slow()
        done.append(text)
        return f"{text}\n"

    server = serve(Taker(), Control("ctl", 0o660, "", command=command))
    async with connected(server) as client, await client.open("ctl", _wire.ORDWR) as file:
        first = asyncio.create_task(file.write(b"slow\n", 0))
        second = asyncio.create_task(file.write(b"quick\n", 0))
        assert await client.rdwr("ctl", b"other\n") == b"other\n"
        assert done == ["other"]
        go_on.set()
        await asyncio.gather(first, second)
        assert done == ["other", "slow", "quick"]
        assert await file.read() == b"quick\n"
    await server.close()


async def test_no_command_passes_one_that_was_just_woken() -> None:
    """Between two commands that take their time the turn is the second one's, though it has not gone on yet."""
    done: list[str] = []
    go_on = asyncio.Event()

    async def slow(text: str) -> str:
        await go_on.wait()
        done.append(text)
        if text == "first":
            asyncio.get_running_loop().call_soon(lambda: written.append(file.write(0, b"third\n")))
        return ""

    def command(_taker: Taker, _peer: Peer, text: str) -> str | Awaitable[str]:
        if text != "third":
            return slow(text)
        done.append(text)
        return ""

    control = Control("ctl", 0o660, "", command=command)
    root = Tree((control,), Taker()).root(Peer("glenda", "", Role.USER))
    walk = root.walk(["ctl"])
    assert isinstance(walk, tuple)
    file = control.open(walk[0], _wire.OWRITE, 100)
    written = [file.write(0, text) for text in (b"first\n", b"second\n")]
    first, second = (asyncio.ensure_future(write) for write in written if isinstance(write, Awaitable))
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, second)
    if isinstance(written[-1], Awaitable):
        await written[-1]
    assert done == ["first", "second", "third"]


async def test_a_command_too_long_is_refused_and_forgotten() -> None:
    """More than 16 MiB: no part of it is run, and the next command is."""
    commands: list[str] = []

    async def command(_taker: Taker, _peer: Peer, text: str) -> str:
        commands.append(text)
        return ""

    server = serve(Taker(), Control("ctl", 0o660, "", command=command))
    async with connected(server) as client:
        async with await client.open("ctl", _wire.ORDWR) as file:
            with pytest.raises(NinepError, match="message too long"):
                await file.write(b"x" * (16 * 1024 * 1024 + file.iounit))
            await file.commit()
            assert commands == []
            await file.write(b"next\n")
        assert commands == ["next"]
    await server.close()


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("kind", ["text", "control"])
async def test_the_log_says_which_file_renders_no_bytes(
    later: bool,
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And what it is instead."""

    async def soon() -> Any:
        return "text"

    def render(_taker: Taker, _peer: Peer) -> Any:
        return soon() if later else "text"

    entry: Entry[Any] = Text("it", 0o440, "", render) if kind == "text" else Control("it", 0o660, "", _echo, render)
    server = serve(Taker(), entry)
    async with connected(server) as client:
        with pytest.raises(NinepError, match="internal error"):
            await client.read("it")
    assert "it: render gives str instead of bytes" in caplog.text
    await server.close()


async def _echo(_taker: Taker, _peer: Peer, argument: str) -> str:
    return f"<{argument}>"


def _nothing(_taker: Taker, _peer: Peer, _argument: str) -> str:
    return ""


TABLE = (
    Command("stop", "", "stop it", _nothing),
    Command("cwd", "[path]", "show or change it", _echo),
    Command("load", "AGENT TOOL", "load it", _echo),
    Command("proc", "", "list them", _echo),
    Command("proc kill", "PID", "end one", _echo),
    Command("tell", "TEXT…", "tell it", _echo),
)
LISTING = """\
stop             stop it
cwd [path]       show or change it
load AGENT TOOL  load it
proc             list them
proc kill PID    end one
tell TEXT…       tell it
help             list the commands
"""


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("stop\n", ""),
        ("cwd", "<>\n"),
        (" cwd  /a  b ", "</a  b>\n"),
        ("load a  b", "<a  b>\n"),
        ("proc", "<>\n"),
        ("proc  kill 7", "<7>\n"),
        ("tell a  b\nc\n", "<a  b\nc>\n"),
        ("tell a", "<a>\n"),
        ("help", LISTING),
    ],
)
async def test_a_table_of_commands_is_obeyed(text: str, answer: str) -> None:
    """A word or two, then the argument; the table lists itself."""
    server = serve(Taker(), Control("ctl", 0o660, "", commands=TABLE))
    async with connected(server) as client:
        assert (await client.rdwr("ctl", text.encode())).decode() == answer
        assert (await client.read("ctl")).decode() == LISTING
    await server.close()


@pytest.mark.parametrize("table", [(), TABLE])
def test_a_control_has_a_table_or_takes_any_command(table: tuple[Command[Any], ...]) -> None:
    """One of the two, and not both."""
    with pytest.raises(AssertionError, match="ctl takes commands of a table, or any command"):
        Control("ctl", 0o660, "", commands=table, command=_echo if table else None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("stopp", "unknown command: stopp (did you mean stop? known: stop cwd load proc tell help)"),
        ("\n", "unknown command:  (known: stop cwd load proc tell help)"),
        ("stop now", "stop takes no argument: now"),
        ("load a", "load takes AGENT TOOL: a"),
        ("load a b c", "load takes AGENT TOOL: a b c"),
        ("proc kill", "proc kill takes PID"),
        ("proc kil 7", "unknown command of proc: kil (did you mean kill? known: kill)"),
        ("tell  ", "tell takes TEXT…"),
        ("help me", "help takes no argument: me"),
    ],
)
async def test_what_no_table_has_is_refused(text: str, error: str) -> None:
    """With what there is instead."""
    server = serve(Taker(), Control("ctl", 0o660, "", commands=TABLE))
    async with connected(server) as client:
        with pytest.raises(NinepError) as raised:
            await client.write("ctl", text.encode())
    assert str(raised.value) == error
    await server.close()


class Entries:
    """A queue whose head takes a while."""

    def __init__(self, *entries: bytes) -> None:
        self.entries = deque(entries)
        self.released = 0

    async def head(self) -> "Head | None":
        """The oldest."""
        await asyncio.sleep(0)
        return Leased(self, self.entries.popleft()) if self.entries else None


class Leased:
    """Taken away at once, put back when it was not read."""

    def __init__(self, entries: Entries, data: bytes) -> None:
        self.data, self._entries = data, entries

    def taken(self) -> None:
        """It is gone already."""

    def release(self) -> None:
        """Back to the front."""
        self._entries.entries.appendleft(self.data)
        self._entries.released += 1


async def test_a_head_that_has_to_be_waited_for() -> None:
    """Two reads of one fid at once take one entry, and a lost connection gives it back."""
    entries = Entries(b"one", b"two")

    async def put(entries: Entries, _peer: Peer, data: bytes) -> None:
        entries.entries.append(data)

    table: tuple[Entry[Entries], ...] = (Queue("fifo", 0o660, "", put=put, head=lambda entries, _: entries.head()),)
    server = Server(Tree(table, entries), attach)
    async with connected(server) as client:
        file = await client.open("fifo")
        assert await asyncio.gather(file.read(1, offset=0), file.read(1, offset=0)) == [b"o", b"o"]
        assert entries.released == 1
    await server.close()
    assert list(entries.entries) == [b"one", b"two"]


async def test_an_answer_of_empty_pieces_has_no_end_of_file_in_it() -> None:
    """An empty reply would be one."""

    async def run(_taker: Taker, _peer: Peer, _data: bytes) -> Any:
        for piece in (b"", b"a", b"", b"", b"b", b""):
            await asyncio.sleep(0)
            yield piece

    server = serve(Taker(), Request("ask", 0o660, "", run=run))
    async with connected(server) as client:
        assert [piece async for piece in client.rdwr_stream("ask", b"?")] == [b"a", b"b"]
    await server.close()


async def test_a_piece_longer_than_a_read_comes_in_several() -> None:
    """Nothing of it is lost."""
    data = bytes(range(256)) * 2000

    async def run(_taker: Taker, _peer: Peer, _data: bytes) -> Any:
        yield data
        yield b"end"

    server = serve(Taker(), Request("ask", 0o660, "", run=run))
    async with connected(server) as client:
        assert await client.rdwr("ask", b"?") == data + b"end"
    await server.close()


class Long(Taker):
    """More of everything than a read gives that had to wait; all of it has to be fetched."""

    length = version = 200_000
    data = bytes(length)

    async def read(self, offset: int, count: int) -> bytes:
        """A piece of a log."""
        await asyncio.sleep(0)
        return self.data[offset : offset + count]

    async def more(self, _offset: int) -> bool:
        """Nothing more is to come."""
        return False

    async def next(self) -> bytes:
        """A change."""
        return await self.read(0, self.length)

    async def head(self) -> Head:
        """An entry."""
        await asyncio.sleep(0)
        return Entire(self.data)

    def delivered(self) -> None:
        """Whatever."""

    def close(self) -> None:
        """Whatever."""


class Entire:
    """An entry of a queue."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def taken(self) -> None:
        """Whatever."""

    def release(self) -> None:
        """Whatever."""


@pytest.mark.parametrize("name", ["log", "level", "watch", "queue"])
async def test_many_reads_that_wait_cannot_fill_memory_all_at_once(name: str) -> None:
    """However much is asked for, each is answered by 64 KiB, and nothing is lost."""
    long = Long()
    server = serve(
        long,
        Log("log", 0o440, "", log=lambda _: long),
        Level("level", 0o440, "", wait=lambda *_: long.next()),
        Watch("watch", 0o440, "", watch=lambda *_: long),
        Queue("queue", 0o660, "", put=lambda taker, _, data: taker.take(data), head=lambda *_: long.head()),
    )
    async with line_to(server) as line:
        await line.begin(msize=1024 * 1024)
        assert isinstance(await line.rpc(Twalk(1, 0, 1, (name,))), Rwalk)
        assert isinstance(await line.rpc(Topen(1, 1, _wire.OREAD)), Ropen)
        assert await line.rpc(Tread(1, 1, 0, 1_000_000)) == Rread(1, bytes(65536))
        at = 65536
        while at < long.length:
            piece = await line.rpc(Tread(1, 1, at, 1_000_000))
            assert isinstance(piece, Rread)
            assert piece.data
            at += len(piece.data)
        assert at == long.length
    await server.close()


async def test_remove_ends_what_runs_and_discards_what_was_written(server: Server, sample: Sample) -> None:
    """A file that cannot be removed is closed all the same."""
    thing = sample.things["a"]
    async with line_to(server) as line:
        await line.begin()
        for fid, name in enumerate(["ask", "inbox"], 1):
            assert isinstance(await line.rpc(Twalk(1, 0, fid, ("thing", "a", name))), Rwalk)
            assert isinstance(await line.rpc(Topen(1, fid, _wire.ORDWR if name == "ask" else _wire.OWRITE)), Ropen)
            assert isinstance(await line.rpc(Twrite(1, fid, 0, b"text")), Rwrite)
        assert isinstance(await line.rpc(Tread(1, 1, 0, 100)), Rread)
        await line.send(Tread(1, 1, 8, 100), Tremove(2, 1))
        assert await line.receive() == Rerror(1, "interrupted")
        assert await line.receive() == Rerror(2, "permission denied")
        assert await line.rpc(Tremove(2, 2)) == Rerror(2, "permission denied")
        assert (thing.running, thing.messages) == (0, [])
        assert isinstance(await line.rpc(Twalk(1, 0, 1, ("thing", "a"))), Rwalk)
        assert await line.rpc(Tremove(1, 1)) == Rremove(1)


async def test_a_message_too_long_is_refused(server: Server, sample: Sample) -> None:
    """16 MiB, and what was written before is still there."""
    async with connected(server) as client:
        file: Any = await client.open("thing/a/inbox", _wire.OWRITE)
        with pytest.raises(NinepError, match="message too long"):
            await file.write(b"x" * (16 * 1024 * 1024 + 1))
        await file.close()
    assert len(sample.things["a"].messages[0]) <= 16 * 1024 * 1024
    assert isinstance(client, Client)


@pytest.mark.parametrize("count", [1000, 5000, 70_000, 1_000_000])
@pytest.mark.parametrize("length", [0, 4096, 4097, 70_001, 1_500_000])
async def test_a_text_is_read_in_pieces_of_any_length(length: int, count: int) -> None:
    """Short and long ones, which are not copied into replies in the same way."""
    content = bytes(number % 251 for number in range(length))
    server = serve(Taker(), Text("text", 0o440, "", render=lambda *_: content))
    async with line_to(server) as line:
        await line.begin(msize=1024 * 1024)
        assert isinstance(await line.rpc(Twalk(1, 0, 1, ("text",))), Rwalk)
        assert isinstance(await line.rpc(Topen(1, 1, _wire.OREAD)), Ropen)
        for at in (*range(0, length, count), length, length + 1):
            assert await line.rpc(Tread(1, 1, at, count)) == Rread(1, content[at : at + count])
    await server.close()
