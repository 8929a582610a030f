"""`session/{session}/agent/{agent}/ctl`: the commands to an agent."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from ninep.files import Command, done
from ninep.tree import Role
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.errors import denied
from ollie.olliesrv.ns.session.agent.proc import top
from ollie.olliesrv.sessions import runs
from ollie.olliesrv.sessions.agent import Agent


async def _stop(agent: Agent, peer: OlliePeer, _argument: str) -> str:
    stopped = await agent.stop(by=peer.agent)
    rest = f"; {agent.queued} queued" if agent.queued else ""
    return ("stopped" if stopped else "nothing to stop") + rest


async def _inject(agent: Agent, peer: OlliePeer, text: str) -> str:
    return "injected" if await agent.inject(text, by=peer.agent) else "prompted"


async def _setting(key: str, agent: Agent, peer: OlliePeer, value: str) -> str:
    if value:
        await agent.change({key: value}, by=peer.agent)
    return agent.outfit.shown()[key]


def _backend(agent: Agent, _peer: OlliePeer, _argument: str) -> str:
    return agent.outfit.backend_name


async def _name(agent: Agent, peer: OlliePeer, name: str) -> str:
    if name:
        if peer.role is not Role.USER:
            raise denied()  # as the mode of `name` says
        await agent.rename(name, by=peer.agent)
    return agent.name


async def _tools(agent: Agent, peer: OlliePeer, _argument: str) -> str:
    specs = await agent.tools(by=peer.agent)
    width = max((len(spec.name) for spec in specs), default=0)
    return "\n".join(f"{spec.name:<{width}}  {spec.description.splitlines()[0]}" for spec in specs)


async def _models(agent: Agent, _peer: OlliePeer, _argument: str) -> str:
    return "\n".join(await agent.models())


def _system_prompt(agent: Agent, _peer: OlliePeer, _argument: str) -> str:
    return agent.outfit.system


async def _proc(agent: Agent, _peer: OlliePeer, _argument: str) -> str:
    return "\n".join("\t".join(row) for row in await runs.rows(agent.session, agent.id))


async def _proc_top(agent: Agent, _peer: OlliePeer, _argument: str) -> str:
    return await top.table(agent)


async def _proc_out(agent: Agent, _peer: OlliePeer, pid: str) -> str:
    return (await runs.output(agent, pid)).decode(errors="replace")


async def _end(word: str, agent: Agent, peer: OlliePeer, pid: str) -> str:
    await runs.command(agent, pid, word, by=peer.agent)
    return {"term": "terminated", "kill": "killed", "dismiss": "dismissed"}[word]


COMMANDS: Final[Sequence[Command[Agent]]] = (
    Command("stop", "", "interrupt the running turn; a queue goes on", _stop),
    Command(
        "clear",
        "",
        "forget the conversation; the chat files stay",
        lambda agent, peer, _: done(agent.clear(by=peer.agent), "cleared"),
    ),
    Command("kill", "", "remove the agent", lambda agent, peer, _: done(agent.kill(by=peer.agent), "killed")),
    Command("inject", "TEXT…", "tell its model something in the turn that runs, else prompt it", _inject),
    Command("i", "TEXT…", "the same", _inject),
    Command(
        "agent", "[profile]", "show or change the profile, with its system prompt and tools", partial(_setting, "agent")
    ),
    Command("model", "[name]", "show or change the model", partial(_setting, "model")),
    Command("models", "", "list the models of its backend", _models),
    Command("backend", "", "show the backend", _backend),
    Command("name", "[name]", "show or change the name", _name),
    Command("cwd", "[path]", "show or change the working directory", partial(_setting, "cwd")),
    Command("tools", "", "list the loaded tools", _tools),
    Command(
        "tool_load",
        "NAME",
        "give it a tool, for good",
        lambda agent, peer, name: done(agent.load_tool(name, by=peer.agent), "loaded"),
    ),
    Command(
        "tool_unload",
        "NAME",
        "take a tool from it, for good",
        lambda agent, peer, name: done(agent.unload_tool(name, by=peer.agent), "unloaded"),
    ),
    Command("systemprompt", "", "show the system prompt that its model gets", _system_prompt),
    Command("proc", "", "list what runs and what has run in the background", _proc),
    Command("proc top", "", "list it with commands", _proc_top),
    Command("proc term", "PID", "ask a process to end", partial(_end, "term")),
    Command("proc kill", "PID", "end a process with all that it started", partial(_end, "kill")),
    Command("proc out", "PID", "show what a process has printed", _proc_out),
    Command("proc dismiss", "PID", "forget a process that has ended", partial(_end, "dismiss")),
)
