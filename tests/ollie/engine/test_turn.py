"""The turn: what each event does in each phase, and whole turns from prompt to idle."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ollie.engine import events as ev
from ollie.engine import own
from ollie.engine import records as r
from ollie.engine.history import problem
from ollie.engine.limits import Limits
from ollie.engine.messages import (
    Activity,
    Assistant,
    CallDelta,
    End,
    ErrorKind,
    ImageContent,
    ReasoningDelta,
    StopReason,
    StreamEvent,
    TextContent,
    TextDelta,
    ToolResult,
    ToolSpec,
    Usage,
    UsageReport,
    User,
)
from ollie.engine.state import Phase, State
from ollie.engine.turn import TRANSITIONS, UnexpectedEventError, step
from ollie.protocol import result as protocol

TOOLS = (
    ToolSpec("look", "", {"type": "object"}, effect="read"),
    ToolSpec("change", "", {"type": "object"}, effect="write"),
    *own.SPECS.values(),
)


class Agent:
    """An agent whose driver is the test: it keeps the state and what it was told to do since the last look."""

    def __init__(self, limits: Limits | None = None, tools: Sequence[ToolSpec] = TOOLS) -> None:
        self.state = State(ev.Setup("m", "be good", tuple(tools), limits=limits or Limits()))
        self.effects: list[ev.Effect] = []

    def give(self, *events: ev.Event) -> "Agent":
        """Step through events."""
        for event in events:
            self.state, effects = step(self.state, event)
            self.effects += effects
        return self

    def say(self, *events: StreamEvent) -> "Agent":
        """Stream for the newest request."""
        return self.give(*(ev.Streamed(self.state.request, event) for event in events))

    def reply(self, text: str = "", *calls: tuple[str, str, str], stop: StopReason = "stop") -> "Agent":
        """Stream a whole reply; a call is (id, name, arguments)."""
        deltas = [CallDelta(at, *call) for at, call in enumerate(calls)]
        return self.say(*([TextDelta(text)] if text else []), *deltas, End(stop))

    def done(self, run: int, text: str = "ok") -> "Agent":
        """End a run."""
        return self.give(ev.ToolDone(run, protocol.text(text)))

    def stored(self) -> "Agent":
        """Answer the newest barrier."""
        return self.give(ev.Stored(self.state.barrier))

    def took(self, kind: type[Any]) -> list[Any]:
        """The effects of a kind since the last look."""
        found = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return found

    def records(self) -> list[r.Record]:
        """What was appended since the last look."""
        return [record for effect in self.took(ev.Append) for record in effect.records]

    def results(self) -> list[str]:
        """The texts of the results in the history, in order."""
        return [
            "".join(part.text for part in message.content if isinstance(part, TextContent))
            for message in self.state.history
            if isinstance(message, ToolResult)
        ]


def asking() -> Agent:
    return Agent().give(ev.Prompt("hello"))


def retrying() -> Agent:
    agent = asking()
    return agent.give(ev.ModelFailed(agent.state.request, ErrorKind.overloaded, "busy"))


def calling() -> Agent:
    return asking().reply("", ("c1", "look", "{}"))


def stopping() -> Agent:
    return calling().give(ev.Stop())


def closing() -> Agent:
    return asking().reply("hi")


def waiting_to_write() -> Agent:
    return asking().reply("", ("c1", "change", "{}"))


def asked_the_user() -> Agent:
    return asking().reply("", ("q", "ask_user", '{"question":"?"}'), ("c1", "look", "{}"))


def broke() -> Agent:
    agent = Agent(Limits(max_cost_usd=1.0)).give(ev.Prompt("x"))
    return agent.say(UsageReport(Usage(), 1.0), TextDelta("hi"), End("stop")).stored()


def reply_with_a_call() -> Agent:
    return asking().say(CallDelta(0, "c1", "look", "{}"))


def injected_late() -> Agent:
    return closing().give(ev.Inject("x", 1))


PHASES: dict[Phase, Callable[[], Agent]] = {
    Phase.idle: Agent,
    Phase.asking: asking,
    Phase.retrying: retrying,
    Phase.calling: calling,
    Phase.stopping: stopping,
    Phase.closing: closing,
}

# How an agent is, an event that is awaited then, and where it leads.
AWAITED: list[tuple[Callable[[], Agent], ev.Event, Phase]] = [
    (Agent, ev.Prompt("x"), Phase.asking),
    (broke, ev.Prompt("x"), Phase.closing),
    (Agent, ev.Inject("x", 1), Phase.asking),
    (broke, ev.Inject("x", 1), Phase.closing),
    (Agent, ev.Clear(), Phase.idle),
    (Agent, ev.Stop(), Phase.idle),
    (asking, ev.Streamed(1, TextDelta("x")), Phase.asking),
    (asking, ev.Streamed(1, End("stop")), Phase.closing),
    (reply_with_a_call, ev.Streamed(1, End("tool_calls")), Phase.calling),
    (asking, ev.ModelFailed(1, ErrorKind.overloaded, "busy"), Phase.retrying),
    (asking, ev.ModelFailed(1, ErrorKind.context_overflow, "too long"), Phase.closing),
    (asking, ev.Stop(), Phase.closing),
    (asking, ev.Inject("x", 1), Phase.asking),
    (asking, ev.TimerFired(ev.Timer.turn, 1), Phase.closing),
    (retrying, ev.TimerFired(ev.Timer.retry, 1), Phase.asking),
    (retrying, ev.TimerFired(ev.Timer.turn, 1), Phase.closing),
    (retrying, ev.Stop(), Phase.closing),
    (retrying, ev.Inject("x", 1), Phase.retrying),
    (calling, ev.ToolDone(1, protocol.text("ok")), Phase.asking),
    (asked_the_user, ev.ToolDone(1, protocol.text("ok")), Phase.closing),
    (waiting_to_write, ev.Stored(1), Phase.calling),
    (calling, ev.TimerFired(ev.Timer.turn, 1), Phase.stopping),
    (waiting_to_write, ev.TimerFired(ev.Timer.turn, 1), Phase.closing),
    (calling, ev.Stop(), Phase.stopping),
    (waiting_to_write, ev.Stop(), Phase.closing),
    (calling, ev.Inject("x", 1), Phase.calling),
    (stopping, ev.ToolDone(1, protocol.text("ok")), Phase.closing),
    (stopping, ev.TimerFired(ev.Timer.stop, 1), Phase.closing),
    (stopping, ev.Stop(), Phase.stopping),
    (closing, ev.Stored(1), Phase.idle),
    (injected_late, ev.Stored(1), Phase.asking),
    (closing, ev.Stop(), Phase.closing),
    (closing, ev.Inject("x", 1), Phase.closing),
]

# Events for work that nobody waits for any more.
LATE: list[ev.Event] = [
    ev.Streamed(99, TextDelta("late")),
    ev.ModelFailed(99, ErrorKind.unavailable, "late"),
    ev.ToolDone(99, protocol.text("late")),
    ev.Stored(0),
    ev.TimerFired(ev.Timer.turn, 99),
    ev.TimerFired(ev.Timer.retry, 99),
    ev.TimerFired(ev.Timer.stop, 99),
]


@pytest.mark.parametrize(("how", "event", "to"), AWAITED)
def test_an_awaited_event_leads_where_it_should(how: Callable[[], Agent], event: ev.Event, to: Phase) -> None:
    """Each awaited event of each phase leads to its next phase."""
    assert how().give(event).state.phase is to


def test_the_table_names_all_that_can_follow_and_no_more() -> None:
    """Where a rule says that its event may lead is where that led in some row above, and the reverse."""
    reached: dict[tuple[Phase, type], set[Phase]] = {}
    for how, event, to in AWAITED:
        reached.setdefault((how().state.phase, type(event)), set()).add(to)
    for phase, rules in TRANSITIONS.items():
        for kind, rule in rules.items():
            assert rule.to - {phase} == reached.get((phase, kind), set()) - {phase}, f"{phase} {kind.__name__}"


@pytest.mark.parametrize("event", LATE, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("phase", Phase)
def test_what_comes_late_does_nothing(phase: Phase, event: ev.Event) -> None:
    """What comes for work that is no longer awaited changes nothing and has no effect, in any phase."""
    agent = PHASES[phase]()
    assert step(agent.state, event) == (agent.state, ())


@pytest.mark.parametrize("event", [ev.Prompt("x"), ev.Clear()])
@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.idle])
def test_a_second_prompt_is_the_drivers_mistake(phase: Phase, event: ev.Event) -> None:
    """Nothing but an idle agent takes a prompt or forgets its history."""
    with pytest.raises(UnexpectedEventError, match=f"while {phase}"):
        PHASES[phase]().give(event)


@pytest.mark.parametrize("phase", Phase)
def test_settings_and_plan_may_change_at_any_time(phase: Phase) -> None:
    """Settings and plan are taken in any phase without disturbing it."""
    agent = PHASES[phase]()
    before = list(agent.effects)
    agent.give(ev.Configure(ev.Setup("other")), ev.SetPlan("steps"))
    assert (agent.state.phase, agent.state.setup.model, agent.state.plan) == (phase, "other", "steps")
    assert agent.effects == before


@pytest.mark.parametrize("phase", Phase)
def test_what_sub_agents_cost_counts_at_any_time(phase: Phase) -> None:
    """As the agent's own, and as that of its turn."""
    agent = PHASES[phase]()
    totals, turn = agent.state.totals.cost_usd, agent.state.turn_cost_usd
    before = list(agent.effects)
    agent.give(ev.Spent(0.25), ev.Spent(0.5))
    assert (agent.state.phase, agent.state.totals.cost_usd) == (phase, totals + 0.75)
    assert agent.state.turn_cost_usd == turn + 0.75
    assert agent.effects == before


