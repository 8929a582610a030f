"""The table of runs, without processes: states, ages, sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninep.errors import NinepError
from ollie.toolsrv.output import Output
from ollie.toolsrv.runs import TRANSITIONS, Event, Keep, Run, Runs, State, Task, overdue

TASK = Task("sh", "true", "a", "s", background=True)
LIMIT = 4 * 64 * 1024


def test_a_run_ends_once_and_from_every_other_state() -> None:
    """`ended` leads to `exited` from everywhere else, and nothing leads out of it."""
    assert {state for state, event in TRANSITIONS if event is Event.ENDED} == set(State) - {State.EXITED}
    assert {new for (state, _), new in TRANSITIONS.items() if state is State.EXITED} == {State.EXITED}


def test_a_run_can_always_be_told_to_stop() -> None:
    """`stopped` has a meaning in every state, and none of them is `running`."""
    assert all(TRANSITIONS[state, Event.STOPPED] in {State.STOPPING, State.EXITED} for state in State)


async def test_numbers_lead_to_runs_until_they_are_dismissed() -> None:
    """A run is found by its number; only a finished one can be dismissed."""
    runs = Runs(iter([7, 8]).__next__, Keep())
    run = runs.open(TASK, Output(LIMIT))
    assert run.number == 7
    assert runs.find(7) is run
    assert [each.number for each in runs] == [7]
    with pytest.raises(NinepError, match="process 7 has not exited"):
        run.dismiss()
    with pytest.raises(NinepError, match="process 7 has not started"):
        run.signal(15)
    run.finished(None, "no such program")
    assert run.exit_code == 127
    run.dismiss()
    assert runs.find(7) is None
    assert list(runs) == []


async def test_a_timer_runs_only_while_there_is_something_to_collect() -> None:
    """Finished runs wait for their age; none, no timer."""
    runs = Runs(iter([1, 2]).__next__, Keep(age_s=3600))
    run = runs.open(TASK, Output(LIMIT))
    runs.collect()
    assert runs._timer is None
    run.finished(None)
    runs.collect()
    assert runs._timer is not None
    run.dismiss()
    runs.collect()
    assert runs._timer is None


async def test_a_run_is_collected_at_its_age() -> None:
    """With no time to stay it goes at once."""
    runs = Runs(iter([1, 2]).__next__, Keep(age_s=0))
    run = runs.open(TASK, Output(LIMIT))
    runs.collect()
    assert list(runs) == [run]
    run.finished(None)
    runs.collect()
    assert list(runs) == []


@given(ages=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 10)), max_size=8))
async def test_old_and_large_runs_are_overdue(ages: list[tuple[int, int]]) -> None:
    """Runs past their age go, and of the others the newest stay as far as their output fits."""
    keep = Keep(age_s=100, output_bytes=1000)
    now = 1000.0
    finished = []
    for number, (age, hundreds) in enumerate(ages):
        run = Run(number, TASK, Output(LIMIT), lambda _run: None)
        run.output.append(b"x" * 100 * hundreds)
        run.finished(None)
        run.ended_at = now - age
        finished.append(run)
    dropped = overdue(finished, now, keep)
    stay = [run for run in finished if run not in dropped]
    assert all(now - (run.ended_at or 0) < keep.age_s for run in stay)
    assert sum(run.output.length for run in stay) <= keep.output_bytes
    newest_dropped = max((run.ended_at or 0 for run in dropped), default=0)
    assert all((run.ended_at or 0) >= newest_dropped for run in stay) or newest_dropped == 0
    assert overdue([Run(1, TASK, Output(LIMIT), lambda _run: None)], now, keep) == []
