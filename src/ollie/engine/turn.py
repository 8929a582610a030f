"""The turn of an agent: `step(state, event) -> (state, effects)`, without I/O and without a clock.

    idle     nothing to do
    asking   a request to the model streams
    retrying a request failed and is repeated when its timer fires
    calling  tool calls of the last reply run or wait
    stopping calls were cancelled, and what is left of them is awaited
    closing  the turn is over and is being stored

`TRANSITIONS` says which event may come in which phase, what it does (see `actions.py`) and where it may lead.
What holds in every state:

* The history is valid (`history.py`) whenever a request is made and whenever the turn is over: each call has exactly
  one result, also after a stop or a failure.
* A call with `effect: write` starts only when nothing else runs and everything before it is stored.
* `idle` is announced only when the whole turn is stored.
* Work that is no longer awaited is known by its number, and what it still says has no effect.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from ollie.engine import actions
from ollie.engine import events as ev
from ollie.engine.state import Effects, Phase, State


class UnexpectedEventError(Exception):
    """The driver gave an event that this phase does not take."""


def step(state: State, event: ev.Event) -> tuple[State, tuple[ev.Effect, ...]]:
    """The state after an event, and what is to be done, in this order.

    Raises:
        UnexpectedEventError: a `Prompt` or `Clear` while a turn runs.
    """
    rule = TRANSITIONS[state.phase].get(type(event))
    if rule is None:
        raise UnexpectedEventError(f"{type(event).__name__} while {state.phase}")
    effects: Effects = []
    after = rule.action(state, event, effects)
    assert after.phase is state.phase or after.phase in rule.to, f"{state.phase} to {after.phase}"
    return after, tuple(effects)


class Rule(Struct, frozen=True):
    """What an event does in a phase, and the phases that it may lead to besides the one it came in."""

    action: Callable[[State, Any, Effects], State]
    to: frozenset[Phase] = frozenset()


def _rule(action: Callable[[State, Any, Effects], State], *to: Phase) -> Rule:
    return Rule(action, frozenset(to))


_LATE: Final = _rule(actions.ignore)
_COMMON: Final[dict[type, Rule]] = {
    ev.Configure: _rule(actions.configure),
    ev.SetPlan: _rule(actions.set_plan),
    ev.Inject: _rule(actions.inject),
    ev.Spent: _rule(actions.spend),
    ev.Stored: _rule(actions.take_stored),
    ev.Stop: _LATE,
    ev.Streamed: _LATE,
    ev.ModelFailed: _LATE,
    ev.ToolDone: _LATE,
    ev.TimerFired: _LATE,
}
"""What an event does in a phase that says nothing else."""

TRANSITIONS: Final[dict[Phase, dict[type, Rule]]] = {
    Phase.idle: _COMMON
    | {
        ev.Prompt: _rule(actions.begin, Phase.asking, Phase.closing),
        ev.Inject: _rule(actions.begin_injected, Phase.asking, Phase.closing),
        ev.Clear: _rule(actions.clear),
    },
    Phase.asking: _COMMON
    | {
        ev.Streamed: _rule(actions.hear, Phase.calling, Phase.closing),
        ev.ModelFailed: _rule(actions.fail, Phase.retrying, Phase.closing),
        ev.Stop: _rule(actions.interrupt_model, Phase.closing),
        ev.TimerFired: _rule(actions.time_up, Phase.closing),
    },
    Phase.retrying: _COMMON
    | {
        ev.Stop: _rule(actions.stop_waiting, Phase.closing),
        ev.TimerFired: _rule(actions.time_up, Phase.asking, Phase.closing),
    },
    Phase.calling: _COMMON
    | {
        ev.ToolDone: _rule(actions.take_result, Phase.asking, Phase.closing),
        ev.Stored: _rule(actions.pass_barrier),
        ev.Stop: _rule(actions.interrupt_calls, Phase.stopping, Phase.closing),
        ev.TimerFired: _rule(actions.time_up, Phase.stopping, Phase.closing),
    },
    Phase.stopping: _COMMON
    | {
        ev.ToolDone: _rule(actions.take_remains, Phase.closing),
        ev.TimerFired: _rule(actions.time_up, Phase.closing),
    },
    Phase.closing: _COMMON
    | {
        ev.Stored: _rule(actions.finish, Phase.idle, Phase.asking),
        ev.Stop: _rule(actions.stop_closing),
    },
}
"""Phase and event: what is done. An event that a phase does not list is the driver's mistake."""