# Whole turns.


def test_a_plain_answer() -> None:
    """Prompt, request, streamed words, barrier, idle: in this order, with the reply at the end."""
    agent = Agent().give(ev.Prompt("hello"))
    assert agent.took(ev.SetState) == [ev.SetState("running")]
    (ask,) = agent.took(ev.Ask)
    assert (ask.content.model, ask.content.system, ask.content.messages) == ("m", "be good", (User("hello"),))
    assert not agent.took(ev.Barrier)
    agent.say(
        ReasoningDelta("hm"), TextDelta("hi "), TextDelta("there"), UsageReport(Usage(10, 0, 3), 0.5), End("stop")
    )
    assert agent.records() == [
        r.Prompted(1, "hello"),
        r.Reasoned("hm"),
        r.Spoke("hi "),
        r.Spoke("there"),
        r.Answered(Assistant("hi there", "hm")),
        r.Ended(1, r.Reason.answered, "", Usage(10, 0, 3), 0.5),
    ]
    assert not agent.took(ev.SetState)
    agent.stored()
    assert agent.took(ev.TurnEnded) == [ev.TurnEnded(1, r.Reason.answered, "hi there")]
    assert agent.took(ev.SetState) == [ev.SetState("idle")]
    assert agent.state.totals.cost_usd == 0.5
    assert agent.state.totals.context_tokens == 13


