"""What waits for approval in all tool servers that run, in one place.

A request is a tool server's; nothing is kept of it here. Who watches is woken whenever a tool server that we follow
says that something was asked, and looks again.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

from ninep.bell import Bell
from ninep.errors import NinepError
from ninep.files import Watcher
from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.toolserver.toolserver import ToolServer

_UNKNOWN = "no such request"


class Asked:
    """Counts what was asked, and wakes those who wait for more."""

    def __init__(self) -> None:
        self.count = 0
        self._bell = Bell()

    def add(self) -> None:
        """Something was asked."""
        self.count += 1
        self._bell.ring()

    async def beyond(self, count: int) -> None:
        """Wait until more has been asked than that."""
        while self.count <= count:
            await self._bell.wait()


class Approvals:
    """The open requests of a server's tool servers.

    Args:
        toolsrvs: gives those that run.
        asked: counts what is asked there.
    """

    def __init__(self, toolsrvs: Callable[[], Iterable[ToolServer]], asked: Asked) -> None:
        self._toolsrvs = toolsrvs
        self.asked = asked

    async def lines(self) -> list[bytes]:
        """A JSON object on a line for each request, the oldest first."""
        lists = await asyncio.gather(*(_requests(toolsrv) for toolsrv in self._toolsrvs()))
        lines = [line for lines in lists for line in lines.splitlines(keepends=True)]
        return sorted(lines, key=lambda line: json.loads(line)["asked_at"])

    def watch(self) -> "ApprovalsWatch":
        """Every request that is open, then each new one."""
        return ApprovalsWatch(self)

    async def resolve(self, data: bytes) -> None:
        """Hand an answer to the tool server whose request it is about.

        Raises:
            NinepError: what that says; `no such request: …` when there is none.
        """
        given = _id(data)
        for toolsrv in self._toolsrvs():
            try:
                async with toolsrv.visit() as client:
                    await client.write("bypass/resolve", data)
            except NinepError as error:
                if not str(error).startswith(_UNKNOWN) and not isinstance(error, RefusedError):
                    raise
            else:
                return
        raise RefusedError(f"{_UNKNOWN}: {given}")


class ApprovalsWatch(Watcher):
    """One fid's view."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._given: set[str] = set()

    async def next(self) -> bytes:
        """The next request, a JSON object and a newline."""
        while True:
            count = self._approvals.asked.count
            lines = {json.loads(line)["id"]: line for line in await self._approvals.lines()}
            self._given &= lines.keys()
            for id_, line in lines.items():
                if id_ not in self._given:
                    self._given.add(id_)
                    return line
            await self._approvals.asked.beyond(count)


async def _requests(toolsrv: ToolServer) -> bytes:
    try:
        async with toolsrv.visit() as client:
            return await client.read("bypass/list")
    except NinepError:  # it has just ended
        return b""


def _id(data: bytes) -> Any:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"not an answer: {error}") from None
    return fields.get("id", "") if isinstance(fields, dict) else ""
