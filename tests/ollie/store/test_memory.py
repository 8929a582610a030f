"""The store in memory keeps the promises of the interface."""

import asyncio

import pytest

from ollie.store.interface import AgentRow, LogName, Seq, SessionRow
from ollie.store.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.put_session(SessionRow(id="s1", number=store.next_number(), name="one"))
    store.put_agent(agent("a1", store.next_number()))
    return store


def agent(agent_id: str, number: int) -> AgentRow:
    return AgentRow(
        id=agent_id,
        number=number,
        session="s1",
        name=agent_id,
        cwd="/",
        profile="default",
        settings={},
        ceiling=b"",
    )


def test_numbers_are_never_given_twice(store: MemoryStore) -> None:
    """Also not when the object that had one is gone."""
    store.drop_agent("a1")
    assert store.next_number() == 3


async def test_a_barrier_is_answered_in_a_later_step(store: MemoryStore) -> None:
    """No caller can rely on an answer within the same step."""
    order = []
    waiting = asyncio.ensure_future(store.stored(store.put_plan("a1", b"x")))
    waiting.add_done_callback(lambda _: order.append("stored"))
    order.append("same step")
    await waiting
    await asyncio.sleep(0)
    assert order == ["same step", "stored"]


def test_sequence_numbers_grow_with_every_change(store: MemoryStore) -> None:
    """Whatever is changed."""
    seqs = [
        store.append_log("a1", LogName.CHAT, b"x"),
        store.append_records("a1", [b"{}"]),
        store.enqueue("a1", "do"),
        store.put_plan("a1", b"p"),
        store.put_stats("a1", b"{}"),
        store.clear_records("a1"),
        store.drop_session("s1"),
    ]
    assert seqs == sorted(set(seqs))
    assert seqs[0] > Seq(0)


def test_prompts_leave_the_queue_in_the_order_they_came(store: MemoryStore) -> None:
    """Each entry has a number of its own."""
    for text in ("one", "two", "two"):
        store.enqueue("a1", text)
    entries = store.queue("a1")
    assert [entry.text for entry in entries] == ["one", "two", "two"]
    store.dequeue("a1", entries[1].entry)
    assert store.queue("a1") == [entries[0], entries[2]]


async def test_logs_are_read_by_range(store: MemoryStore) -> None:
    """A read at or past the end is empty, and one log knows nothing of the other."""
    store.append_log("a1", LogName.CHAT, b"hello ")
    store.append_log("a1", LogName.CHAT, b"world")
    assert store.log_length("a1", LogName.CHAT) == 11
    assert store.log_length("a1", LogName.CHAT_RAW) == 0
    assert await store.read_log("a1", LogName.CHAT, 3, 5) == b"lo wo"
    assert await store.read_log("a1", LogName.CHAT, 11, 5) == b""


async def test_clearing_the_history_keeps_the_rest(store: MemoryStore) -> None:
    """Chat, plan and counts stay."""
    store.append_records("a1", [b"1", b"2"])
    store.append_log("a1", LogName.CHAT, b"said")
    store.put_plan("a1", b"plan")
    store.clear_records("a1")
    assert await store.records("a1") == []
    assert (store.log_length("a1", LogName.CHAT), store.plan("a1")) == (4, b"plan")


def test_dropping_a_session_drops_its_agents_only(store: MemoryStore) -> None:
    """Others are listed in order of creation."""
    store.put_session(SessionRow(id="s2", number=9, name="two"))
    other = AgentRow(id="b", number=10, session="s2", name="b", cwd="/", profile="p", settings={}, ceiling=b"")
    store.put_agent(other)
    store.drop_session("s1")
    assert [row.id for row in store.sessions()] == ["s2"]
    assert store.agents("s1") == []
    assert store.agents("s2") == [other]