def test_reads_run_together_and_a_write_alone() -> None:
    """Reads run in parallel; a write behind them waits for them and the store, and the read behind it for the write."""
    agent = asking().reply("", ("a", "look", '{"n":1}'), ("b", "look", ""), ("c", "change", "{}"), ("d", "look", "{}"))
    assert [(run.run, run.call.id, run.arguments) for run in agent.took(ev.RunTool)] == [
        (1, "a", {"n": 1}),
        (2, "b", {}),
    ]
    agent.done(2, "second")
    assert agent.results() == []
    agent.done(1, "first")
    assert agent.results() == ["first", "second"]
    assert not agent.took(ev.RunTool)
    agent.stored()
    assert [run.call.id for run in agent.took(ev.RunTool)] == ["c"]
    agent.done(3, "third")
    assert [run.call.id for run in agent.took(ev.RunTool)] == ["d"]
    agent.took(ev.Ask)
    agent.done(4, "fourth")
    (ask,) = agent.took(ev.Ask)
    assert agent.results() == ["first", "second", "third", "fourth"]
    assert problem(ask.content.messages) == ""


def test_a_write_waits_for_its_own_barrier() -> None:
    """The answer to an older barrier starts no write."""
    agent = asking().reply("", ("a", "change", "{}"), ("b", "change", "{}")).give(ev.Stored(1)).done(1)
    assert [run.call.id for run in agent.took(ev.RunTool)] == ["a"]
    agent.give(ev.Stored(1))
    assert not agent.took(ev.RunTool)
    agent.give(ev.Stored(2))
    assert [run.call.id for run in agent.took(ev.RunTool)] == ["b"]


