"""An agent between two events, and the few changes that every action of the turn is made of.

A change takes the list of effects that are to be done and adds to it.
"""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ollie.engine import events as ev
from ollie.engine.calls import Call
from ollie.engine.cost import Totals
from ollie.engine.messages import Message, Usage
from ollie.engine.partial import Partial
from ollie.engine.records import Reason, Record, message_of

Effects = list[ev.Effect]


class Phase(StrEnum):
    """Where a turn is."""

    idle = "idle"
    asking = "asking"
    retrying = "retrying"
    calling = "calling"
    stopping = "stopping"
    closing = "closing"


class State(Struct, frozen=True):
    """An agent between two events. A new or restored agent gives the first four only.

    Args:
        setup: what it asks its model with.
        history: what has been said, for the model.
        plan: its plan.
        totals: what it has used.
        phase: where its turn is.
        activity: what it is doing, for people.
        turn: the number of the current or last turn.
        turn_usage: tokens of the current or last turn.
        turn_cost_usd: cost of the same.
        request: the number of the newest request.
        runs: the number of the newest tool run.
        barrier: the number of the newest barrier.
        stored: the newest barrier that was answered.
        unstored: something was appended behind the newest barrier.
        steps: requests of this turn, without repeated ones.
        attempt: how often the current request was repeated.
        rounds: tool rounds since the model last saw its plan.
        partial: the reply that streams in.
        calls: those of the last reply.
        injected: the words that the model is still to be given.
        question: what the model asked the user in this turn.
        reply: its last text in this turn.
        reason: why the turn ends, from `stopping` on.
        note: the same for people.
    """

    setup: ev.Setup
    history: tuple[Message, ...] = ()
    plan: str = ""
    totals: Totals = Totals()
    phase: Phase = Phase.idle
    activity: str = ""
    turn: int = 0
    turn_usage: Usage = Usage()
    turn_cost_usd: float = 0.0
    request: int = 0
    runs: int = 0
    barrier: int = 0
    stored: int = 0
    unstored: bool = False
    steps: int = 0
    attempt: int = 0
    rounds: int = 0
    partial: Partial = Partial()
    calls: tuple[Call, ...] = ()
    injected: tuple[ev.Inject, ...] = ()
    question: str = ""
    reply: str = ""
    reason: Reason = Reason.answered
    note: str = ""


def append(state: State, out: Effects, *new: Record) -> State:
    """Add to the chat, and to the history what belongs there."""
    out.append(ev.Append(new))
    messages = tuple(message for record in new if (message := message_of(record)))
    return replace(state, history=state.history + messages, unstored=True)


def is_stored(state: State) -> bool:
    """Whether everything appended so far is known to be durable."""
    return not state.unstored and state.stored == state.barrier


def need_barrier(state: State, out: Effects) -> State:
    """Ask to be told when all of it is stored, unless that is asked already."""
    if not state.unstored:
        return state
    out.append(ev.Barrier(state.barrier + 1))
    return replace(state, barrier=state.barrier + 1, unstored=False)


def announce(state: State, activity: str, out: Effects) -> State:
    """Say what the agent is doing, when that has changed."""
    if activity == state.activity:
        return state
    out.append(ev.SetActivity(activity))
    return replace(state, activity=activity)
