"""What happens in a tool server, for whoever follows it: runs that start and end, requests that are asked and settled.

A reader is first given what is so now, then every change. One that does not keep up loses the oldest changes and is
told how many: memory stays bounded whoever reads.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from ninep.bell import Bell
from ninep.files import Watcher
from ninep.tree import Peer
from ollie.toolsrv.approval import Request
from ollie.toolsrv.approval import State as RequestState
from ollie.toolsrv.json_line import json_line
from ollie.toolsrv.runs import Run, State
from ollie.toolsrv.sight import sees

RING = 4096

Event = Mapping[str, object]


class Events:
    """The readers of one server's events."""

    def __init__(self) -> None:
        self._watchers: set[EventWatcher] = set()

    def emit(self, agent: str, event: Event) -> None:
        """Tell those who see that agent's events."""
        for watcher in self._watchers:
            if sees(watcher.peer, agent):
                watcher.add(event)

    def watch(self, now: Iterable[Event], peer: Peer) -> "EventWatcher":
        """A new reader: what is so now, then what happens."""
        watcher = EventWatcher(now, peer, self._watchers)
        self._watchers.add(watcher)
        return watcher


class EventWatcher(Watcher):
    """One fid's view.

    Args:
        now: what it is given first.
        peer: who reads.
        watchers: where it is entered, and leaves.
    """

    def __init__(self, now: Iterable[Event], peer: Peer, watchers: "set[EventWatcher]") -> None:
        self.peer = peer
        self._events = deque(now)
        self._lost = 0
        self._bell = Bell()
        self._watchers = watchers

    def add(self, event: Event) -> None:
        """One more."""
        if len(self._events) >= RING:
            self._events.popleft()
            self._lost += 1
        self._events.append(event)
        self._bell.ring()

    async def next(self) -> bytes:
        """The next event, a JSON object and a newline; `{"event":"lost","count":N}` where some are missing."""
        while not self._events:
            await self._bell.wait()
        if self._lost:
            event: Event = {"event": "lost", "count": self._lost}
            self._lost = 0
        else:
            event = self._events.popleft()
        return json_line(event)

    def close(self) -> None:
        """The reader is gone."""
        self._watchers.discard(self)


def of_run(run: Run) -> Event:
    """A run that has started, or ended."""
    ended = {"exit": run.exit_code, "told": run.exit is not None and run.task.told} if run.state is State.EXITED else {}
    return {
        "event": "proc",
        "state": run.state,
        "pid": run.number,
        "agent": run.task.agent,
        "tool": run.task.tool,
        "background": run.task.background,
        **ended,
    }


def of_request(request: Request, state: RequestState) -> Event:
    """A request that was asked, or settled."""
    return {"event": "bypass", "state": state, "id": request.id, "agent": request.agent, "command": request.command}
