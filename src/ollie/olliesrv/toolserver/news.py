"""What is told of a tool server's runs and requests: that each begins and ends, once, whatever becomes of connections.

A connection first says what is so at that moment. Of that nothing is told but what has ended since the last one; what
is not known yet was begun in the time of an earlier server of ours. What a tool server that has ended leaves open has
ended with it.
"""

from collections.abc import Callable, Mapping

import msgspec


class Happening(msgspec.Struct, frozen=True):
    """One line of a tool server's `events`."""

    event: str
    state: str = ""
    pid: int = 0
    agent: str = ""
    background: bool = False
    told: bool = False
    id: str = ""
    tool: str = ""
    command: str = ""
    exit: int | None = None

    @property
    def begins(self) -> bool:
        """Whether it is about something that is open from now on, or still."""
        return self.state not in _ENDS.get(self.event, frozenset({self.state}))

    @property
    def key(self) -> tuple[str, int | str]:
        """What it is about."""
        return self.event, self.pid if self.event == "proc" else self.id


_ENDS: Mapping[str, frozenset[str]] = {
    "proc": frozenset({"exited"}),
    "bypass": frozenset({"approved", "rejected", "timed out", "withdrawn"}),
}


class News:
    """What was told of one tool server.

    Args:
        tell: `(event, agent, fields)`: tells it to whoever watches.
        asked: called whenever something waits for approval, also when a new connection says so.
    """

    def __init__(self, tell: Callable[[str, str, Mapping[str, object]], None], asked: Callable[[], None]) -> None:
        self._tell = tell
        self._asked = asked
        self._open: dict[tuple[str, int | str], Happening] = {}
        self._still: set[tuple[str, int | str]] | None = None  # open, as a connection says that is new

    def connected(self) -> None:
        """A new connection is about to say what is so now."""
        self._still = set()

    def take(self, happening: Happening) -> None:
        """One line of it."""
        if happening.event == "bypass" and happening.begins:
            self._asked()
        if happening.event == "now":
            still, self._still = self._still or set(), None
            for key in self._open.keys() - still:
                self._ended(self._open[key])
        elif self._still is not None:
            self._still.add(happening.key)
            if happening.begins:
                self._open.setdefault(happening.key, happening)
        elif not happening.begins:
            self._ended(happening)
        elif happening.key not in self._open:
            self._open[happening.key] = happening
            self._say(happening, "started" if happening.event == "proc" else "pending")

    def over(self) -> None:
        """The tool server has ended."""
        for happening in list(self._open.values()):
            self._ended(happening)

    def _ended(self, happening: Happening) -> None:
        if self._open.pop(happening.key, None) is not None:
            self._say(happening, "exited" if happening.event == "proc" else "resolved")

    def _say(self, happening: Happening, state: str) -> None:
        fields: dict[str, object] = {"state": state}
        if happening.event == "proc":
            fields |= {"pid": happening.pid, "tool": happening.tool, "background": happening.background}
            fields |= {} if happening.exit is None else {"exit": happening.exit}
        else:
            answer = {} if happening.begins else {"answer": happening.state}
            fields |= {"id": happening.id, "command": happening.command, **answer}
        self._tell(happening.event, happening.agent, fields)
