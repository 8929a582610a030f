"""Making an agent by one request: with a prompt it is a sub-agent, whose reply is the answer to the request.

A model makes one with the tool `agent_spawn`, a client with the file `agent/new`; the same holds for both.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from ninep.errors import PERMISSION_DENIED, NinepError
from ollie.engine import own
from ollie.engine.records import Reason
from ollie.olliesrv.errors import RefusedError
from ollie.protocol.result import ToolResult, text
from ollie.store.rows import StoreError

if TYPE_CHECKING:
    from ollie.engine.events import TurnEnded
    from ollie.olliesrv.sessions.agent import Agent
    from ollie.olliesrv.sessions.session import Session

_FINE = frozenset({Reason.answered, Reason.question})


async def request(session: "Session", fields: Mapping[str, str], *, by: "Agent | None") -> AsyncGenerator[bytes, None]:
    """Make an agent and give its id; with a prompt run one turn of it and give its reply.

    A sub-agent is killed afterwards unless it was given a name. Closing this before the end interrupts it, and
    returns when nothing of it is alive; what it had said by then is written into the chat of the agent that asked.

    With `keep=no` and no prompt it is an agent that lives as long as this is not closed, whatever it does meanwhile.

    Args:
        session: where it is made.
        fields: as `Session.make_agent`, and `prompt` and `keep`.
        by: who asks.

    Raises:
        RefusedError: why it cannot be made; or, behind the reply as far as it came, why its turn ended early.
    """
    if _passing(fields):
        async with _passing_agent(session, fields, by) as agent:
            yield f"{agent.id}\n".encode()
            await asyncio.Event().wait()
    if not fields.get("prompt"):
        agent = await start(session, fields, by=by)
        yield f"{agent.id}\n".encode()
        return
    work = _Work(session, fields, by)
    try:
        ended = await work.ended()
    except BaseException:
        await asyncio.shield(session.later(work.give_up()))
        raise
    if ended.reply:
        yield ended.reply.removesuffix("\n").encode() + b"\n"
    if ended.reason not in _FINE:
        raise RefusedError(_why(ended))


async def call(session: "Session", arguments: Mapping[str, Any], *, by: "Agent") -> ToolResult:
    """The tool `agent_spawn`: run a sub-agent of an agent, and give its reply.

    When this is cancelled the sub-agent is interrupted, and what it had said by then is the result. When this returns
    nothing of the sub-agent is alive, unless it was given a name; then its turn is over.
    """
    try:
        work = _Work(session, _fields(arguments, by), by)
    except (RefusedError, ValueError) as error:
        return text(f"no sub-agent was made: {error}{_remedy(str(error))}", is_error=True)
    try:
        ended = await work.ended()
    except asyncio.CancelledError:
        return text(await asyncio.shield(session.later(work.interrupt())), is_error=True)
    except NinepError as error:  # somebody killed it, or its prompt cannot be stored
        words = await asyncio.shield(session.later(work.interrupt()))
        return text(f"{words}\nthe sub-agent {work.agent.name} is gone: {error}".lstrip("\n"), is_error=True)
    if ended.reason in _FINE:
        return text(ended.reply)
    return text(f"{ended.reply}\nthe sub-agent ended early: {_why(ended)}".lstrip("\n"), is_error=True)


async def start(session: "Session", fields: Mapping[str, str], *, by: "Agent | None") -> "Agent":
    """Make an agent; with a prompt its turn runs by itself. Returns when both are stored."""
    if _passing(fields):
        raise RefusedError("an agent with keep=no lives as long as its id is being read: open for reading and writing")
    agent, stored = session.make_agent(fields, by=by)
    await session.stored(stored)
    if fields.get("prompt"):
        await agent.prompt(fields["prompt"].encode(), by=None)
    return agent


def depth(agent: "Agent | None") -> int:
    """How many agents there are above one: the one that made it, the one that made that, and so on."""
    levels = -1
    while agent is not None:
        agent = agent.session.find_agent(agent.row.parent)
        levels += 1
    return levels


def tell(by: "Agent", agent: "Agent", words: str) -> None:
    """Write into the chat of an agent what its sub-agent had said when it was interrupted."""
    by.note(f"the sub-agent {agent.name} was interrupted; it had said: {words}")


class _Work:
    """A sub-agent and the one turn that it was made for.

    Args:
        session: where it is made.
        fields: as `request`.
        by: who asks.
    """

    def __init__(self, session: "Session", fields: Mapping[str, str], by: "Agent | None") -> None:
        self._named = bool(fields.get("name"))
        self._prompt = fields["prompt"].encode()
        self._by = by
        self._session = session
        self.agent, _ = session.make_agent(fields, by=by, temporary=not self._named)
        self._over: asyncio.Future[TurnEnded] = self.agent.turn_end()

    async def ended(self) -> "TurnEnded":
        """How its turn has ended; then it is gone, unless it has a name."""
        # What an agent asks for during its own turn is a part of that, so no pause holds it up.
        await self.agent.prompt(self._prompt, by=None, pressing=self._by is not None and self._by.runner.busy)
        ended = await asyncio.shield(self._over)
        if not self._named:
            await asyncio.shield(self._session.later(_remove(self.agent)))
        return ended

    async def interrupt(self) -> str:
        """End its turn; what it has said. Then nothing of it is alive, and it is gone, unless it has a name."""
        if not self.agent.gone:
            with contextlib.suppress(RefusedError):  # a turn that does not end by that ends when it is removed
                await self.agent.stop(by=None)
        words = self._over.result().reply if self._over.done() and not self._over.exception() else ""
        self._over.cancel()
        if not self._named:
            await _remove(self.agent)
        return words

    async def give_up(self) -> None:
        """As `interrupt`; who asked is told what it has said."""
        words = await self.interrupt()
        if words and self._by is not None:
            tell(self._by, self.agent, words)


def _passing(fields: Mapping[str, str]) -> bool:
    """Whether an agent without a turn of its own is to go with its request."""
    keep = fields.get("keep", "yes")
    if keep not in {"yes", "no"}:
        raise RefusedError(f"keep is yes or no: {keep[:80]}")
    if "keep" in fields and fields.get("prompt"):
        raise RefusedError("keep= and prompt= exclude one another: without a name a sub-agent is not kept")
    return keep == "no"


def _fields(arguments: Mapping[str, Any], by: "Agent") -> dict[str, str]:
    """The arguments of `agent_spawn` as the fields of a request; its directory may be given from the agent's own."""
    fields = own.spawn(arguments)
    if not fields.get("cwd", "~").startswith("~"):
        fields["cwd"] = os.path.join(by.cwd, fields["cwd"])  # noqa: PTH118  paths are text here, and may be anything
    return fields


def _why(ended: "TurnEnded") -> str:
    return ended.note or ended.reason.value


def _remedy(error: str) -> str:
    """What a model can do about a sub-agent that may not be made."""
    if error == PERMISSION_DENIED:
        return "; its directory, tools and sandbox must lie within yours"
    return "; do the task yourself" if "max_depth" in error else ""


@contextlib.asynccontextmanager
async def _passing_agent(session: "Session", fields: Mapping[str, str], by: "Agent | None") -> "AsyncIterator[Agent]":
    """A new agent, which goes with this."""
    agent, stored = session.make_agent(fields, by=by, temporary=True)
    try:
        await session.stored(stored)
        yield agent
    finally:
        await asyncio.shield(session.later(_remove(agent)))


async def _remove(agent: "Agent") -> None:
    if not agent.gone:
        with contextlib.suppress(StoreError):  # then it is forgotten on disk later
            await agent.kill(by=None)
