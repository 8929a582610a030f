"""Who is next: a line of those who wait for the one engine, first come first served.

An agent has one request at a time, so with several agents it goes round.
"""

import asyncio


class Line:
    """Places in the line; who has the first one may use the engine."""

    def __init__(self) -> None:
        self._places: list[Place] = []

    def __len__(self) -> int:
        return len(self._places)

    def join(self) -> "Place":
        """A place at the end."""
        place = Place(self)
        self._places.append(place)
        return place

    def ahead_of(self, place: "Place") -> int:
        """How many are before it."""
        return self._places.index(place)

    def remove(self, place: "Place") -> None:
        """Take it out, if it is still there, and let the ones behind it move up."""
        if place in self._places:
            behind = self._places.index(place)
            del self._places[behind]
            for other in self._places[behind:]:
                other.moved_up()


class Place:
    """A place in a line."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._moved = asyncio.Event()

    @property
    def ahead(self) -> int:
        """How many are before it."""
        return self._line.ahead_of(self)

    def moved_up(self) -> None:
        """One that was before it has left."""
        self._moved.set()

    async def move(self) -> None:
        """Wait until it has moved up since the last call."""
        await self._moved.wait()
        self._moved.clear()

    def leave(self) -> None:
        """Give it up; a second time does nothing."""
        self._line.remove(self)
