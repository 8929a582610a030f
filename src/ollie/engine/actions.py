"""What events do in the phases of a turn; which does what where is the table in `turn.py`.

An action takes the state and an event, adds what is to be done to a list of effects, and gives the state after it.
"""

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

# Beginning, asking.


def begin(state: State, event: ev.Prompt, out: Effects) -> State:
    """A prompt begins a turn."""
    return _begin_with(state, event.text, (), out)


def begin_injected(state: State, event: ev.Inject, out: Effects) -> State:
    """Injected words begin a turn, where none runs."""
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


def hear(state: State, event: ev.Streamed, out: Effects) -> State:
    """The model said something."""
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


def fail(state: State, event: ev.ModelFailed, out: Effects) -> State:
    """The request failed: it is repeated later, or the turn ends."""
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


def interrupt_model(state: State, event: ev.Stop, out: Effects) -> State:
    """A stop while the model speaks; what it has said is kept."""
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
    return announce(state, f"calling {tool_calls.current(state.calls)}", out)


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


def take_result(state: State, event: ev.ToolDone, out: Effects) -> State:
    """A run is over."""
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


def interrupt_calls(state: State, event: ev.Stop, out: Effects) -> State:
    """A stop while tools run."""
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


def take_remains(state: State, event: ev.ToolDone, out: Effects) -> State:
    """A run that was cancelled is over; with the last of them the turn ends."""
    state = _settle(_with_result(state, event, f"interrupted: {state.note}"), out)
    if any(call.running for call in state.calls):
        return state
    return _close(state, state.reason, state.note, out)


def time_up(state: State, event: ev.TimerFired, out: Effects) -> State:
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


def stop_waiting(state: State, event: ev.Stop, out: Effects) -> State:
    """A stop while a request waits to be repeated."""
    return _close(state, Reason.stopped, event.note, out)


def _close(state: State, reason: Reason, note: str, out: Effects) -> State:
    """End the turn; it is over when all of it is stored."""
    state = _give_injected(state, out)
    ended = records.Ended(state.turn, reason, note, state.turn_usage, state.turn_cost_usd)
    state = append(replace(state, phase=Phase.closing, reason=reason, note=note, calls=()), out, ended)
    return announce(need_barrier(state, out), "", out)


def stop_closing(state: State, _event: ev.Stop, out: Effects) -> State:
    """A stop in the last moment: words injected since then begin no turn any more, but are kept."""
    return need_barrier(_give_injected(state, out), out) if state.injected else state


def finish(state: State, event: ev.Stored, out: Effects) -> State:
    """The turn is stored: it is over; words injected since then begin the next."""
    state = take_stored(state, event, out)
    if not is_stored(state):
        return state
    out.append(ev.TurnEnded(state.turn, state.reason, state.reply, state.note))
    out.append(ev.SetState("idle"))
    state = replace(state, phase=Phase.idle)
    if not state.injected:
        return state
    return _begin_with(state, "\n\n".join(one.text for one in state.injected), state.injected, out)


# At any time.


def configure(state: State, event: ev.Configure, _out: Effects) -> State:
    """Other settings."""
    return replace(state, setup=event.setup)


def set_plan(state: State, event: ev.SetPlan, _out: Effects) -> State:
    """Another plan."""
    return replace(state, plan=event.text)


def spend(state: State, event: ev.Spent, _out: Effects) -> State:
    """A sub-agent has cost something."""
    totals = replace(state.totals, cost_usd=state.totals.cost_usd + event.cost_usd)
    return replace(state, totals=totals, turn_cost_usd=state.turn_cost_usd + event.cost_usd)


def inject(state: State, event: ev.Inject, _out: Effects) -> State:
    """Words for the model, which it is given with the next tool result."""
    return replace(state, injected=(*state.injected, event))


def clear(state: State, _event: ev.Clear, out: Effects) -> State:
    """Forget the history."""
    out.append(ev.ClearHistory())
    state = append(state, out, records.Noted("the history was cleared"))
    return replace(state, history=(), rounds=0, totals=replace(state.totals, context_tokens=0))


def take_stored(state: State, event: ev.Stored, _out: Effects) -> State:
    """Something is durable."""
    return replace(state, stored=max(state.stored, event.barrier))


def pass_barrier(state: State, event: ev.Stored, out: Effects) -> State:
    """Something is durable, and a call may have waited for that."""
    return _run(take_stored(state, event, out), out)


def ignore(state: State, _event: ev.Event, _out: Effects) -> State:
    """What is no longer awaited."""
    return state
