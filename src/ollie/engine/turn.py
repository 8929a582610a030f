"""The turn of an agent: `step(state, event) -> (state, effects)`, without I/O and without a clock.

    idle     nothing to do
    asking   a request to the model streams
    retrying a request failed and is repeated when its timer fires
    calling  tool calls of the last reply run or wait
    stopping calls were cancelled, and what is left of them is awaited
    closing  the turn is over and is being stored

Which event may come in which phase, and where it may lead, is `TRANSITIONS`. What holds in every state:

* The history is valid (`history.py`) whenever a request is made and whenever the turn is over: each call has exactly
  one result, also after a stop or a failure.
* A call with `effect: write` starts only when nothing else runs and everything before it is stored.
* `idle` is announced only when the whole turn is stored.
* Work that is no longer awaited is known by its number, and what it still says has no effect.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ollie.engine import calls as tool_calls
from ollie.engine import events as ev
from ollie.engine import limits, own, records, retry, system
from ollie.engine.cost import add, counted, estimate
from ollie.engine.history import call_ids
from ollie.engine.messages import (
    Activity,
    Assistant,
    CallDelta,
    End,
    ReasoningDelta,
    Request,
    TextDelta,
    ToolResult,
    Usage,
    UsageReport,
)
from ollie.engine.partial import Partial, joined
from ollie.engine.records import Reason
from ollie.engine.results import result_of
from ollie.engine.state import Effects, Phase, State, announce, append, is_stored, need_barrier
from ollie.protocol import result as protocol

__all__ = ["TRANSITIONS", "Phase", "Rule", "State", "UnexpectedEventError", "step"]


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


# Beginning, asking.


def _begin(state: State, event: ev.Prompt, out: Effects) -> State:
    return _begin_with(state, event.text, (), out)


def _begin_injected(state: State, event: ev.Inject, out: Effects) -> State:
    return _begin_with(state, event.text, (event,), out)


def _begin_with(state: State, text: str, injected: tuple[ev.Inject, ...], out: Effects) -> State:
    """Begin a turn with a prompt, which may be made of injected words."""
    out.append(ev.SetState("running"))
    state = replace(
        state,
        turn=state.turn + 1,
        totals=replace(state.totals, turns=state.totals.turns + 1),
        turn_usage=Usage(),
        turn_cost_usd=0.0,
        steps=0,
        injected=(),
        question="",
        reply="",
        note="",
        calls=(),
    )
    if state.setup.limits.max_turn_s:
        out.append(ev.SetTimer(ev.Timer.turn, state.turn, state.setup.limits.max_turn_s))
    state = append(state, out, records.Prompted(state.turn, text))
    _tell_given(injected, out)
    return _ask(state, out)


def _ask(state: State, out: Effects) -> State:
    """Make the next request of the turn, or end it at one of its bounds."""
    note = limits.exceeded(state.setup.limits, state.steps, state.totals.cost_usd)
    if note:
        return _close(state, Reason.limit, note, out)
    return _send(replace(state, steps=state.steps + 1, attempt=0), out)


def _send(state: State, out: Effects) -> State:
    state = replace(
        state,
        phase=Phase.asking,
        request=state.request + 1,
        totals=replace(state.totals, requests=state.totals.requests + 1),
        partial=Partial(),
        calls=(),
    )
    out.append(ev.Ask(state.request, _request(state)))
    return announce(state, "thinking", out)


def _request(state: State) -> Request:
    setup = state.setup
    return Request(setup.model, setup.system, state.history, setup.tools, setup.parameters)


# While the model speaks.


def _hear(state: State, event: ev.Streamed, out: Effects) -> State:
    if event.request != state.request:
        return state
    partial = state.partial
    match event.event:
        case TextDelta(text):
            if not text:
                return state
            out.append(ev.Append((records.Spoke(text),)))
            return replace(state, partial=replace(partial, texts=joined(partial.texts, text)), unstored=True)
        case ReasoningDelta(text):
            if not text:
                return state
            out.append(ev.Append((records.Reasoned(text),)))
            return replace(state, partial=replace(partial, reasonings=joined(partial.reasonings, text)), unstored=True)
        case CallDelta() as delta:
            return replace(state, partial=partial.with_call(delta))
        case Activity(text):
            return announce(state, text, out)
        case UsageReport() as report:
            return replace(state, partial=replace(partial, report=report))
        case End(stop):
            return _take_reply(_count(state), out, cut=stop == "length")


def _count(state: State) -> State:
    """Count the tokens of the request that has ended."""
    report = state.partial.report
    usage = report.usage if report else estimate(_request(state), state.partial.characters)
    cost_usd = (report.cost_usd or 0.0) if report else 0.0
    return replace(
        state,
        totals=counted(state.totals, usage, cost_usd, estimated=report is None),
        turn_usage=add(state.turn_usage, usage),
        turn_cost_usd=state.turn_cost_usd + cost_usd,
    )


def _take_reply(state: State, out: Effects, *, cut: bool) -> State:
    """Take a complete reply into the history, and do what it asks for."""
    partial = state.partial
    calls = tool_calls.receive(partial.calls, state.setup.tools, call_ids(state.history), cut=cut)
    message = Assistant(partial.text, partial.reasoning, tuple(call.call for call in calls))
    state = replace(
        state,
        partial=Partial(),
        calls=calls,
        reply=message.text if message.text.strip() else state.reply,
        totals=replace(state.totals, tool_calls=state.totals.tool_calls + len(calls)),
    )
    if message.text.strip() or calls:
        state = append(state, out, records.Answered(message))
    if calls:
        return _run(replace(state, phase=Phase.calling), out)
    if cut:
        state = append(state, out, records.Noted("the reply was cut by its length limit (max_tokens)"))
    elif not message.text.strip():
        state = append(state, out, records.Noted("the model gave an empty reply"))
    return _go_on(state, out) if state.injected else _close(state, Reason.answered, "", out)


def _keep_partial(state: State, out: Effects) -> State:
    """Count a request that was broken off, and keep the text that had come of it. Its calls were never complete."""
    partial = state.partial
    state = replace(_count(state) if partial.characters or partial.report else state, partial=Partial())
    if not partial.text.strip():
        return state
    return append(replace(state, reply=partial.text), out, records.Answered(Assistant(partial.text)))


def _fail(state: State, event: ev.ModelFailed, out: Effects) -> State:
    if event.request != state.request:
        return state
    delay_s = retry.delay(state.setup.limits, event.kind, state.attempt, event.retry_after_s, event.jitter)
    state = replace(state, totals=replace(state.totals, errors=state.totals.errors + 1))
    if delay_s is None:
        state = append(_keep_partial(state, out), out, records.Failed(event.kind, event.message))
        return _close(state, Reason.failed, event.message, out)
    if state.partial.characters or state.partial.report:
        state = _count(state)
    out.append(ev.SetTimer(ev.Timer.retry, state.request, delay_s))
    state = append(state, out, records.Failed(event.kind, event.message, delay_s))
    state = replace(state, phase=Phase.retrying, attempt=state.attempt + 1, partial=Partial())
    return announce(state, f"retrying in {max(delay_s, 1):.0f}s", out)


def _interrupt_model(state: State, event: ev.Stop, out: Effects) -> State:
    out.append(ev.CancelModel(state.request))
    return _close(_keep_partial(state, out), Reason.stopped, event.note, out)


# While tools run.


def _run(state: State, out: Effects) -> State:
    """Start every call that may start now; when all have their results, go on."""
    while True:
        state = _settle(state, out)
        at = tool_calls.startable(state.calls, state.setup.limits.max_parallel)
        if at is None:
            break
        call = state.calls[at]
        if call.call.name in own.ANSWERED:
            state = _answer_own(state, at, out)
        elif call.effect == "write" and not is_stored(state):
            state = need_barrier(state, out)
            break
        else:
            state = replace(state, runs=state.runs + 1)
            state = replace(state, calls=tool_calls.put(state.calls, at, replace(call, run=state.runs)))
            out.append(ev.RunTool(state.runs, call.call, call.arguments))
    if all(call.result for call in state.calls):
        return _go_on(replace(state, rounds=state.rounds + 1), out)
    return announce(state, _calling(state), out)


def _answer_own(state: State, at: int, out: Effects) -> State:
    call = state.calls[at]
    answer = own.answer(call.call.name, call.arguments, state.plan)
    outcome = protocol.text(answer.text, is_error=answer.is_error)
    done = replace(call, result=result_of(call.call, outcome))
    state = replace(state, calls=tool_calls.put(state.calls, at, done))
    if answer.question:
        state = replace(state, question=answer.question, reply=answer.question)
        state = append(state, out, records.Spoke(answer.question))
    if answer.plan is not None:
        out.append(ev.WritePlan(answer.plan))
        state = replace(state, plan=answer.plan)
    return state


def _take_result(state: State, event: ev.ToolDone, out: Effects) -> State:
    return _run(_with_result(state, event, ""), out)


def _with_result(state: State, event: ev.ToolDone, interrupted: str) -> State:
    """The state with the result of a run; unchanged when nothing waits for that run."""
    for at, call in enumerate(state.calls):
        if call.running and call.run == event.run:
            done = replace(call, result=result_of(call.call, event.outcome, interrupted))
            return replace(state, calls=tool_calls.put(state.calls, at, done))
    return state


def _settle(state: State, out: Effects) -> State:
    """Take the results into the history that no earlier call is still missing before."""
    known = 0
    while known < len(state.history) and isinstance(state.history[-1 - known], ToolResult):
        known += 1
    results = tool_calls.settled(state.calls)[known:]
    return append(state, out, *map(records.Returned, results)) if results else state


def _go_on(state: State, out: Effects) -> State:
    """Every call has its result: ask the model again, or leave the turn to the user."""
    if state.question and not state.injected:
        return _close(state, Reason.question, "", out)
    state = _give_injected(replace(state, question=""), out)
    every = state.setup.limits.plan_rounds
    if every and state.plan.strip() and state.rounds >= every:
        state = append(replace(state, rounds=0), out, records.Reminded(system.reminder(state.plan)))
    return _ask(state, out)


def _give_injected(state: State, out: Effects) -> State:
    if not state.injected:
        return state
    words = state.injected
    state = append(replace(state, injected=()), out, *(records.Injected(one.text) for one in words))
    _tell_given(words, out)
    return state


def _tell_given(words: tuple[ev.Inject, ...], out: Effects) -> None:
    if words:
        out.append(ev.Given(tuple(one.entry for one in words)))


# Ending.


def _interrupt_calls(state: State, event: ev.Stop, out: Effects) -> State:
    return _abandon(state, Reason.stopped, event.note, out)


def _abandon(state: State, reason: Reason, note: str, out: Effects) -> State:
    """End the turn while calls run: cancel those, run no other, and wait for what is left of them."""
    calls = tuple(call.failed(f"not run: {note}") if call.waiting else call for call in state.calls)
    state = replace(state, calls=calls, reason=reason, note=note)
    running = [call for call in calls if call.running]
    if not running:
        return _close(_settle(state, out), reason, note, out)
    out.extend(ev.CancelTool(call.run) for call in running)
    out.append(ev.SetTimer(ev.Timer.stop, state.turn, state.setup.limits.stop_s))
    return announce(replace(state, phase=Phase.stopping), "stopping", out)


def _take_remains(state: State, event: ev.ToolDone, out: Effects) -> State:
    state = _settle(_with_result(state, event, f"interrupted: {state.note}"), out)
    if any(call.running for call in state.calls):
        return state
    return _close(state, state.reason, state.note, out)


def _time_up(state: State, event: ev.TimerFired, out: Effects) -> State:
    """A timer fired: the request is repeated, the turn ends at its time limit, or a stop waits no longer."""
    match state.phase, event.timer:
        case Phase.retrying, ev.Timer.retry if event.number == state.request:
            return _send(state, out)
        case Phase.asking | Phase.retrying, ev.Timer.turn if event.number == state.turn:
            if state.phase is Phase.asking:
                out.append(ev.CancelModel(state.request))
            return _close(_keep_partial(state, out), Reason.limit, limits.overtime(state.setup.limits), out)
        case Phase.calling, ev.Timer.turn if event.number == state.turn:
            return _abandon(state, Reason.limit, limits.overtime(state.setup.limits), out)
        case Phase.stopping, ev.Timer.stop if event.number == state.turn:
            text = f"interrupted: {state.note}; it may still be running"
            calls = tuple(call.failed(text) if call.running else call for call in state.calls)
            return _close(_settle(replace(state, calls=calls), out), state.reason, state.note, out)
    return state


def _stop_waiting(state: State, event: ev.Stop, out: Effects) -> State:
    return _close(state, Reason.stopped, event.note, out)


def _close(state: State, reason: Reason, note: str, out: Effects) -> State:
    """End the turn; it is over when all of it is stored."""
    state = _give_injected(state, out)
    ended = records.Ended(state.turn, reason, note, state.turn_usage, state.turn_cost_usd)
    state = append(replace(state, phase=Phase.closing, reason=reason, note=note, calls=()), out, ended)
    return announce(need_barrier(state, out), "", out)


def _stop_closing(state: State, _event: ev.Stop, out: Effects) -> State:
    """A stop in the last moment: words injected since then begin no turn any more, but are kept."""
    return need_barrier(_give_injected(state, out), out) if state.injected else state


def _finish(state: State, event: ev.Stored, out: Effects) -> State:
    state = _take_stored(state, event, out)
    if not is_stored(state):
        return state
    out.append(ev.TurnEnded(state.turn, state.reason, state.reply, state.note))
    out.append(ev.SetState("idle"))
    state = replace(state, phase=Phase.idle)
    if not state.injected:
        return state
    return _begin_with(state, "\n\n".join(one.text for one in state.injected), state.injected, out)


# At any time.


def _configure(state: State, event: ev.Configure, _out: Effects) -> State:
    return replace(state, setup=event.setup)


def _set_plan(state: State, event: ev.SetPlan, _out: Effects) -> State:
    return replace(state, plan=event.text)


def _spend(state: State, event: ev.Spent, _out: Effects) -> State:
    totals = replace(state.totals, cost_usd=state.totals.cost_usd + event.cost_usd)
    return replace(state, totals=totals, turn_cost_usd=state.turn_cost_usd + event.cost_usd)


def _inject(state: State, event: ev.Inject, _out: Effects) -> State:
    return replace(state, injected=(*state.injected, event))


def _clear(state: State, _event: ev.Clear, out: Effects) -> State:
    out.append(ev.ClearHistory())
    state = append(state, out, records.Noted("the history was cleared"))
    return replace(state, history=(), rounds=0, totals=replace(state.totals, context_tokens=0))


def _take_stored(state: State, event: ev.Stored, _out: Effects) -> State:
    return replace(state, stored=max(state.stored, event.barrier))


def _pass_barrier(state: State, event: ev.Stored, out: Effects) -> State:
    return _run(_take_stored(state, event, out), out)


def _ignore(state: State, _event: ev.Event, _out: Effects) -> State:
    return state


def _calling(state: State) -> str:
    names = [call.call.name for call in state.calls if call.running]
    names = names or [call.call.name for call in state.calls if call.waiting][:1]
    return "calling " + ", ".join(dict.fromkeys(names))


class Rule(Struct, frozen=True):
    """What an event does in a phase, and the phases that it may lead to besides the one it came in."""

    action: Callable[[State, Any, Effects], State]
    to: frozenset[Phase] = frozenset()


def _rule(action: Callable[[State, Any, Effects], State], *to: Phase) -> Rule:
    return Rule(action, frozenset(to))


_LATE: Final = _rule(_ignore)
_COMMON: Final[dict[type, Rule]] = {
    ev.Configure: _rule(_configure),
    ev.SetPlan: _rule(_set_plan),
    ev.Inject: _rule(_inject),
    ev.Spent: _rule(_spend),
    ev.Stored: _rule(_take_stored),
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
        ev.Prompt: _rule(_begin, Phase.asking, Phase.closing),
        ev.Inject: _rule(_begin_injected, Phase.asking, Phase.closing),
        ev.Clear: _rule(_clear),
    },
    Phase.asking: _COMMON
    | {
        ev.Streamed: _rule(_hear, Phase.calling, Phase.closing),
        ev.ModelFailed: _rule(_fail, Phase.retrying, Phase.closing),
        ev.Stop: _rule(_interrupt_model, Phase.closing),
        ev.TimerFired: _rule(_time_up, Phase.closing),
    },
    Phase.retrying: _COMMON
    | {
        ev.Stop: _rule(_stop_waiting, Phase.closing),
        ev.TimerFired: _rule(_time_up, Phase.asking, Phase.closing),
    },
    Phase.calling: _COMMON
    | {
        ev.ToolDone: _rule(_take_result, Phase.asking, Phase.closing),
        ev.Stored: _rule(_pass_barrier),
        ev.Stop: _rule(_interrupt_calls, Phase.stopping, Phase.closing),
        ev.TimerFired: _rule(_time_up, Phase.stopping, Phase.closing),
    },
    Phase.stopping: _COMMON
    | {
        ev.ToolDone: _rule(_take_remains, Phase.closing),
        ev.TimerFired: _rule(_time_up, Phase.closing),
    },
    Phase.closing: _COMMON
    | {
        ev.Stored: _rule(_finish, Phase.idle, Phase.asking),
        ev.Stop: _rule(_stop_closing),
    },
}
"""Phase and event: what is done. An event that a phase does not list is the driver's mistake."""
