"""The store keeps the promises of the interface, in memory and behind it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st
from stocked import SESSION, Disk, agent

from ollie.store.rows import LogName, Member, Seq, SessionRow
from ollie.store.shelf import Tail
from ollie.store.sqlite import Store

Again = Callable[[], Awaitable[Store]]


@pytest.fixture
async def again(tmp_path: Path) -> AsyncIterator[Again]:
    """Closes the store and opens it again."""
    stores: list[Store] = []

    async def make() -> Store:
        if stores:
            await stores.pop().close()
        stores.append(await Store.open(str(tmp_path / "ollie.db")))
        return stores[-1]

    yield make
    await stores.pop().close()


@pytest.fixture
async def store(again: Again) -> Store:
    store = await again()
    assert store.next_number() == 1
    store.put_session(SESSION)
    store.put_agent(agent("a1", store.next_number()))
    return store


def filled(store: Store) -> None:
    """Something of everything, for the agent `a1`."""
    store.append_records("a1", [b"1", b"2"])
    store.append_log("a1", LogName.CHAT, b"hello ")
    store.append_log("a1", LogName.CHAT, b"world")
    store.append_log("a1", LogName.CHAT_RAW, b"raw")
    store.enqueue("a1", "first")
    store.enqueue("a1", "second")
    store.put_plan("a1", b"plan")
    store.put_stats("a1", b"{}")
    store.set_busy("a1", busy=True)


async def content(store: Store) -> tuple[object, ...]:
    """All that is known of the agent `a1`."""
    return (
        await store.records("a1"),
        await store.read_log("a1", LogName.CHAT, 0, 100),
        await store.read_log("a1", LogName.CHAT_RAW, 0, 100),
        [one.text for one in store.queue("a1")],
        store.plan("a1"),
        store.stats("a1"),
        store.busy("a1"),
    )


FILLED = ([b"1", b"2"], b"hello world", b"raw", ["first", "second"], b"plan", b"{}", True)


async def test_a_change_is_seen_at_once(store: Store) -> None:
    """Before it is stored."""
    filled(store)
    assert await content(store) == FILLED


async def test_everything_is_there_again(store: Store, again: Again) -> None:
    """Sessions and agents with every field, and what belongs to them."""
    filled(store)
    after = await again()
    assert await after.sessions() == [SESSION]
    assert await after.members() == [Member("s1", "a1", "name of a1")]
    assert await after.open_session("s1") == [agent("a1", 2)]
    assert await content(after) == FILLED


async def test_numbers_are_never_given_twice(store: Store, again: Again) -> None:
    """Also not when the object that had one is gone, and not after a restart."""
    store.drop_agent("a1")
    assert store.next_number() == 3
    store.drop_session("s1")
    assert (await again()).next_number() == 4


async def test_a_barrier_is_answered_in_a_later_step(store: Store) -> None:
    """No caller can rely on an answer within the same step."""
    order = []
    waiting = asyncio.ensure_future(store.stored(store.put_plan("a1", b"x")))
    waiting.add_done_callback(lambda _: order.append("stored"))
    order.append("same step")
    await waiting
    await asyncio.sleep(0)
    assert order == ["same step", "stored"]


async def test_sequence_numbers_grow_with_every_change(store: Store) -> None:
    """Whatever is changed."""
    seqs = [
        store.append_log("a1", LogName.CHAT, b"x"),
        store.append_records("a1", [b"{}"]),
        store.enqueue("a1", "do"),
        store.put_plan("a1", b"p"),
        store.put_stats("a1", b"{}"),
        store.set_busy("a1", busy=False),
        store.clear_records("a1"),
        store.drop_session("s1"),
    ]
    assert seqs == sorted(set(seqs))
    assert seqs[0] > Seq(0)


async def test_prompts_leave_the_queue_in_the_order_they_came(store: Store, again: Again) -> None:
    """Each entry has a number of its own, also beside those of a restart."""
    for text in ("one", "two", "two"):
        store.enqueue("a1", text)
    entries = store.queue("a1")
    store.dequeue("a1", entries[1].entry)
    after = await again()
    await after.open_session("s1")
    assert after.queue("a1") == [entries[0], entries[2]]
    after.enqueue("a1", "three")
    assert len({one.entry for one in after.queue("a1")}) == 3


async def test_logs_are_read_by_range(store: Store, again: Again) -> None:
    """A read at or past the end is empty, and one log knows nothing of the other."""
    store.append_log("a1", LogName.CHAT, b"hello ")
    store.append_log("a1", LogName.CHAT, b"world")
    for _ in range(2):
        assert store.log_length("a1", LogName.CHAT) == 11
        assert store.log_length("a1", LogName.CHAT_RAW) == 0
        assert await store.read_log("a1", LogName.CHAT, 3, 5) == b"lo wo"
        assert await store.read_log("a1", LogName.CHAT, 11, 5) == b""
        assert await store.read_log("a1", LogName.CHAT_RAW, 0, 5) == b""
        store = await again()
        await store.open_session("s1")


async def test_a_log_is_read_across_its_pieces(store: Store, again: Again) -> None:
    """Wherever it was cut when it was stored, and while the newest is in memory alone."""
    whole = b""
    for size in (1, 4095, 4096, 65536, 200_000, 10, 10):
        piece = bytes(n % 251 for n in range(len(whole), len(whole) + size))
        whole += piece
        await store.stored(store.append_log("a1", LogName.CHAT, piece))
    for _ in range(2):
        for offset in (0, 1, 4096, 65535, 70_000, len(whole) - 5, len(whole)):
            for count in (1, 100, 1 << 20):
                data = await store.read_log("a1", LogName.CHAT, offset, count)
                assert data == whole[offset : offset + count]
        more = await again()
        await more.open_session("s1")
        store = more


@given(st.lists(st.tuples(st.binary(max_size=9000), st.booleans()), max_size=40))
def test_chunks_are_the_file(appended: list[tuple[bytes, bool]]) -> None:
    """What is given to the writer is the file, whenever it is gathered; a small chunk is replaced by a longer one."""
    tail, chunks, whole = Tail(7), {}, b""
    for data, gather in appended:
        tail.append(data)
        whole += data
        if gather:
            chunks.update(tail.gather())
            tail.written()
    chunks.update(tail.gather())
    at = 7
    for offset in sorted(chunks):
        assert offset == at
        at += len(chunks[offset])
    assert b"".join(chunks[offset] for offset in sorted(chunks)) == whole
    assert sum(len(chunk) < 4096 for chunk in chunks.values()) <= 1


async def test_clearing_the_history_keeps_the_rest(store: Store, again: Again) -> None:
    """Chat, plan and counts stay, and so does what is said afterwards."""
    filled(store)
    await store.stored(store.append_records("a1", [b"3"]))
    store.append_records("a1", [b"4"])
    store.clear_records("a1")
    assert await store.records("a1") == []
    store.append_records("a1", [b"5"])
    assert (await content(store))[1:] == FILLED[1:]
    for _ in range(2):
        assert await store.records("a1") == [b"5"]
        store = await again()
        await store.open_session("s1")
    store.append_records("a1", [b"6"])
    assert await store.records("a1") == [b"5", b"6"]


async def test_dropping_a_session_drops_its_agents_only(store: Store, again: Again) -> None:
    """Others are listed in order of creation."""
    filled(store)
    store.put_session(SessionRow(id="s2", number=9, name="two"))
    others = [agent("b", 11, "s2"), agent("c", 10, "s2")]
    for row in others:
        store.put_agent(row)
    store.drop_session("s1")
    after = await again()
    assert [row.id for row in await after.sessions()] == ["s2"]
    assert await after.open_session("s1") == []
    assert await after.open_session("s2") == others[::-1]


async def test_dropping_an_agent_drops_all_of_it(store: Store, again: Again) -> None:
    """What was appended in the same step included."""
    filled(store)
    await store.stored(store.append_log("a1", LogName.CHAT, b"x"))
    store.append_log("a1", LogName.CHAT, b"y")
    store.append_records("a1", [b"7"])
    store.drop_agent("a1")
    after = await again()
    assert await after.open_session("s1") == []
    assert await after.unfinished() == []
    await after.stored(after.put_agent(agent("a1", 5)))
    assert await content(after) == ([], b"", b"", [], b"", b"", False)


@pytest.mark.parametrize("what", ["nothing", "busy", "queue", "temporary"])
async def test_what_is_unfinished_is_known(store: Store, again: Again, what: str) -> None:
    """A turn that was cut, a prompt that waits, an agent whose request is gone."""
    store.enqueue("a1", "done")
    store.dequeue("a1", store.queue("a1")[0].entry)
    store.set_busy("a1", busy=True)
    store.set_busy("a1", busy=what == "busy")
    if what == "queue":
        store.enqueue("a1", "waits")
    if what == "temporary":
        store.put_agent(agent("t", 9, temporary=True))
    assert await (await again()).unfinished() == ([] if what == "nothing" else ["s1"])


async def test_a_changed_row_keeps_what_belongs_to_it(store: Store, again: Again) -> None:
    """A rename forgets neither plan nor queue."""
    filled(store)
    store.put_agent(agent("a1", 2))
    store.put_session(SESSION)
    after = await again()
    await after.open_session("s1")
    assert await content(after) == FILLED


async def test_a_released_session_is_not_in_memory(store: Store) -> None:
    """As soon as all of it is stored; opened again it is as it was."""
    filled(store)
    store.release_session("s1")
    assert await content(store) == FILLED
    await store.stored(store.set_busy("a1", busy=True))
    assert (store._shelves, store._members, store._grown) == ({}, {}, {})
    assert await store.open_session("s1") == [agent("a1", 2)]
    assert await content(store) == FILLED
    store.release_session("s1")
    assert store._shelves == {}


async def test_a_session_that_is_opened_while_it_is_released_stays(store: Store) -> None:
    """The release of an earlier opening does not take it away."""
    filled(store)
    store.release_session("s1")
    assert await store.open_session("s1") == [agent("a1", 2)]
    await store.stored(store.put_plan("a1", b"after"))
    assert store.plan("a1") == b"after"
    await asyncio.gather(*(store.open_session("s1") for _ in range(3)))
    assert store.plan("a1") == b"after"


async def test_nothing_blocks_the_loop(tmp_path: Path) -> None:
    """Every disk access is in a thread."""
    await (await Store.open(str(tmp_path / "other.db"))).close()  # what is imported late is imported
    with blockbuster_ctx():
        store = await Store.open(str(tmp_path / "ollie.db"))
        store.put_session(SESSION)
        store.put_agent(agent("a1", 2))
        filled(store)
        await store.stored(store.append_log("a1", LogName.CHAT, b"x" * 200_000))
        await store.records("a1")
        await store.read_log("a1", LogName.CHAT, 0, 100)
        store.release_session("s1")
        await store.open_session("s1")
        await store.sessions()
        await store.members()
        await store.unfinished()
        await store.close()


async def test_a_thousand_writers_share_commits(store: Store) -> None:
    """All of them are answered, after far fewer commits than writers."""
    disk = Disk(store)
    for n in range(1000):
        store.put_agent(agent(f"b{n}", n + 10))
    await asyncio.gather(*(store.stored(store.append_log(f"b{n}", LogName.CHAT, b"x")) for n in range(1000)))
    assert disk.commits <= 3


async def test_what_nobody_waits_for_is_stored_all_the_same(store: Store) -> None:
    """In a while; then nothing is left to do, and no timer runs."""
    await store.stored(store.put_session(SESSION))
    disk = Disk(store)
    seq = store.append_log("a1", LogName.CHAT, b"streamed")
    await disk.written()
    await store.stored(seq)
    assert store._writer._timer is None


async def test_readers_do_not_keep_the_log_from_being_reused(store: Store, tmp_path: Path) -> None:
    """However much is written while others read, what waits to be moved into the database stays small."""
    piece = b"x" * 500_000
    for n in range(60):
        seq = store.append_log("a1", LogName.CHAT, piece)
        reading = [asyncio.ensure_future(store.read_log("a1", LogName.CHAT, at, 100_000)) for at in range(n)]
        await store.stored(seq)
        await asyncio.gather(*reading)
    assert (tmp_path / "ollie.db-wal").stat().st_size < 12_000_000
