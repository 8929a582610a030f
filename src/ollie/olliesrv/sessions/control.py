"""The commands of an agent's `ctl`: a table, and a function for each."""

from typing import TYPE_CHECKING

from ollie.olliesrv.errors import unknown
from ollie.olliesrv.sessions import processes
from ollie.olliesrv.sessions.commands import Command, listing

if TYPE_CHECKING:
    from ollie.olliesrv.sessions.agent import Agent


async def _stop(agent: "Agent", _argument: str, by: "Agent | None") -> str:
    stopped = await agent.stop(by=by)
    rest = f"; {agent.queued} queued" if agent.queued else ""
    return ("stopped" if stopped else "nothing to stop") + rest


async def _kill(agent: "Agent", _argument: str, by: "Agent | None") -> str:
    await agent.kill(by=by)
    return "killed"


async def _clear(agent: "Agent", _argument: str, by: "Agent | None") -> str:
    await agent.clear(by=by)
    return "cleared"


async def _model(agent: "Agent", argument: str, by: "Agent | None") -> str:
    return await _setting(agent, "model", argument, by)


async def _backend(agent: "Agent", _argument: str, _by: "Agent | None") -> str:
    return agent.outfit.backend_name


async def _name(agent: "Agent", argument: str, by: "Agent | None") -> str:
    if argument:
        await agent.rename(argument, by=by)
    return agent.name


async def _cwd(agent: "Agent", argument: str, by: "Agent | None") -> str:
    return await _setting(agent, "cwd", argument, by)


async def _tools(agent: "Agent", _argument: str, _by: "Agent | None") -> str:
    specs = await agent.tools()
    width = max((len(spec.name) for spec in specs), default=0)
    return "\n".join(f"{spec.name:<{width}}  {spec.description.splitlines()[0]}" for spec in specs)


async def _proc(agent: "Agent", argument: str, _by: "Agent | None") -> str:
    word, _, pid = argument.partition(" ")
    match word:
        case "":
            return await processes.list_text(agent)
        case "top":
            return await processes.top_text(agent)
        case "term" | "kill" | "out" | "dismiss":
            return await processes.command(agent, word, pid.strip())
    raise unknown("command of proc", word, ["top", "term", "kill", "out", "dismiss"])


async def _help(_agent: "Agent", _argument: str, _by: "Agent | None") -> str:
    return listing(COMMANDS)


async def _setting(agent: "Agent", key: str, argument: str, by: "Agent | None") -> str:
    if argument:
        await agent.change({key: argument}, by=by)
    return agent.outfit.shown()[key]


COMMANDS: "tuple[Command[Agent], ...]" = (
    Command("stop", "", "interrupt the running turn; a queue goes on", _stop),
    Command("clear", "", "forget the conversation; the chat files stay", _clear),
    Command("kill", "", "remove the agent", _kill),
    Command("model", "[name]", "show or change the model", _model),
    Command("backend", "", "show the backend", _backend),
    Command("name", "[name]", "show or change the name", _name),
    Command("cwd", "[path]", "show or change the working directory", _cwd),
    Command("tools", "", "list the loaded tools", _tools),
    Command("proc", "[top]", "list what runs and what has run in the background; top: with commands", _proc),
    Command("proc", "term PID", "ask a process to end", _proc),
    Command("proc", "kill PID", "end a process with all that it started", _proc),
    Command("proc", "out PID", "show what a process has printed", _proc),
    Command("proc", "dismiss PID", "forget a process that has ended", _proc),
    Command("help", "", "list the commands", _help),
)
"""Every command, in the order in which `help` lists them."""
