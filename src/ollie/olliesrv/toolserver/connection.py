"""The connection to a session's tool server: made when it is needed, and closed when nobody uses it.

A tool server that has no connection ends by itself after a while, so one is held only while a turn of the session runs,
or something of it in the background, whose end the agent is to be told.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

from ninep.client import Client
from ninep.errors import NinepError
from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.toolserver.following import Ended, Follower
from ollie.olliesrv.toolserver.life import NO_TOOL_SERVER, Life
from ollie.olliesrv.toolserver.news import News
from ollie.protocol.words import reason

_log = logging.getLogger(__name__)
_FIRST_S = 0.1
_LONGEST_S = 30.0


class Connection:
    """The connection to one tool server.

    Args:
        life: its process.
        started: given the connection to one that has just started, before anything else uses it.
        found: the same for one that runs already, which an earlier server of ours may have started.
        ended: given each background run that has ended; when it returns, its agent has been told for good.
        news: given everything that happens there.
        cancel_s: how long the end of connections is waited for.
    """

    def __init__(
        self,
        life: Life,
        *,
        started: Callable[[Client], Awaitable[None]],
        found: Callable[[Client], Awaitable[None]],
        ended: Callable[[Ended], Awaitable[None]],
        news: News,
        cancel_s: float,
    ) -> None:
        self._life = life
        self._started = started
        self._found = found
        self._ended = ended
        self._news = news
        self._cancel_s = cancel_s
        self._client: Client | None = None
        self._follower: Follower | None = None
        self._opening: asyncio.Task[Client] | None = None
        self._users = 0
        self._losses = 0
        self._collecting: asyncio.Task[None] | None = None
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()

    def hold(self) -> None:
        """Keep it from now on, once it is made."""
        self._users += 1

    def release(self) -> None:
        """It is not needed any more; the last one who says so closes it."""
        self._users -= 1
        self._settle()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep it meanwhile."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    @contextlib.asynccontextmanager
    async def running(self, *, start: bool = False) -> AsyncIterator[Client]:
        """The connection, for one purpose, to a tool server that runs and is followed; none is started unless told.

        Raises:
            RefusedError: none runs.
        """
        with self.held():
            yield await self.followed(start=start)

    async def client(self, *, start: bool = True) -> Client:
        """The connection; made when there is none.

        Args:
            start: start a tool server when none runs.

        Raises:
            RefusedError: no tool server can be started, or none runs and none is to be.
        """
        if self._closed:
            raise RefusedError(NO_TOOL_SERVER)
        if self._client is not None and not self._client.calls.lost:
            return self._client
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(start=start))
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    async def followed(self, *, start: bool = True) -> Client:
        """As `client`, for something that happens there: that it does is heard."""
        client = await self.client(start=start)
        if self._follower is not None:
            await self._follower.ready()
        return client

    def asks(self, agent: str) -> bool:
        """Whether something of an agent waits for approval."""
        return self._follower is not None and self._follower.asks(agent)

    def follow(self) -> None:
        """Hear of what runs in the background and of what has ended, if it runs."""
        self._later(self._catch_up())

    async def _catch_up(self) -> None:
        try:
            async with self.running():
                pass
        except NinepError as error:
            _log.info("no tool server is followed: %s", error)

    def collect(self) -> asyncio.Task[None]:
        """Have every agent told for good of the background runs that the tool server has kept something of.

        For that one is started when none runs, as often as it takes; where nothing is kept none is.
        """
        self._losses += 1
        if self._collecting is None:
            self._collecting = asyncio.get_running_loop().create_task(self._collect())
            self._collecting.add_done_callback(self._collected)
        return self._collecting

    def lost(self) -> None:
        """The tool server has ended: see to it that agents are told of what ended with it."""
        if not self._closed and self._life.owes():
            self.collect()

    async def _collect(self) -> None:
        for attempt in itertools.count():
            losses = self._losses
            try:
                if not await asyncio.to_thread(self._life.owes):
                    return
                async with self.running(start=True):
                    pass
            except (NinepError, OSError) as error:
                _log.warning("agents are not told yet of what ended with a tool server: %s", error)
            else:
                if losses == self._losses:
                    return
            await asyncio.sleep(min(_FIRST_S * 2**attempt, _LONGEST_S))

    def _collected(self, task: asyncio.Task[None]) -> None:
        self._collecting = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("agents are not told of what ended with a tool server", exc_info=error)

    async def end(self) -> None:
        """End the tool server with everything it runs."""
        self._disconnect()
        await self._life.end()

    async def close(self) -> None:
        """As `end`; it is over for good."""
        self._closed = True
        work = {task for task in (self._opening, self._collecting) if task is not None}
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)
        await self.end()
        if self._closing:
            await asyncio.wait(self._closing, timeout=self._cancel_s)

    async def _open(self, *, start: bool) -> Client:
        found = self._life.look()
        if found is not None:
            try:
                client = await self._life.connect()
            except (NinepError, OSError) as error:
                _log.warning("ending the tool server %d: it does not take us: %s", found.pid, error)
            else:
                await self._found(client)
                return client
            await self.end()
        if not start:
            raise RefusedError(NO_TOOL_SERVER)
        await self._life.start()
        try:
            client = await self._life.connect()
        except OSError as error:
            raise RefusedError(f"the tool server cannot be reached: {reason(error)}") from None
        await self._started(client)
        return client

    def _opened(self, task: asyncio.Task[Client]) -> None:
        self._opening = None
        if task.cancelled() or task.exception() is not None:
            return
        self._disconnect()  # from the one that was lost
        self._client = task.result()
        self._follower = Follower(self._client, self._ended, self._settle, self._news)
        self._settle()

    def _settle(self) -> None:
        """Close the connection when nobody uses it; look after what it was followed for when it was lost."""
        lost = self._client is not None and self._client.calls.lost
        if lost and self._follower is not None and self._follower.working and self._life.process is not None:
            self._disconnect()
            self.follow()
        elif self._users == 0 and not (self._follower is not None and self._follower.busy):
            self._disconnect()

    def _disconnect(self) -> None:
        client, follower = self._client, self._follower
        self._client = self._follower = None
        if client is not None:
            self._later(_hang_up(client, follower))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _hang_up(client: Client, follower: Follower | None) -> None:
    if follower is not None:
        await follower.close()
    await client.close()
