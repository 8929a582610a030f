"""Files of a tool server, served as our own: what waits, and what streams, is read from it by a connection of its own.

A relayed file opens its counterpart at the first read and keeps it until it is closed, so that what the counterpart
remembers of its reader, such as what it was given last, is that of the one reader of ours.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ninep.errors import NinepError
from ninep.tree import Entry, OpenFile, Place
from ollie.olliesrv.toolserver.toolserver import ToolServer

if TYPE_CHECKING:
    from ninep.client import File

T = TypeVar("T")
_CLOSING: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True, eq=False)
class Counterpart:
    """A file of a tool server.

    Args:
        toolsrv: whose it is.
        agent: the id of the agent for which it is read; empty for none.
        path: where it is.
    """

    toolsrv: ToolServer
    agent: str
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class Relay(Entry[T]):
    """A file that is read from a tool server as it comes.

    Args:
        name: as served.
        mode: permission bits.
        about: one sentence.
        of: `(obj, peer)`: its counterpart.
        size: its length for stat.
    """

    kind: ClassVar[str] = "watch"
    name: str
    mode: int
    about: str
    of: Callable[[T, Any], Counterpart]
    size: Callable[[T], int] = lambda _obj: 0

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile:  # noqa: ARG002  as every entry is opened
        """Nothing is asked of the tool server yet."""
        return RelayFile(self.of(place.obj, place.peer))

    def length(self, obj: T) -> int:
        """As `size` says."""
        return self.size(obj)


class RelayLog(Relay[T]):
    """A log."""

    __slots__ = ()
    kind = "log"


class RelayLevel(Relay[T]):
    """A level."""

    __slots__ = ()
    kind = "level"


class RelayFile(OpenFile):
    """One fid's reads.

    A read that is flushed goes on, and the next one at that place has what it gives: nothing that the tool server has
    handed out is lost.
    """

    __slots__ = ("_counterpart", "_file", "_lock", "_reading", "_stack")

    def __init__(self, counterpart: Counterpart) -> None:
        super().__init__()
        self._counterpart = counterpart
        self._stack = AsyncExitStack()
        self._file: File | None = None
        self._lock = asyncio.Lock()
        self._reading: tuple[tuple[int, int], asyncio.Task[bytes]] | None = None

    async def read(self, offset: int, count: int) -> bytes:
        """What the counterpart gives."""
        async with self._lock:
            if self._file is None:
                await self._open(self._counterpart.toolsrv, self._counterpart.agent)
                assert self._file is not None
            if self._reading is None or self._reading[0] != (offset, count):
                await self._stop()
                self._reading = (offset, count), asyncio.ensure_future(self._file.read(count, offset))
            task = self._reading[1]
            data = await asyncio.shield(task)
            self._reading = None
            return data

    async def _open(self, toolsrv: ToolServer, agent: str) -> None:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(toolsrv.stay(agent))
            self._file = await client.open(self._counterpart.path)
            self._stack = stack.pop_all()

    async def _stop(self) -> None:
        if self._reading is not None:
            task = self._reading[1]
            self._reading = None
            task.cancel()
            await asyncio.wait({task})

    def close(self, *, commit: bool) -> Awaitable[None] | None:  # noqa: ARG002  nothing is ever written
        """Hang up; whoever clunks does not wait for it."""
        task = asyncio.get_running_loop().create_task(self._hang_up())
        _CLOSING.add(task)
        task.add_done_callback(_CLOSING.discard)
        return None

    async def _hang_up(self) -> None:
        await self._stop()
        with contextlib.suppress(NinepError):
            await self._stack.aclose()
