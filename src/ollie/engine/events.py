"""What goes into the turn (events) and what comes out (effects).

The driver turns effects into work and the outcome of work into events. Numbers tell work apart: what comes for a
request, run, timer or barrier that is no longer awaited is ignored, so the driver may be late.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct, field

from ollie.engine.limits import Limits
from ollie.engine.messages import ErrorKind, Request, StreamEvent, ToolCall, ToolSpec
from ollie.engine.records import Reason, Record
from ollie.protocol.result import ToolResult as Outcome


class Setup(Struct, frozen=True):
    """What an agent asks its model with; `system` is the whole system prompt (see `system.py`)."""

    model: str
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = Limits()


class Timer(StrEnum):
    """The three clocks of a turn; setting one replaces it, and the end of the turn cancels all."""

    turn = "turn"
    retry = "retry"
    stop = "stop"


# Events.


class Configure(Struct, frozen=True):
    """Other settings, used from the next request on. At any time."""

    setup: Setup


class SetPlan(Struct, frozen=True):
    """The plan was written by somebody else than the model. At any time."""

    text: str


class Prompt(Struct, frozen=True):
    """Begin a turn. Only when idle."""

    text: str


class Inject(Struct, frozen=True):
    """Give these words to the model with the next tool result; when idle it is a prompt.

    `entry` is what they are stored under until then, so that a crash makes a prompt of them; `Given` tells of it.
    """

    text: str
    entry: int


class Spent(Struct, frozen=True):
    """A sub-agent has cost so much, which counts as its maker's own. At any time."""

    cost_usd: float


class Stop(Struct, frozen=True):
    """End the turn as soon as everything it runs is gone. When idle it does nothing."""

    note: str = "stopped"


class Clear(Struct, frozen=True):
    """Forget the history; the plan stays. Only when idle."""


class Streamed(Struct, frozen=True):
    """The model said something."""

    request: int
    event: StreamEvent


class ModelFailed(Struct, frozen=True):
    """A request failed, see `BackendError`; `jitter` is a fresh random number from 0 to 1."""

    request: int
    kind: ErrorKind
    message: str
    retry_after_s: float | None = None
    jitter: float = 0.5


class ToolDone(Struct, frozen=True):
    """A run is over and nothing of it is alive: what it gave, also when it was cancelled."""

    run: int
    outcome: Outcome


class Stored(Struct, frozen=True):
    """Everything that was appended before this barrier is durable."""

    barrier: int


class TimerFired(Struct, frozen=True):
    """A clock that was set has run down."""

    timer: Timer
    number: int


Event = (
    Configure
    | SetPlan
    | Prompt
    | Inject
    | Spent
    | Stop
    | Clear
    | Streamed
    | ModelFailed
    | ToolDone
    | Stored
    | TimerFired
)


# Effects.


class Append(Struct, frozen=True):
    """Write these to the chat, and what `message_of` gives of each to the history, in this order."""

    records: tuple[Record, ...]


class Given(Struct, frozen=True):
    """The injected words of these entries were appended just now: forget the entries in the same step."""

    entries: tuple[int, ...]


class Barrier(Struct, frozen=True):
    """Answer with `Stored` when everything appended so far is durable."""

    number: int


class Ask(Struct, frozen=True):
    """Send this request and give back what it streams."""

    request: int
    content: Request


class CancelModel(Struct, frozen=True):
    """Abandon a request; nothing needs to be answered."""

    request: int


class RunTool(Struct, frozen=True):
    """Run a call and answer with `ToolDone`, whatever happens. `arguments` is its JSON, decoded."""

    run: int
    call: ToolCall
    arguments: Mapping[str, Any]


class CancelTool(Struct, frozen=True):
    """End a run now; `ToolDone` comes when it is gone."""

    run: int


class SetTimer(Struct, frozen=True):
    """Answer with `TimerFired` after so many seconds."""

    timer: Timer
    number: int
    seconds: float


class SetState(Struct, frozen=True):
    """The agent runs, or is idle."""

    state: Literal["running", "idle"]


class SetActivity(Struct, frozen=True):
    """What it is doing, for people; empty for nothing."""

    text: str


class WritePlan(Struct, frozen=True):
    """The model wrote its plan."""

    text: str


class ClearHistory(Struct, frozen=True):
    """Forget the stored history; the chat stays."""


class TurnEnded(Struct, frozen=True):
    """The turn is over and stored. `reply` is the model's last text or question, `note` says why it ended otherwise."""

    turn: int
    reason: Reason
    reply: str
    note: str = ""


Effect = (
    Append
    | Given
    | Barrier
    | Ask
    | CancelModel
    | RunTool
    | CancelTool
    | SetTimer
    | SetState
    | SetActivity
    | WritePlan
    | ClearHistory
    | TurnEnded
)