def test_forty_calls_run_a_few_at_a_time() -> None:
    """Forty reads in one reply all run, no more than `max_parallel` at once, and are answered in order."""
    agent = Agent(Limits(max_parallel=3)).give(ev.Prompt("x"))
    agent.reply("", *((f"c{n}", "look", "{}") for n in range(40)))
    for run in range(1, 41):
        assert sum(call.running for call in agent.state.calls) <= 3
        agent.done(run, str(run))
    assert agent.results() == [str(n) for n in range(1, 41)]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("c", "look", '{"a": '), 'not run: the arguments are not a JSON object: {"a": '),
        (("c", "look", "[1]"), "not run: the arguments are not a JSON object: [1]"),
        (("c", "look", '"\\ud800"'), "not run: the arguments are not a JSON object"),
        (("c", "nope", "{}"), "unknown tool: nope (known: agent_spawn ask_user change look plan)"),
        (("c", "<|look|>", "{}"), "unknown tool: <|look|>"),
        (("c", "", "{}"), "not run: the call names no tool"),
    ],
)
def test_a_malformed_call_is_never_run(call: tuple[str, str, str], told: str) -> None:
    """The model gets an error for what it wrote wrong, in a history that providers accept, and goes on."""
    agent = asking().reply("", call)
    assert not agent.took(ev.RunTool)
    assert agent.results()[0].startswith(told)
    assert problem(agent.state.history) == ""
    assert agent.state.phase is Phase.asking


def test_the_same_id_twice() -> None:
    """Of two calls with one id the first is run; the second has an error, under an id of its own."""
    agent = asking().reply("", ("c", "look", "{}"), ("c", "look", "{}")).done(1)
    assert agent.results() == ["ok", "not run: two calls of this reply have the id c"]
    agent.reply("", ("c", "look", "{}"), ("", "look", "{}")).done(2).done(3)
    assert agent.results()[2:] == ["ok", "ok"]
    assert problem(agent.state.history) == ""


def test_a_reply_cut_by_length_runs_nothing() -> None:
    """Calls of a reply that met its length limit are not run, even when they look complete."""
    agent = asking().reply("I will", ("a", "change", "{}"), ("b", "change", '{"x'), stop="length")
    assert not agent.took(ev.RunTool)
    assert all("cut by its length limit" in text for text in agent.results())
    assert problem(agent.state.history) == ""


def test_stop_in_the_middle_of_parallel_calls() -> None:
    """Each call has exactly one result after a stop: what it gave, or that it was not run; and the next turn works."""
    agent = asking().reply("", ("a", "look", "{}"), ("b", "look", "{}"), ("c", "change", "{}")).done(1, "whole")
    agent.give(ev.Stop())
    assert agent.took(ev.CancelTool) == [ev.CancelTool(2)]
    assert agent.state.activity == "stopping"
    assert not agent.took(ev.TurnEnded)
    agent.done(2, "half").stored()
    assert agent.results() == ["whole", "half\ninterrupted: stopped", "not run: stopped"]
    assert agent.took(ev.TurnEnded) == [ev.TurnEnded(1, r.Reason.stopped, "", "stopped")]
    agent.took(ev.Ask)
    (ask,) = agent.give(ev.Prompt("go on")).took(ev.Ask)
    assert problem(ask.content.messages) == ""


def test_a_stop_does_not_wait_for_ever() -> None:
    """A call that does not end within `stop_s` gets a result that says so, and what it gives later is ignored."""
    agent = stopping()
    (timer,) = agent.took(ev.SetTimer)
    agent.give(ev.TimerFired(timer.timer, timer.number)).stored()
    assert agent.results() == ["interrupted: stopped; it may still be running"]
    assert agent.state.phase is Phase.idle
    assert step(agent.state, ev.ToolDone(1, protocol.text("late"))) == (agent.state, ())


