"""The line before the engine."""

import asyncio

from ollie.backends.local.line import Line


async def test_places_move_up_as_others_leave() -> None:
    """Whoever leaves, in whatever place, those behind are told and those before are not."""
    line = Line()
    first, second, third = line.join(), line.join(), line.join()
    assert [place.ahead for place in (first, second, third)] == [0, 1, 2]
    second.leave()
    await third.move()
    assert third.ahead == 1
    first.leave()
    await third.move()
    assert third.ahead == 0


async def test_leaving_twice_is_leaving_once() -> None:
    """Nobody is moved a second time."""
    line = Line()
    first, second = line.join(), line.join()
    first.leave()
    await second.move()
    first.leave()
    moved = asyncio.ensure_future(second.move())
    await asyncio.sleep(0)
    assert not moved.done()
    moved.cancel()
    assert len(line) == 1
