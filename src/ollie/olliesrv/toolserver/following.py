"""What happens in a tool server while we are connected to it: runs in the background, and what waits for approval.

Two of its files are followed. `events` says what runs and what is asked. `proc/done` gives each background run that has
ended until it is acknowledged, and it is acknowledged here when its message is the agent's for good. A message may come
twice, after the end of either server; who takes it knows it by its key.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from ninep.client import Client, File
from ninep.errors import ConnectionLostError, NinepError
from ollie.olliesrv.toolserver.news import Happening, News

_log = logging.getLogger(__name__)
_SHOWN_CHARACTERS = 500
_TAG = "system-proc-complete"


class Ended(msgspec.Struct, frozen=True):
    """A background run that has ended, as `proc/done` gives it.

    Args:
        boot: the life of the tool server in which it was started.
        pid: its number.
        agent: the id of the agent whose it was.
        cmd: what it ran.
        exit: its exit code.
        output: what it printed, cut for a model.
    """

    boot: str
    pid: int
    agent: str
    cmd: str
    exit: int
    output: str

    @property
    def key(self) -> str:
        """Names it for good."""
        return f"{self.boot}/{self.pid}"

    @property
    def message(self) -> str:
        """What the agent is told."""
        cmd = self.cmd if len(self.cmd) <= _SHOWN_CHARACTERS else self.cmd[:_SHOWN_CHARACTERS] + "…"
        # What a program prints must not look like the end of the message.
        output = self.output.replace(f"</{_TAG}", f"&lt;/{_TAG}")
        newline = "" if output.endswith("\n") or not output else "\n"
        return f'<{_TAG} id="{self.pid}" cmd="{_attribute(cmd)}" exit="{self.exit}">\n{output}{newline}</{_TAG}>'


class Follower:
    """Follows one tool server over one connection.

    Args:
        client: the connection; when it is lost, or closed, the following ends.
        take: given each run that has ended; when it returns, the agent has the message for good.
        changed: called whenever `busy` may have become false.
        news: given everything that happens.
    """

    def __init__(
        self,
        client: Client,
        take: Callable[[Ended], Awaitable[None]],
        changed: Callable[[], None],
        news: News,
    ) -> None:
        self._client = client
        self._take = take
        self._changed = changed
        self._news = news
        self._synced = asyncio.Event()
        self._running: set[int] = set()
        self._untold: set[int] = set()
        self._told: set[int] = set()
        self._asking: dict[str, str] = {}
        loop = asyncio.get_running_loop()
        self._tasks = {loop.create_task(self._follow_events()), loop.create_task(self._follow_ended())}
        for task in self._tasks:
            task.add_done_callback(self._over)

    @property
    def working(self) -> bool:
        """Whether background runs are known that have not ended, or of whose end an agent was not told."""
        return bool(self._running or self._untold)

    @property
    def busy(self) -> bool:
        """Whether the connection is needed: there is work, or that is not known yet."""
        return bool(self._tasks) and (self.working or not self._synced.is_set())

    def asks(self, agent: str) -> bool:
        """Whether something of an agent waits for approval."""
        return agent in self._asking.values()

    async def ready(self) -> None:
        """Return when it hears of everything from now on, or of nothing any more."""
        await self._synced.wait()

    async def close(self) -> None:
        """Stop; the connection stays."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NinepError):
            _log.error("a tool server is not followed any more", exc_info=error)
        for other in self._tasks:  # one without the other tells half
            other.cancel()
        self._synced.set()
        if not self._tasks:
            self._changed()

    async def _follow_events(self) -> None:
        async with await self._client.open("events") as file:
            self._news.connected()
            while line := await _line(file):
                self._note(msgspec.json.decode(line, type=Happening))

    def _note(self, event: Happening) -> None:
        self._news.take(event)
        match event.event, event.state:
            case "now", _:
                self._synced.set()
            case "done", "dropped":
                self._untold.discard(event.pid)
            case "done", _:
                self._untold |= {event.pid} - self._told
            case "proc", "exited":
                self._running.discard(event.pid)
                if event.told:
                    self._untold |= {event.pid} - self._told
            case "proc", _ if event.background:
                self._running.add(event.pid)
            case "bypass", "pending":
                self._asking[event.id] = event.agent
            case "bypass", _:
                self._asking.pop(event.id, None)
        self._changed()

    async def _follow_ended(self) -> None:
        async with await self._client.open("proc/done") as file:
            while line := await _line(file):
                ended = msgspec.json.decode(line, type=Ended)
                await self._take(ended)
                await self._acknowledge(ended.pid)
                self._told.add(ended.pid)
                self._untold.discard(ended.pid)
                self._changed()

    async def _acknowledge(self, pid: int) -> None:
        try:
            await self._client.write("proc/done", str(pid).encode())
        except ConnectionLostError:
            raise
        except NinepError as error:  # it was dropped meanwhile: its agent is gone
            _log.info("a message needs no acknowledgement: %s", error)


async def _line(file: File) -> bytes:
    """The next value of a watch file, which is one line; empty when there are no more."""
    data = await file.read(offset=0)
    while data and not data.endswith(b"\n"):
        data += await file.read(offset=len(data))
    return data


def _attribute(text: str) -> str:
    for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;"), ("\n", "&#10;")):
        text = text.replace(character, entity)
    return text
