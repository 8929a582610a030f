"""Requests to a tool server that come through the name space: whose they are is decided here, never by who writes them.

What an agent asks for is run as if its model had called it: with its sandbox, in a directory within its bound, in the
environment that its tools have. The owner says for which agent of the session it is, and may set variables.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from ollie.olliesrv.errors import RefusedError, denied
from ollie.olliesrv.settings.directories import check_unmoved
from ollie.protocol import payload
from ollie.protocol.within import covers

if TYPE_CHECKING:
    from ollie.olliesrv.sessions.agent import Agent
    from ollie.olliesrv.sessions.session import Session

_OURS = ("token", "agent", "agent.sandbox", "session", "cwd")


async def run(session: "Session", path: str, data: bytes, *, by: "Agent | None") -> AsyncGenerator[bytes, None]:
    """Write a payload to a request file of the tool server; the answer, in pieces as it comes.

    Raises:
        RefusedError: the payload cannot be read, or names no agent of the session; no tool server runs.
        NinepError: what the tool server says.
    """
    request = _request(session, data, by)
    async with session.toolsrv.running() as client:
        async for piece in client.rdwr_stream(path, request):
            yield piece


async def start(session: "Session", path: str, data: bytes, *, by: "Agent | None") -> None:
    """Write a payload that nobody reads the answer to; the same errors."""
    request = _request(session, data, by)
    async with session.toolsrv.running() as client:
        await client.write(path, request)


def _request(session: "Session", data: bytes, by: "Agent | None") -> bytes:
    """The payload of a request, which says whose it is."""
    try:
        fields = payload.parse(data)
    except payload.PayloadError as error:
        raise RefusedError(str(error)) from None
    if by is not None:
        _check_environment(fields)
    agent = by or _asked_for(session, fields.get("agent", ""))
    outfit = agent.outfit
    kept = {key: value for key, value in fields.items() if key not in _OURS}
    ours = {"agent": agent.id, "session": session.id, "cwd": _directory(agent, fields.get("cwd", ""), by)}
    if outfit.sandbox:
        ours["agent.sandbox"] = outfit.sandbox
    try:
        return payload.format({**kept, **ours})
    except payload.PayloadError as error:
        raise RefusedError(str(error)) from None


def _check_environment(fields: Mapping[str, str]) -> None:
    """An agent sets no variables: those that a tool has are the server's, and what a policy adds."""
    variable = next((key for key in fields if key.startswith(payload.ENV_PREFIX)), "")
    if variable:
        raise RefusedError(f"{variable} is the owner's to set: set it in the command")


def named(session: "Session", name: str) -> "Agent":
    """The agent of a name or an id; `no such agent: …` when the session has none."""
    agent = session.find_agent(name)
    if agent is None:
        raise RefusedError(f"no such agent: {name}")
    return agent


def _asked_for(session: "Session", name: str) -> "Agent":
    if not name:
        raise RefusedError("payload names no agent: agent=NAME")
    return named(session, name)


def _directory(agent: "Agent", wanted: str, by: "Agent | None") -> str:
    """Where it runs: what is asked for, from the agent's own directory; for an agent within its bound."""
    check_unmoved(agent.cwd)
    directory = os.path.realpath(os.path.join(agent.cwd, wanted))  # noqa: PTH118  paths are text here, and may be anything
    if by is not None and not covers(agent.ceiling.directory, directory):
        raise denied()
    return directory
