"""What an agent's state is, and who is told when it changes: the one definition of `idle`, `running` and `paused`.

An agent is `running` while a turn runs, and while it has a prompt that it may run. When it has nothing that it may run
it is `paused` if its session is, else `idle`. Changes are counted; the number of a change is its position.

`Changes` is the pure record of them. It decides where each reader of `statewait` starts:

* A reader that was given something before on the same fid gets the change after that one.
* A fresh one, while the state is `running`, gets the next change to a state that is not.
* A fresh one else gets the present state at once, if that would be news to its uname: a turn has ended since the last
  delivery to it, or the state is another than the one delivered.
* And else it gets the next change.

Deliveries are not stored. An agent that is new in memory, after a restart or because nobody had used it for long,
counts as one whose last turn has ended just now, if it ever had one: a script that waits for that end goes on.

What was delivered to a uname is noted when the reply was sent, not when it was made: a reader that went away
in between has not seen it. `States` adds the waiting. Nothing here polls, and a reader costs nothing while it waits.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import StrEnum

from ninep.bell import Bell
from ninep.files import Watcher
from ollie.olliesrv.errors import gone

_RING = 256
_UNAMES = 1024


class State(StrEnum):
    """The states of an agent, as they are served."""

    IDLE = "idle"
    RUNNING = "running"
    PAUSED = "paused"


def state_of(*, turn: bool, queued: bool, paused: bool) -> State:
    """The state of an agent.

    Args:
        turn: whether a turn runs.
        queued: whether prompts wait.
        paused: whether its session is paused.
    """
    if turn or (queued and not paused):
        return State.RUNNING
    return State.PAUSED if paused else State.IDLE


@dataclass(frozen=True)
class Change:
    """One change: its position, from 1, and the state that began with it."""

    position: int
    state: State


class Changes:
    """The changes of one agent's state, the last 256 of them, and what each uname was given last.

    Args:
        state: the present one.
        ended: whether it has had a turn.
    """

    def __init__(self, state: State = State.IDLE, *, ended: bool = False) -> None:
        self._ring: deque[Change] = deque([Change(int(ended), state)], _RING)
        self._turn_end = int(ended)
        self._delivered: OrderedDict[str, Change] = OrderedDict()

    @property
    def last(self) -> Change:
        """The change that began the present state."""
        return self._ring[-1]

    def become(self, state: State) -> bool:
        """Note a state; whether it is a change. One from `running` to another is the end of a turn."""
        before = self.last
        if state is before.state:
            return False
        self._ring.append(Change(before.position + 1, state))
        if before.state is State.RUNNING:
            self._turn_end = self.last.position
        return True

    def first(self, uname: str, opened: int) -> Change | None:
        """What a fresh reader of this uname is given now, or None while it waits.

        Args:
            uname: who reads.
            opened: the position of the last change when it began to wait.
        """
        began = self._at(opened)
        if began.state is State.RUNNING:
            return next((change for change in self._after(opened) if change.state is not State.RUNNING), None)
        if self._is_news(uname, began):
            return began
        return self.after(opened)

    def after(self, position: int) -> Change | None:
        """The change that follows a position, or the oldest still known, or None while there is none."""
        return next(iter(self._after(position)), None)

    def deliver(self, uname: str, change: Change) -> None:
        """Note that a reply with this change was sent to a uname."""
        self._delivered[uname] = change
        self._delivered.move_to_end(uname)
        if len(self._delivered) > _UNAMES:
            self._delivered.popitem(last=False)

    def _is_news(self, uname: str, change: Change) -> bool:
        given = self._delivered.get(uname)
        if given is None:
            return 0 < self._turn_end <= change.position
        return given.position < self._turn_end <= change.position or given.state is not change.state

    def _at(self, position: int) -> Change:
        return next((change for change in self._ring if change.position >= position), self.last)

    def _after(self, position: int) -> list[Change]:
        if position >= self.last.position:
            return []
        return [change for change in self._ring if change.position > position]


class States:
    """The state of an agent, and waiting for it."""

    def __init__(self, state: State = State.IDLE, *, ended: bool = False) -> None:
        self.changes = Changes(state, ended=ended)
        self.bell = Bell()
        self.over = False

    @property
    def state(self) -> State:
        """The present state."""
        return self.changes.last.state

    def become(self, state: State) -> bool:
        """Announce a state; whether it is a change."""
        changed = self.changes.become(state)
        if changed:
            self.bell.ring()
        return changed

    def end(self) -> None:
        """The agent is gone: everybody who waits gets `file does not exist`."""
        self.over = True
        self.bell.ring()

    async def resting(self) -> State:
        """The state, as soon as it is not `running`."""
        while self.state is State.RUNNING and not self.over:
            await self.bell.wait()
        if self.over:
            raise gone()
        return self.state


class StateWatch(Watcher):
    """One fid's reading of `statewait`."""

    def __init__(self, states: States, uname: str) -> None:
        self._states = states
        self._uname = uname
        self._given: Change | None = None
        self._offered: Change | None = None

    async def next(self) -> bytes:
        """The next state, with a newline; `file does not exist` when the agent is killed meanwhile."""
        opened = self._states.changes.last.position
        while not self._states.over:
            self._offered = self._look(opened)
            if self._offered is not None:
                return f"{self._offered.state}\n".encode()
            await self._states.bell.wait()
        raise gone()

    def delivered(self) -> None:
        """The reply with the last state was sent."""
        if self._offered is not None:
            self._given = self._offered
            self._states.changes.deliver(self._uname, self._offered)

    def _look(self, opened: int) -> Change | None:
        if self._given is not None:
            return self._states.changes.after(self._given.position)
        return self._states.changes.first(self._uname, opened)
