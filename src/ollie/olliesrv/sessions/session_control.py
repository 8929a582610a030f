"""The commands of a session's `ctl`: a table, and a function for each."""

from typing import TYPE_CHECKING

from ollie.olliesrv.sessions.commands import Command

if TYPE_CHECKING:
    from ollie.olliesrv.sessions.agent import Agent
    from ollie.olliesrv.sessions.session import Session


async def _kill(session: "Session", _argument: str, by: "Agent | None") -> str:
    await session.kill(by=by)
    return "killed"


async def _save(session: "Session", _argument: str, by: "Agent | None") -> str:
    await session.save(by=by)
    return "saved"


async def _invalidate(session: "Session", _argument: str, by: "Agent | None") -> str:
    await session.invalidate(by=by)
    return "invalidated"


async def _pause(session: "Session", _argument: str, by: "Agent | None") -> str:
    await session.pause(paused=True, by=by)
    return "paused"


async def _resume(session: "Session", _argument: str, by: "Agent | None") -> str:
    await session.pause(paused=False, by=by)
    return "resumed"


COMMANDS: "tuple[Command[Session], ...]" = (
    Command("kill", "", "remove the session with its agents", _kill),
    Command("save", "", "answer when everything so far is on disk", _save),
    Command("invalidate", "", "have tools read again", _invalidate),
    Command("pause", "", "let running turns end and hold the queues", _pause),
    Command("resume", "", "let the queues go on", _resume),
)
"""Every command, in the order in which they are listed."""