def test_stop_keeps_the_words_that_came() -> None:
    """A stop in the middle of a reply keeps its text in the history, its half calls not, and counts an estimate."""
    agent = asking().say(TextDelta("I think " * 10), CallDelta(0, "c", "look", '{"a'))
    agent.give(ev.Stop()).stored()
    assert agent.took(ev.CancelModel) == [ev.CancelModel(1)]
    assert agent.state.history[1:] == (Assistant("I think " * 10),)
    assert agent.state.totals.estimated == 1
    assert agent.state.totals.usage.output_tokens == 20
    assert agent.took(ev.TurnEnded)[0].reply == "I think " * 10


def test_a_failed_request_is_repeated_and_then_given_up() -> None:
    """Retries are finite, wait longer each time, are told, and leave a valid history."""
    agent = Agent(Limits(max_retries=3)).give(ev.Prompt("x"))
    waits = []
    while agent.state.phase is not Phase.closing:
        agent.give(ev.ModelFailed(agent.state.request, ErrorKind.stream_cut, "lost", jitter=0.0))
        for timer in agent.took(ev.SetTimer):
            waits.append(timer.seconds)
            assert agent.took(ev.SetActivity)[-1].text == f"retrying in {max(timer.seconds, 1):.0f}s"
            agent.give(ev.TimerFired(timer.timer, timer.number))
    assert waits == [0.5, 1.0, 2.0]
    assert agent.state.totals.requests == 4
    agent.stored()
    assert agent.took(ev.TurnEnded) == [ev.TurnEnded(1, r.Reason.failed, "", "lost")]


def test_a_repeated_request_forgets_the_cut_reply() -> None:
    """What came of a reply before it was cut is shown, but is not a part of the repeated one."""
    agent = asking().say(TextDelta("half"), CallDelta(0, "c", "look", "{"))
    agent.give(ev.ModelFailed(1, ErrorKind.stream_cut, "lost"), ev.TimerFired(ev.Timer.retry, 1)).reply("whole")
    assert agent.state.history == (User("hello"), Assistant("whole"))


def test_the_words_of_a_given_up_reply_are_kept() -> None:
    """Text that came before the last failure stays in the history."""
    agent = Agent(Limits(max_retries=0)).give(ev.Prompt("x")).say(TextDelta("half"))
    agent.give(ev.ModelFailed(1, ErrorKind.stream_cut, "lost")).stored()
    assert agent.state.history == (User("x"), Assistant("half"))
    assert agent.took(ev.TurnEnded)[0].reply == "half"


def test_injected_words_come_with_the_next_result() -> None:
    """Words injected while tools run stand right behind their results."""
    agent = calling().give(ev.Inject("faster", 1), ev.Inject("please", 2))
    (ask,) = agent.took(ev.Ask)
    (ask,) = agent.done(1).took(ev.Ask)
    assert ask.content.messages[-2:] == (User("faster"), User("please"))


def test_injected_words_are_given_in_the_step_that_they_are_appended_in() -> None:
    """So that a store which has both or neither has them once. They stay in the order in which they came."""
    agent = calling().give(ev.Inject("faster", 7), ev.Inject("please", 8))
    assert agent.took(ev.Given) == []
    agent.effects.clear()
    agent.done(1)
    appended = [effect for effect in agent.effects if isinstance(effect, ev.Append | ev.Given | ev.Ask)]
    assert [type(effect) for effect in appended] == [ev.Append, ev.Append, ev.Given, ev.Ask]
    assert appended[1:3] == [ev.Append((r.Injected("faster"), r.Injected("please"))), ev.Given((7, 8))]


@pytest.mark.parametrize(
    ("made", "event"),
    [
        (Agent, ev.Inject("words", 1)),
        (lambda: closing().give(ev.Inject("words", 1)), ev.Stored(1)),
        (lambda: closing().give(ev.Inject("words", 1)), ev.Stop()),
        (lambda: asking().give(ev.Inject("words", 1)), ev.Stop()),
        (lambda: retrying().give(ev.Inject("words", 1)), ev.Stop()),
        (lambda: calling().give(ev.Inject("words", 1)), ev.TimerFired(ev.Timer.turn, 1)),
        (lambda: stopping().give(ev.Inject("words", 1)), ev.ToolDone(1, protocol.text("ok"))),
        (lambda: waiting_to_write().give(ev.Inject("words", 1)), ev.Stop()),
        (broke, ev.Inject("words", 1)),
    ],
)
def test_injected_words_are_in_the_history_however_the_turn_goes_on(made: Callable[[], Agent], event: ev.Event) -> None:
    """Once, and told as given: as a prompt when nothing ran, and where a turn ends before they could be given."""
    agent = made().give(event)
    for run in range(agent.state.runs + 1):
        agent.done(run)
    assert agent.took(ev.Given) == [ev.Given((1,))]
    assert agent.state.history.count(User("words")) == 1
    assert agent.state.injected == ()


