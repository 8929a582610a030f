"""Any order of events: the driver is hypothesis, and what must hold is checked after each step."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ollie.engine import events as ev
from ollie.engine.history import problem
from ollie.engine.limits import Limits
from ollie.engine.messages import (
    Activity,
    Assistant,
    CallDelta,
    End,
    ErrorKind,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolResult,
    ToolSpec,
    Usage,
    UsageReport,
    User,
)
from ollie.engine.own import SPECS
from ollie.engine.records import message_of
from ollie.engine.state import Phase, State
from ollie.engine.turn import step
from ollie.protocol import result as protocol

TOOLS = (
    ToolSpec("look", "", {"type": "object"}, effect="read"),
    ToolSpec("change", "", {"type": "object"}, effect="write"),
    *SPECS.values(),
)
NAMES = st.sampled_from(["look", "change", "plan", "ask_user", "nope", "", "bad name"])
ARGUMENTS = st.sampled_from(["{}", "", '{"text":"p"}', '{"question":"?"}', '{"a":', "[]", "{} {}"])
DELTAS: st.SearchStrategy[StreamEvent] = st.one_of(
    st.builds(TextDelta, st.sampled_from(["", " ", "word "])),
    st.builds(ReasoningDelta, st.sampled_from(["", "hm"])),
    st.builds(CallDelta, st.integers(0, 4), st.sampled_from(["", "a", "b", "c"]), NAMES, ARGUMENTS),
    st.builds(Activity, st.just("queued")),
    st.builds(UsageReport, st.builds(Usage, st.integers(0, 9)), st.none() | st.floats(0, 0.3)),
)


class TurnMachine(RuleBasedStateMachine):
    """An agent whose model, tools, store and clocks do what they like, as late as they like."""

    def __init__(self) -> None:
        super().__init__()
        limits = Limits(max_steps=4, max_cost_usd=2.0, max_turn_s=9, max_retries=2, max_parallel=2, plan_rounds=2)
        self.state = State(ev.Setup("m", tools=TOOLS, limits=limits))
        self.running: dict[int, str] = {}  # runs that are alive, with the effect of their tool
        self.cancelled: set[int] = set()
        self.request = 0  # the request that streams
        self.timers: dict[ev.Timer, int] = {}
        self.barriers: list[int] = []  # not answered yet
        self.appended_behind: dict[int, bool] = {}  # by barrier: something was appended behind it
        self.durable = True  # everything appended is known to be stored
        self.history: list[object] = []  # as a store would have it
        self.injected: dict[int, str] = {}  # the words that the store still has beside it, by entry
        self.entries = 0
        self.idle = True

    def give(self, event: ev.Event) -> None:
        """Step through an event and do as told."""
        self.state, effects = step(self.state, event)
        for effect in effects:
            self.apply(effect)

    def apply(self, effect: ev.Effect) -> None:  # noqa: C901, PLR0912  # a dispatch over the effects
        """Do as told, and check that it may be told now."""
        if self.idle:
            assert isinstance(effect, ev.SetState | ev.Append | ev.ClearHistory), f"idle, and then {effect}"
        match effect:
            case ev.SetState(state):
                assert self.idle == (state == "running")
                assert not (state == "idle" and (self.request or self.running or not self.durable))
                self.idle = state == "idle"
            case ev.Append(records):
                assert records
                self.history += [message for record in records if (message := message_of(record))]
                self.appended_behind = dict.fromkeys(self.appended_behind, True)
                self.durable = False
            case ev.Given(entries):
                words = [self.injected.pop(entry) for entry in entries]
                assert self.history[-1] == User("\n\n".join(words)) or self.history[-len(words) :] == [
                    *map(User, words)
                ]
            case ev.Barrier(number):
                self.barriers.append(number)
                self.appended_behind[number] = False
            case ev.Ask(request, content):
                assert not self.running
                assert not self.request
                assert problem(content.messages) == ""
                self.request = request
            case ev.CancelModel(request):
                assert request == self.request
                self.request = 0
            case ev.RunTool(run, call):
                effect_of = {tool.name: tool.effect for tool in TOOLS}[call.name]
                assert effect_of == "read" or (self.durable and not self.running), "a write passed its barrier"
                assert "write" not in self.running.values(), "something runs beside a write"
                self.running[run] = effect_of
                assert len(self.running) <= self.state.setup.limits.max_parallel
            case ev.CancelTool(run):
                assert run in self.running
                self.cancelled.add(run)
            case ev.SetTimer(timer, number):
                self.timers[timer] = number
            case ev.TurnEnded():
                self.timers.clear()
            case ev.ClearHistory():
                self.history.clear()
            case _:
                pass

    @precondition(lambda self: self.idle)
    @rule(text=st.sampled_from(["do it", ""]))
    def prompt(self, text: str) -> None:
        """Somebody prompts the idle agent."""
        self.give(ev.Prompt(text))

    @precondition(lambda self: self.idle)
    @rule()
    def clear(self) -> None:
        """The history is forgotten."""
        self.give(ev.Clear())

    @rule(event=st.sampled_from([ev.Stop(), ev.SetPlan("a plan"), ev.SetPlan(""), ev.Spent(0.5)]))
    def meddle(self, event: ev.Event) -> None:
        """Somebody stops it, writes its plan; a sub-agent costs something."""
        self.give(event)

    @rule()
    def inject(self) -> None:
        """Somebody injects words, which the store has first."""
        self.entries += 1
        self.injected[self.entries] = f"also {self.entries}"
        self.give(ev.Inject(f"also {self.entries}", self.entries))

    @rule(limits=st.builds(Limits, max_steps=st.integers(0, 3), max_cost_usd=st.sampled_from([0.0, 0.1, 9.0])))
    def configure(self, limits: Limits) -> None:
        """Its settings change."""
        self.give(ev.Configure(ev.Setup("other", tools=TOOLS, limits=limits)))

    @precondition(lambda self: self.request)
    @rule(deltas=st.lists(DELTAS, max_size=6), stop=st.sampled_from(["stop", "tool_calls", "length"]))
    def model_replies(self, deltas: list[StreamEvent], stop: str) -> None:
        """The model gives a whole reply."""
        request = self.request
        for delta in deltas:
            self.give(ev.Streamed(request, delta))
        self.request = 0
        self.give(ev.Streamed(request, End(stop)))  # type: ignore[arg-type]  # drawn from the three it may be

    @precondition(lambda self: self.request)
    @rule(names=st.lists(st.sampled_from(["look", "change"]), min_size=1, max_size=4))
    def model_calls(self, names: list[str]) -> None:
        """The model calls tools as it should."""
        self.model_replies([CallDelta(at, f"c{at}", name, "{}") for at, name in enumerate(names)], "tool_calls")

    @precondition(lambda self: self.request)
    @rule(delta=DELTAS)
    def model_speaks(self, delta: StreamEvent) -> None:
        """The model gives a piece of a reply."""
        self.give(ev.Streamed(self.request, delta))

    @precondition(lambda self: self.request)
    @rule(kind=st.sampled_from(ErrorKind), after=st.none() | st.sampled_from([1.0, 1e6]), jitter=st.floats(0, 1))
    def model_fails(self, kind: ErrorKind, after: float | None, jitter: float) -> None:
        """The request fails."""
        request, self.request = self.request, 0
        self.give(ev.ModelFailed(request, kind, "it failed", after, jitter))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), text=st.sampled_from(["", "out"]), is_error=st.booleans())
    def tool_ends(self, data: st.DataObject, text: str, is_error: bool) -> None:
        """Any of the tools ends."""
        run = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[run]
        self.give(ev.ToolDone(run, protocol.text(text, is_error=is_error)))

    @precondition(lambda self: self.barriers)
    @rule()
    def store_catches_up(self) -> None:
        """The oldest barrier is passed."""
        barrier = self.barriers.pop(0)
        self.durable = not self.appended_behind.pop(barrier)
        self.give(ev.Stored(barrier))

    @precondition(lambda self: self.timers)
    @rule(data=st.data())
    def timer_fires(self, data: st.DataObject) -> None:
        """Any of the clocks runs down."""
        timer = data.draw(st.sampled_from(sorted(self.timers)))
        number = self.timers.pop(timer)
        if timer is ev.Timer.stop:
            self.running.clear()  # the turn gives them up; what they still say is late
        self.give(ev.TimerFired(timer, number))

    @rule(number=st.integers(-3, -1))
    def something_late_comes(self, number: int) -> None:
        """Work that nobody awaits says something."""
        before = self.state
        for event in (
            ev.Streamed(number, TextDelta("late")),
            ev.ModelFailed(number, ErrorKind.auth, "late"),
            ev.ToolDone(number, protocol.text("late")),
            ev.Stored(number),
            ev.TimerFired(ev.Timer.turn, number),
        ):
            assert step(self.state, event) == (before, ())

    @invariant()
    def the_store_has_the_history(self) -> None:
        """What was appended is the history, in order."""
        assert tuple(self.history) == self.state.history

    @invariant()
    def injected_words_are_in_one_place(self) -> None:
        """With the store, until they are in the history; at rest they are there."""
        assert tuple(self.injected) == tuple(one.entry for one in self.state.injected)
        assert not (self.idle and self.injected)

    @invariant()
    def the_history_is_valid_at_rest(self) -> None:
        """When no tool calls are open, every call has exactly one result."""
        if self.state.phase not in (Phase.calling, Phase.stopping):
            assert problem(self.state.history) == ""

    @invariant()
    def results_come_in_order(self) -> None:
        """While tool calls are open, the results so far are those of the first calls."""
        history = self.state.history
        last = max((at for at, message in enumerate(history) if isinstance(message, Assistant)), default=None)
        if last is not None and isinstance(message := history[last], Assistant):
            results = [one.call_id for one in history[last + 1 :] if isinstance(one, ToolResult)]
            assert results == [call.id for call in message.calls[: len(results)]]

    def teardown(self) -> None:
        """From any state a stop, with everything that runs coming to its end, leads to idle."""
        self.give(ev.Stop())
        for run in sorted(self.running):
            assert run in self.cancelled
            del self.running[run]
            self.give(ev.ToolDone(run, protocol.text("")))
        while self.barriers:
            self.store_catches_up()
        assert self.idle
        assert self.state.phase is Phase.idle
        assert problem(self.state.history) == ""


TurnMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTurnMachine = TurnMachine.TestCase
