"""What happens in the server, for whoever watches: the file `eventwait`.

Every event has a number, and the last 4096 of them are kept. A reader has a position in that sequence, the number of
what it was given last; one that does not keep up is told how many it has missed, and goes on with the oldest kept.

* A fid that is held goes on after what it was given.
* A fresh one goes on after what its uname was given last; with a uname that has not read before it begins now.

What was given to a uname is noted when the reply was sent, so that nothing is lost with a reader that went away.
Nothing of this is stored: numbers begin with the server.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from ninep.bell import Bell
from ninep.files import Watcher
from ollie.protocol.words import moment

RING = 4096
_UNAMES = 1024
_CHARACTERS = 500  # of a value; what is longer is a command or an error


class Event(NamedTuple):
    """What happened: its number, from 1; when, in seconds since the epoch; in which session; what is told of it."""

    seq: int
    at_s: float
    session: str
    fields: Mapping[str, object]

    def line(self) -> bytes:
        """As it is read: a JSON object and a newline."""
        return _line({"seq": self.seq, "time": moment(self.at_s), **self.fields})


class Events:
    """The events of a server."""

    def __init__(self) -> None:
        self.bell = Bell()
        self._ring: list[Event] = []
        self._last = 0
        self._given: OrderedDict[str, int] = OrderedDict()

    def tell(self, event: str, *, session: str = "", **fields: object) -> None:
        """Something has happened.

        Args:
            event: what, a word.
            session: the id of the session in which, empty for none: then only the owner is told.
            fields: what else is told. Of a text the first 500 characters are.
        """
        told = {key: value[:_CHARACTERS] if isinstance(value, str) else value for key, value in fields.items()}
        where = {"session": session} if session else {}
        self._last += 1
        happened = Event(self._last, time.time(), session, {"event": event, **where, **told})
        if len(self._ring) < RING:
            self._ring.append(happened)
        else:
            self._ring[(self._last - 1) % RING] = happened
        self.bell.ring()

    def watch(self, reader: str, session: str = "") -> "EventWatch":
        """A reading by one fid.

        Args:
            reader: under which name it is noted what was delivered.
            session: the id of the one session whose events it sees; empty for all there are.
        """
        position = self._given.get(reader, self._last)
        self.deliver(reader, position)
        return EventWatch(self, reader, session, position)

    def deliver(self, reader: str, position: int) -> None:
        """Note that a reader was given everything up to a position."""
        self._given[reader] = position
        self._given.move_to_end(reader)
        if len(self._given) > _UNAMES:
            self._given.popitem(last=False)

    def lost(self, position: int) -> int:
        """How many events behind a position are not kept any more."""
        return max(self._last - len(self._ring) - position, 0)

    def after(self, position: int, session: str) -> Event | None:
        """The first event behind a position that a reader of that session sees."""
        for seq in range(position + 1, self._last + 1):
            found = self._ring[(seq - 1) % RING]
            if session in {"", found.session}:
                return found
        return None

    @property
    def last(self) -> int:
        """The position of the last event."""
        return self._last


class EventWatch(Watcher):
    """One fid's reading of `eventwait`; made by `Events.watch`."""

    def __init__(self, events: Events, reader: str, session: str, position: int) -> None:
        self._events = events
        self._reader = reader
        self._session = session
        self._position = position
        self._offered = position

    async def next(self) -> bytes:
        """The next event, a JSON object and a newline; `{"event":"lost","count":N}` where some are not kept."""
        while True:
            lost = self._events.lost(self._position)
            if lost:
                self._offered = self._position + lost
                return _line({"event": "lost", "count": lost})
            found = self._events.after(self._position, self._session)
            if found is not None:
                self._offered = found.seq
                return found.line()
            self._position = self._events.last
            await self._events.bell.wait()

    def delivered(self) -> None:
        """The reply with the last event was sent."""
        self._position = self._offered
        self._events.deliver(self._reader, self._offered)


def _line(fields: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(fields) + b"\n"
