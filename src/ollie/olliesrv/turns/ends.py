"""Who waits for the end of a turn."""

import asyncio

from ollie.engine.events import TurnEnded
from ollie.olliesrv.errors import RefusedError


class Ends:
    """Those who wait for the end of the turn of one agent that runs, or else of the next one."""

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[TurnEnded]] = []

    def next(self) -> "asyncio.Future[TurnEnded]":
        """How that turn ends."""
        future = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        return future

    def tell(self, ended: TurnEnded) -> None:
        """A turn has ended."""
        for future in self._taken():
            if not future.done():
                future.set_result(ended)

    def fail(self, error: RefusedError) -> None:
        """What they wait for does not come: they are told why."""
        for future in self._taken():
            if not future.done():
                future.set_exception(error)

    def _taken(self) -> "list[asyncio.Future[TurnEnded]]":
        futures, self._futures = self._futures, []
        return futures
