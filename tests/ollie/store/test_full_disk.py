"""A store that cannot write: everybody is told, nothing is lost, and it goes on when there is room."""

import asyncio
from pathlib import Path

import pytest
from stocked import SESSION, Disk, agent

from ollie.store.rows import LogName, StoreError
from ollie.store.sqlite import Store

MUCH = b"x" * 100_000
ERROR = "not on disk yet, kept in memory: the store cannot be written: database or disk is full"


@pytest.fixture
async def store(tmp_path: Path) -> Store:
    store = await Store.open(str(tmp_path / "ollie.db"), retry_s=0.01)
    store.put_session(SESSION)
    store.put_agent(agent("a1", 2))
    return store


async def reopened(store: Store, tmp_path: Path) -> Store:
    await store.close()
    again = await Store.open(str(tmp_path / "ollie.db"))
    await again.open_session("s1")
    return again


async def test_a_write_is_answered_with_the_reason(store: Store, tmp_path: Path) -> None:
    """What was written is seen, and it is there when the next write succeeds; all of it once."""
    disk = Disk(store)
    await store.stored(store.append_records("a1", [b"1"]))
    disk.full = True
    for n in range(3):
        store.append_records("a1", [f"{n + 2}".encode()])
        store.enqueue("a1", f"prompt {n}")
        with pytest.raises(StoreError, match=f"^{ERROR}$"):
            await store.stored(store.append_log("a1", LogName.CHAT, MUCH))
    assert await store.read_log("a1", LogName.CHAT, 0, 1 << 20) == MUCH * 3
    disk.full = False
    await store.stored(store.put_plan("a1", b"plan"))
    again = await reopened(store, tmp_path)
    assert await again.records("a1") == [b"1", b"2", b"3", b"4"]
    assert await again.read_log("a1", LogName.CHAT, 0, 1 << 20) == MUCH * 3
    assert [one.text for one in again.queue("a1")] == ["prompt 0", "prompt 1", "prompt 2"]
    await again.close()


async def test_who_waits_is_told_of_each_failure(store: Store) -> None:
    """And waits on; it is tried again by a timer, which grows."""
    disk = Disk(store)
    disk.full = True
    told: list[str] = []
    twice = asyncio.Event()

    def trouble(error: StoreError) -> None:
        told.append(str(error))
        if len(told) == 2:
            disk.full = False
            twice.set()

    await store.stored(store.append_log("a1", LogName.CHAT, MUCH), trouble)
    assert twice.is_set()
    assert told == [ERROR] * 2
    assert store._writer._timer is None
    await store.close()


async def test_what_nobody_waits_for_is_tried_again_too(store: Store) -> None:
    """By itself, and a released session stays until then."""
    disk = Disk(store)
    disk.full = True
    with pytest.raises(StoreError):
        await store.stored(store.append_log("a1", LogName.CHAT, MUCH))
    store.release_session("s1")
    assert await store.open_session("s1") == [agent("a1", 2)]
    assert await store.read_log("a1", LogName.CHAT, 0, 1 << 20) == MUCH
    store.release_session("s1")
    disk.full = False
    await disk.written()
    await store.stored(store._writer.changed)
    assert not store._shelves
    await store.open_session("s1")
    assert await store.read_log("a1", LogName.CHAT, 0, 1 << 20) == MUCH
    await store.close()


async def test_the_end_says_what_could_not_be_stored(store: Store, tmp_path: Path) -> None:
    """The file is let go of all the same, and what was answered is in it."""
    disk = Disk(store)
    await store.stored(store.append_log("a1", LogName.CHAT, b"kept"))
    disk.full = True
    store.append_log("a1", LogName.CHAT, MUCH)
    with pytest.raises(StoreError, match=f"^{ERROR}$"):
        await store.close()
    again = await Store.open(str(tmp_path / "ollie.db"))
    await again.open_session("s1")
    assert await again.read_log("a1", LogName.CHAT, 0, 100) == b"kept"
    await again.close()