def test_injected_words_behind_the_last_result_are_not_lost() -> None:
    """Words injected during what would have been the last reply make the model go on."""
    agent = asking().give(ev.Inject("and now?", 1)).reply("done")
    assert agent.state.phase is Phase.asking
    assert agent.state.history[-2:] == (Assistant("done"), User("and now?"))


def test_injected_words_in_the_last_moment_begin_a_turn() -> None:
    """Words injected while the turn is being stored are the next turn's prompt."""
    agent = closing().give(ev.Inject("one", 1), ev.Inject("two", 2)).stored()
    assert agent.state.phase is Phase.asking
    assert agent.state.turn == 2
    assert agent.state.history[-1] == User("one\n\ntwo")


def test_a_stop_in_the_last_moment_begins_no_turn() -> None:
    """Words injected in the last moment of a turn that is then stopped are kept, stored, and begin no turn."""
    agent = closing().give(ev.Inject("one", 1), ev.Stop(), ev.Stored(1))
    assert agent.state.phase is Phase.closing
    assert agent.stored().took(ev.SetState)[-1] == ev.SetState("idle")
    assert len(agent.took(ev.TurnEnded)) == 1
    assert agent.state.history[-1] == User("one")


def test_the_step_limit_ends_the_turn_behind_the_results() -> None:
    """After `max_steps` requests the last calls still have their results, and the note says how to go on."""
    agent = Agent(Limits(max_steps=2)).give(ev.Prompt("x"))
    agent.reply("", ("a", "look", "{}")).done(1).reply("", ("b", "look", "{}")).done(2).stored()
    (ended,) = agent.took(ev.TurnEnded)
    assert (ended.reason, ended.note) == (r.Reason.limit, "ended after 2 steps (max_steps=2); prompt again to go on")
    assert agent.results() == ["ok", "ok"]
    agent.took(ev.Ask)
    assert len(agent.give(ev.Prompt("more")).took(ev.Ask)) == 1


def test_the_cost_limit_holds_over_turns() -> None:
    """What the agent may cost is one budget for all its turns."""
    agent = Agent(Limits(max_cost_usd=1.0)).give(ev.Prompt("x"))
    agent.say(UsageReport(Usage(1, 0, 1), 1.5), TextDelta("hi"), End("stop")).stored()
    assert agent.took(ev.TurnEnded)[0].reason is r.Reason.answered
    agent.took(ev.Ask)
    agent.give(ev.Prompt("more")).stored()
    assert not agent.took(ev.Ask)
    assert agent.took(ev.TurnEnded)[0].note == "the budget of $1.00 is used up (max_cost_usd); raise it to go on"


@pytest.mark.parametrize("events", [(), (CallDelta(0, "c", "look", "{}"), End("tool_calls"))])
def test_the_time_limit_ends_the_turn(events: Sequence[StreamEvent]) -> None:
    """When the time is up what runs is cancelled, and the turn ends with a note."""
    agent = Agent(Limits(max_turn_s=60)).give(ev.Prompt("x"))
    (timer,) = agent.took(ev.SetTimer)
    assert timer.seconds == 60
    agent.say(*events).give(ev.TimerFired(timer.timer, timer.number)).done(1).stored()
    assert len(agent.took(ev.CancelModel) + agent.took(ev.CancelTool)) == 1
    assert agent.took(ev.TurnEnded)[0].note == "ended after 60 seconds (max_turn_s); prompt again to go on"


def test_a_question_ends_the_turn() -> None:
    """`ask_user` ends the turn with the question as its reply; the next prompt follows its result."""
    agent = asking().reply("", ("q", "ask_user", '{"question":"Which?"}'), ("a", "look", "{}")).done(1).stored()
    assert agent.took(ev.TurnEnded) == [ev.TurnEnded(1, r.Reason.question, "Which?")]
    assert r.Spoke("Which?") in agent.records()
    agent.give(ev.Prompt("that one"))
    assert problem(agent.state.history) == ""


