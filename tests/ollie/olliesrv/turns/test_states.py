"""What `statewait` and `wait` give to whom, and when."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninep.bell import Bell
from ninep.errors import NinepError
from ollie.olliesrv.turns.states import Changes, State, States, StateWatch, state_of

IDLE, RUNNING, PAUSED = State.IDLE, State.RUNNING, State.PAUSED


@pytest.mark.parametrize(
    ("turn", "queued", "paused", "state"),
    [
        (False, False, False, IDLE),
        (False, True, False, RUNNING),
        (True, False, False, RUNNING),
        (True, True, True, RUNNING),
        (True, False, True, RUNNING),
        (False, True, True, PAUSED),
        (False, False, True, PAUSED),
    ],
)
def test_the_state_follows_from_turn_queue_and_pause(turn: bool, queued: bool, paused: bool, state: State) -> None:
    """A turn that runs is not stopped by a pause; a queue that is held does not run."""
    assert state_of(turn=turn, queued=queued, paused=paused) is state


def after(*states: State) -> Changes:
    changes = Changes()
    for state in states:
        changes.become(state)
    return changes


def fresh(changes: Changes, uname: str = "glenda") -> State | None:
    change = changes.first(uname, changes.last.position)
    return change.state if change else None


def test_a_fresh_reader_gets_a_finished_turn_at_once_and_then_blocks() -> None:
    """`cat statewait` after a turn: idle, at once; once more: it waits."""
    changes = after(RUNNING, IDLE)
    assert fresh(changes) is IDLE
    changes.deliver("glenda", changes.last)
    assert fresh(changes) is None


def test_a_fresh_reader_of_an_agent_that_never_ran_waits() -> None:
    """There is nothing to tell yet."""
    assert fresh(after()) is None


def test_a_fresh_reader_waits_for_the_end_of_a_turn() -> None:
    """While the agent runs, only a state that is not `running` ends the wait."""
    changes = after(RUNNING)
    opened = changes.last.position
    assert changes.first("glenda", opened) is None
    changes.become(PAUSED)
    found = changes.first("glenda", opened)
    assert found is not None
    assert found.state is PAUSED


def test_a_turn_that_ends_between_two_readers_is_not_missed() -> None:
    """The next reader of the same uname gets it at once."""
    changes = after(RUNNING, IDLE)
    changes.deliver("glenda", changes.last)
    changes.become(RUNNING)
    changes.become(IDLE)
    assert fresh(changes) is IDLE


def test_a_pause_between_two_readers_is_not_missed() -> None:
    """The last change is never lost, turn or no turn."""
    changes = after(RUNNING, IDLE)
    changes.deliver("glenda", changes.last)
    changes.become(PAUSED)
    assert fresh(changes) is PAUSED


def test_unames_do_not_share_their_positions() -> None:
    """What one was given is still news to another."""
    changes = after(RUNNING, IDLE)
    changes.deliver("glenda", changes.last)
    assert fresh(changes, "rob") is IDLE


def test_an_undelivered_reply_counts_for_nothing() -> None:
    """A reader that went away before its reply was sent has seen nothing."""
    changes = after(RUNNING, IDLE)
    assert fresh(changes) is IDLE
    assert fresh(changes) is IDLE


@given(st.lists(st.sampled_from(State), max_size=200))
def test_a_held_reader_sees_every_change_once_and_in_order(states: list[State]) -> None:
    """As long as it keeps up with the ring."""
    changes = Changes()
    expected = [state for state in states if changes.become(state)]
    seen, position = [], 0
    while (change := changes.after(position)) is not None:
        seen.append(change.state)
        position = change.position
    assert seen == expected


@given(st.lists(st.sampled_from(State), max_size=40), st.data())
def test_a_loop_of_fresh_readers_ends_in_the_last_state_and_does_not_spin(
    states: list[State], data: st.DataObject
) -> None:
    """`while :; do cat statewait; done` has the present state in the end, unless it is `running`, and then waits."""
    changes = Changes()
    given_last: State | None = None
    for state in [*states, *([IDLE] if states else [])]:
        changes.become(state)
        if data.draw(st.booleans()):
            found = changes.first("glenda", changes.last.position)
            if found:
                changes.deliver("glenda", found)
                given_last = found.state
    found = changes.first("glenda", changes.last.position)
    if found:
        changes.deliver("glenda", found)
        given_last = found.state
    assert changes.first("glenda", changes.last.position) is None
    assert given_last in {changes.last.state, None}


async def test_a_held_watch_sees_changes_that_came_while_nobody_read() -> None:
    """Its position is what was delivered to it."""
    states = States()
    watch = StateWatch(states, "glenda")
    states.become(RUNNING)
    states.become(IDLE)
    assert await watch.next() == b"idle\n"
    watch.delivered()
    states.become(RUNNING)
    states.become(IDLE)
    assert await watch.next() == b"running\n"
    watch.delivered()
    assert await watch.next() == b"idle\n"


async def test_a_cancelled_read_loses_no_change() -> None:
    """The next read of the fid gives what the cancelled one would have."""
    states = States()
    states.become(RUNNING)
    watch = StateWatch(states, "glenda")
    reading = asyncio.ensure_future(watch.next())
    await asyncio.sleep(0)
    states.become(IDLE)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert await watch.next() == b"idle\n"


async def test_waiting_for_rest_is_over_at_once_when_nothing_runs() -> None:
    """And else when the state is not `running` any more."""
    states = States()
    assert await states.resting() is IDLE
    states.become(RUNNING)
    waiting = asyncio.ensure_future(states.resting())
    await asyncio.sleep(0)
    assert states.bell.waiting == 1
    states.become(PAUSED)
    assert await waiting is PAUSED


async def test_the_end_of_an_agent_frees_everybody_who_waits() -> None:
    """With `file does not exist`."""
    states = States()
    states.become(RUNNING)
    waiting = [asyncio.ensure_future(states.resting()), asyncio.ensure_future(StateWatch(states, "glenda").next())]
    await asyncio.sleep(0)
    states.end()
    for future in waiting:
        with pytest.raises(NinepError, match="file does not exist"):
            await future


async def test_a_bell_forgets_who_waits_no_more() -> None:
    """A cancelled waiter leaves nothing behind."""
    bell = Bell()
    waiting = asyncio.ensure_future(bell.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert bell.waiting == 0
