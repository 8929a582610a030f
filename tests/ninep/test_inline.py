"""Coroutines that run inline and become tasks when they wait: what asyncio's own tools make of them."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from ninep.bell import Bell
from ninep.server.inline import Inline


class Result:
    """What `done` was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, BaseException | None]] = []
        self.ended = asyncio.Event()

    def done(self, value: Any, error: BaseException | None) -> None:
        """Keep it."""
        self.calls.append((value, error))
        self.ended.set()

    async def only(self) -> tuple[Any, BaseException | None]:
        """The one call."""
        await self.ended.wait()
        (call,) = self.calls
        return call


def start(work: Awaitable[Any]) -> tuple[Inline, Result]:
    """Run it."""
    result = Result()
    inline = Inline(asyncio.get_running_loop(), work, result.done)
    inline.start()
    return inline, result


async def test_what_does_not_wait_makes_no_task() -> None:
    """Its result is there when `start` returns, also from within a task."""

    async def work() -> int:
        return 7

    tasks = len(asyncio.all_tasks())
    _, result = start(work())
    assert result.calls == [(7, None)]
    assert len(asyncio.all_tasks()) == tasks
    assert asyncio.current_task() in asyncio.all_tasks()


async def test_an_error_is_told() -> None:
    """Before and after a wait."""

    async def work(*, wait: bool) -> None:
        if wait:
            await asyncio.sleep(0)
        raise ZeroDivisionError

    for wait in (False, True):
        _, result = start(work(wait=wait))
        value, error = await result.only()
        assert value is None
        assert isinstance(error, ZeroDivisionError)


@pytest.mark.parametrize("kind", ["event", "future", "sleep"])
async def test_it_goes_on_after_a_wait(kind: str) -> None:
    """Whatever it waits for: an event, a plain future, one turn of the loop."""
    future = asyncio.get_running_loop().create_future()
    event = asyncio.Event()

    async def work() -> str:
        await (event.wait() if kind == "event" else asyncio.sleep(0))
        return kind

    _, result = start(future if kind == "future" else work())
    assert result.calls == []
    event.set()
    future.set_result("future")
    assert await result.only() == (kind, None)


async def test_cancelled_before_its_task_took_over_it_still_cleans_up() -> None:
    """What it waits for is cancelled, as it would be by a task, and cleaning up may wait."""
    inner = asyncio.ensure_future(asyncio.Event().wait())
    cleaned = asyncio.Event()

    async def work() -> None:
        try:
            await inner
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    inline, result = start(work())
    inline.cancel()
    _, error = await result.only()
    assert isinstance(error, asyncio.CancelledError)
    assert cleaned.is_set()
    assert inner.cancelled()


async def test_cancelled_while_it_waits() -> None:
    """CancelledError where it is."""

    async def work() -> None:
        await asyncio.Event().wait()

    inline, result = start(work())
    await asyncio.sleep(0)
    inline.cancel()
    assert isinstance((await result.only())[1], asyncio.CancelledError)


async def test_a_timeout_entered_inline_still_fires() -> None:
    """`asyncio.timeout` keeps the current task of its start, which is the inline one."""

    async def work() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timeout"
        return "no timeout"

    _, result = start(work())
    assert await result.only() == ("timeout", None)


async def test_a_timeout_that_did_not_fire_leaves_no_trace() -> None:
    """A cancellation from outside within it is a cancellation."""

    async def work() -> None:
        async with asyncio.timeout(60):
            await asyncio.Event().wait()

    inline, result = start(work())
    await asyncio.sleep(0)
    inline.cancel()
    assert isinstance((await result.only())[1], asyncio.CancelledError)


async def test_a_task_group_begun_inline_works() -> None:
    """Also when one of its tasks fails: the group cancels its parent."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def work() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await asyncio.Event().wait()
        except* ZeroDivisionError:
            pass
        return "went on"

    _, result = start(work())
    assert await result.only() == ("went on", None)


async def test_one_begun_within_another() -> None:
    """Each has its own current task, and the outer one's is put back."""
    seen: list[object] = []

    async def inner() -> None:
        seen.append(asyncio.current_task())

    async def outer() -> None:
        seen.append(asyncio.current_task())
        seen.append(start(inner())[0])
        seen.append(asyncio.current_task())

    inline, _ = start(outer())
    assert seen == [inline, seen[2], seen[2], inline]


async def test_a_task_that_cancels_itself_before_it_waits() -> None:
    """The cancellation comes at its first wait."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        assert task.cancelling() == 1
        await asyncio.Event().wait()

    _, result = start(work())
    assert isinstance((await result.only())[1], asyncio.CancelledError)


async def test_what_waits_for_a_bell_makes_no_task() -> None:
    """It goes on after the step that rang, as the current task, and may wait for the bell again."""
    bell = Bell()
    seen: list[object] = []

    async def work() -> str:
        for _ in range(2):
            await bell.wait()
            seen.append(asyncio.current_task())
        return "rung"

    tasks = asyncio.all_tasks()
    inline, result = start(work())
    assert asyncio.all_tasks() == tasks
    for _ in range(2):
        bell.ring()
        bell.ring()
        seen.append("the step that rang")
        await asyncio.sleep(0)
    assert result.calls == [("rung", None)]
    assert seen == ["the step that rang", inline] * 2


@pytest.mark.parametrize("rung", [False, True])
async def test_a_parked_one_is_cancelled(*, rung: bool) -> None:
    """By CancelledError where it waits, also when the bell has just been rung; it may clean up by waiting."""
    bell, cleaned = Bell(), asyncio.Event()

    async def work() -> None:
        try:
            await bell.wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    inline, result = start(work())
    if rung:
        bell.ring()
    inline.cancel()
    _, error = await result.only()
    assert isinstance(error, asyncio.CancelledError)
    assert cleaned.is_set()
    bell.ring()


async def test_a_timeout_of_a_parked_one() -> None:
    """Its cancellation is taken back, and the next wait is an ordinary one."""
    bell, late = Bell(), asyncio.Event()

    async def work() -> str:
        try:
            async with asyncio.timeout(0.001):
                await bell.wait()
        except TimeoutError:
            late.set()
            await bell.wait()
            return "timeout"
        return "no timeout"

    inline, result = start(work())
    await late.wait()
    assert inline.cancelling() == 0
    bell.ring()
    assert await result.only() == ("timeout", None)


async def test_one_that_cancels_itself_before_it_is_parked() -> None:
    """The cancellation comes at the bell."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await Bell().wait()

    _, result = start(work())
    assert isinstance((await result.only())[1], asyncio.CancelledError)


async def test_from_bell_to_future() -> None:
    """Once it is a task it waits for bells as tasks do."""
    bell = Bell()

    async def work() -> str:
        await bell.wait()
        await asyncio.sleep(0)
        await bell.wait()
        return "twice"

    _, result = start(work())
    while not result.calls:
        bell.ring()
        await asyncio.sleep(0)
    assert await result.only() == ("twice", None)