def test_an_injected_answer_is_an_answer() -> None:
    """When words are injected while the model asks, it goes on with them."""
    agent = asking().give(ev.Inject("the blue one", 1)).reply("", ("q", "ask_user", '{"question":"Which?"}'))
    assert agent.state.phase is Phase.asking
    agent.reply("fine").stored()
    assert agent.took(ev.TurnEnded)[0].reason is r.Reason.answered


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("{}", "old"),
        ('{"text":"new"}', "the plan is written"),
        ('{"text":5}', "bad arguments: Expected `str | null`, got `int` - at `$.text`"),
        ('{"plan":"x"}', "bad arguments: Object contains unknown field `plan`"),
    ],
)
def test_the_plan_tool(arguments: str, text: str) -> None:
    """The model reads or replaces its plan, or is told what was wrong."""
    agent = Agent().give(ev.SetPlan("old"), ev.Prompt("x")).reply("", ("p", "plan", arguments))
    assert agent.results() == [text]
    assert [effect.text for effect in agent.took(ev.WritePlan)] == (["new"] if "new" in arguments else [])


def test_a_plan_that_is_too_long() -> None:
    """It is refused as a whole, counted in bytes, and the old one stays."""
    assert own.answer("plan", {"text": "é" * (own.PLAN_BYTES // 2)}, "old").plan
    answer = own.answer("plan", {"text": "é" * (own.PLAN_BYTES // 2) + "e"}, "old")
    assert (answer.text, answer.is_error, answer.plan) == ("plan is longer than 1048576 bytes", True, None)


def test_the_plan_is_shown_again() -> None:
    """Every tenth tool round the model sees its plan behind the results."""
    agent = Agent().give(ev.SetPlan("1. look\n"), ev.Prompt("x"))
    for run in range(1, 22):
        agent.reply("", ("c", "look", "{}")).done(run)
    shown = [at for at, record in enumerate(agent.records()) if isinstance(record, r.Reminded)]
    assert len(shown) == 2
    assert (
        sum(
            message == User(message.text) and "1. look" in message.text
            for message in agent.state.history
            if isinstance(message, User)
        )
        == 2
    )


def test_a_long_result_is_cut_for_the_model() -> None:
    """What a tool gives is cut to 32 KiB, an empty result says so."""
    agent = asking().reply("", ("a", "look", "{}"), ("b", "look", "{}")).done(1, "x" * 100_000).done(2, "")
    long, empty = agent.results()
    assert len(long) <= 32 * 1024
    assert "left out" in long
    assert empty == "(no output)"


def test_an_image_comes_to_the_model() -> None:
    """An image that a tool gives is in its result."""
    image = protocol.ToolResult((protocol.ImageContent(b"hi", "image/png"),))
    agent = calling().give(ev.ToolDone(1, image))
    assert agent.state.history[-1] == ToolResult("c1", "look", (ImageContent("aGk=", "image/png"),))


def test_activity_says_what_it_is_doing() -> None:
    """Activity follows the work, and a backend's own words are passed on."""
    agent = asking().say(Activity("queued, 2 ahead")).reply("", ("a", "look", "{}"), ("b", "look", "{}"))
    agent.done(1).done(2).reply("", ("c", "change", "{}")).stored().done(3).reply("ok")
    texts = [effect.text for effect in agent.took(ev.SetActivity)]
    assert texts == ["thinking", "queued, 2 ahead", "calling look", "thinking", "calling change", "thinking", ""]


def test_an_empty_reply_is_no_message() -> None:
    """A reply without words or calls is told to the user and leaves the history without an empty message."""
    agent = asking().reply(" \n")
    assert agent.state.history == (User("hello"),)
    assert r.Noted("the model gave an empty reply") in agent.records()


def test_clear_forgets_the_history() -> None:
    """After `clear` the next request knows nothing of before, the plan excepted."""
    agent = closing().stored().give(ev.SetPlan("p"), ev.Clear(), ev.Prompt("new"))
    assert agent.took(ev.ClearHistory) == [ev.ClearHistory()]
    assert agent.state.history == (User("new"),)
    assert agent.state.plan == "p"
