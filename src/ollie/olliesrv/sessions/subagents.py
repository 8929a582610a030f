"""Making an agent by one request: with a prompt it is a sub-agent, whose reply is the answer to the request."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from ollie.engine.records import Reason
from ollie.olliesrv.errors import RefusedError

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
        fields: as `Session.create_agent`, and `prompt` and `keep`.
        by: who asks.

    Raises:
        RefusedError: why it cannot be made; or, behind the reply as far as it came, why its turn ended early.
    """
    prompt = fields.get("prompt", "")
    if _passing(fields):
        agent, stored = session.make_agent(fields, by=by, temporary=True)
        try:
            await session.stored(stored)
            yield f"{agent.id}\n".encode()
            await asyncio.Event().wait()
        finally:
            await asyncio.shield(session.later(_remove(agent)))
    if not prompt:
        agent = await session.create_agent(fields, by=by)
        yield f"{agent.id}\n".encode()
        return
    agent, _ = session.make_agent(fields, by=by, temporary=not fields.get("name"))
    over = agent.turn_end()
    try:
        await agent.prompt(prompt.encode(), by=None)
        ended = await asyncio.shield(over)
    except BaseException:
        await asyncio.shield(session.later(_interrupt(agent, over, by, named=bool(fields.get("name")))))
        raise
    if not fields.get("name"):
        await asyncio.shield(session.later(_remove(agent)))
    if ended.reply:
        yield ended.reply.removesuffix("\n").encode() + b"\n"
    if ended.reason not in _FINE:
        raise RefusedError(ended.note or ended.reason.value)


async def detached(session: "Session", fields: Mapping[str, str], *, by: "Agent | None") -> "Agent":
    """Make an agent; with a prompt its turn runs by itself. Returns when both are stored."""
    if _passing(fields):
        raise RefusedError("an agent with keep=no lives as long as its id is being read: open for reading and writing")
    agent = await session.create_agent(fields, by=by)
    if fields.get("prompt"):
        await agent.prompt(fields["prompt"].encode(), by=None)
    return agent


def tell(by: "Agent", agent: "Agent", words: str) -> None:
    """Write into the chat of an agent what its sub-agent had said when it was interrupted."""
    by.note(f"the sub-agent {agent.name} was interrupted; it had said: {words}")


def _passing(fields: Mapping[str, str]) -> bool:
    """Whether an agent without a turn of its own is to go with its request."""
    keep = fields.get("keep", "yes")
    if keep not in {"yes", "no"}:
        raise RefusedError(f"keep is yes or no: {keep[:80]}")
    if "keep" in fields and fields.get("prompt"):
        raise RefusedError("keep= and prompt= exclude one another: without a name a sub-agent is not kept")
    return keep == "no"


async def _interrupt(agent: "Agent", over: "asyncio.Future[TurnEnded]", by: "Agent | None", *, named: bool) -> None:
    if agent.alive:
        await agent.stop(by=None)
        if by is not None and over.done() and not over.exception() and over.result().reply:
            tell(by, agent, over.result().reply)
        over.cancel()
        if not named:
            await _remove(agent)


async def _remove(agent: "Agent") -> None:
    if agent.alive:
        await agent.kill(by=None)
