"""The tools and the profile of an agent: given and taken by command. Those of the host are tried on a tool server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from served import command, values

from ninep.errors import NinepError
from ollie.olliesrv.sessions import subagents
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.settings.profiles import Profile

BRIEF = Profile(name="brief", system="Be brief.", tools=("plan",))
EVERY = Profile(name="every", tools=("agent_spawn", "ask_user", "plan"))


async def make(serve: Callable[..., Any], place: Path, **fields: str) -> Agent:
    """An agent with the tools `plan` and `ask_user`."""
    ollie = await serve(tools=("plan", "ask_user"), profiles=(BRIEF, EVERY))
    session = await ollie.sessions.create(name="s", by=None)
    return await subagents.start(session, {"name": "a", "cwd": str(place / "project"), **fields}, by=None)


async def names(agent: Agent) -> list[str]:
    """The tools that `tools` lists."""
    return sorted(line.split()[0] for line in (await command(agent, "tools")).splitlines())


async def test_a_tool_is_loaded_and_unloaded(serve: Callable[..., Any], place: Path) -> None:
    """Twice is once; what the profile has can be taken and given again."""
    agent = await make(serve, place)
    assert await command(agent, "tool_load agent_spawn") == "loaded\n"
    assert await command(agent, "tool_load agent_spawn") == "loaded\n"
    assert await names(agent) == ["agent_spawn", "ask_user", "plan"]
    assert await command(agent, "tool_unload plan") == "unloaded\n"
    assert await command(agent, "tool_unload agent_spawn") == "unloaded\n"
    assert await names(agent) == ["ask_user"]
    await command(agent, "tool_load plan")
    assert await names(agent) == ["ask_user", "plan"]


async def test_what_cannot_be_loaded_says_why(serve: Callable[..., Any], place: Path) -> None:
    """The nearest names; what is broken and how; what is loaded."""
    (place / "cfg/tools").mkdir(parents=True)
    (place / "cfg/tools/bad.yaml").write_text("name: bad\n")
    agent = await make(serve, place)
    with pytest.raises(NinepError, match=r"^unknown tool: plam \(did you mean plan\? known: "):
        await command(agent, "tool_load plam")
    with pytest.raises(NinepError, match=r"^broken tool: bad: "):
        await command(agent, "tool_load bad")
    with pytest.raises(NinepError, match=r"^tool not loaded: shell \(loaded: ask_user plan\)$"):
        await command(agent, "tool_unload shell")
    with pytest.raises(NinepError, match=r"^tool_load takes NAME$"):
        await command(agent, "tool_load")
    assert await names(agent) == ["ask_user", "plan"]


async def test_loads_are_stored(serve: Callable[..., Any], place: Path, crash: Callable[..., Any]) -> None:
    """A later server has them."""
    agent = await make(serve, place)
    await command(agent, "tool_load agent_spawn")
    await command(agent, "tool_unload plan")
    await crash()
    later = await serve(tools=("plan", "ask_user"))
    session = await later.sessions.find("s", by=None)
    assert session is not None
    again = session.find_agent("a")
    assert again is not None
    assert await names(again) == ["agent_spawn", "ask_user"]
    assert again.ceiling.tools == ("agent_spawn", "ask_user")


async def test_an_agent_loads_within_its_ceiling(serve: Callable[..., Any], place: Path) -> None:
    """What it gave away itself it can have again; what the owner has taken, and what it never had, it cannot."""
    agent = await make(serve, place)
    await command(agent, "tool_unload plan", by=agent)
    assert await names(agent) == ["ask_user"]
    await command(agent, "tool_load plan", by=agent)
    await command(agent, "tool_unload ask_user")
    for tool in ("ask_user", "agent_spawn", "shell"):
        with pytest.raises(NinepError, match=r"^permission denied$"):
            await command(agent, f"tool_load {tool}", by=agent)
    assert await names(agent) == ["plan"]


async def test_an_agent_gives_another_no_more_than_both_may_have(serve: Callable[..., Any], place: Path) -> None:
    """Its maker has more, and yet cannot widen it; nor command one that has more than itself."""
    agent = await make(serve, place)
    narrow = await subagents.start(agent.session, {"agent": "brief", "cwd": str(place / "project")}, by=None)
    with pytest.raises(NinepError, match=r"^permission denied$"):
        await command(narrow, "tool_load ask_user", by=agent)
    with pytest.raises(NinepError, match=r"^permission denied$"):
        await command(agent, "tool_unload ask_user", by=narrow)
    await command(narrow, "tool_load ask_user")
    assert await names(narrow) == ["ask_user", "plan"]


async def test_what_an_agent_makes_has_its_tools(serve: Callable[..., Any], place: Path) -> None:
    """One that lacks a tool of its profile can still make others, which lack it, too; another profile has its own."""
    agent = await make(serve, place)
    await command(agent, "tool_unload ask_user")
    child = await subagents.start(agent.session, {}, by=agent)
    assert await names(child) == ["plan"]
    other = await subagents.start(agent.session, {"agent": "brief"}, by=agent)
    assert await names(other) == ["plan"]
    with pytest.raises(NinepError, match=r"^permission denied$"):
        await subagents.start(agent.session, {"agent": "default"}, by=agent)


async def test_the_profile_is_shown_and_changed(serve: Callable[..., Any], place: Path) -> None:
    """System prompt and tools follow from it; what was loaded before is forgotten."""
    agent = await make(serve, place)
    await command(agent, "tool_load agent_spawn")
    assert await command(agent, "agent") == "default\n"
    assert await command(agent, "agent brief") == "brief\n"
    assert await command(agent, "systemprompt") == f"Be brief.\n\nWorking directory: {place}/project\n"
    assert await names(agent) == ["plan"]
    assert values(agent, "stats")["profile"] == "brief"
    await command(agent, "agent default")
    assert await names(agent) == ["ask_user", "plan"]
    with pytest.raises(
        NinepError, match=r"^unknown profile: brif \(did you mean brief\? known: default brief every\)$"
    ):
        await command(agent, "agent brif")


async def test_an_agent_takes_a_profile_within_its_ceiling(serve: Callable[..., Any], place: Path) -> None:
    """And back; not one with a tool more."""
    agent = await make(serve, place)
    assert await command(agent, "agent brief", by=agent) == "brief\n"
    assert await command(agent, "agent default", by=agent) == "default\n"
    with pytest.raises(NinepError, match=r"^permission denied$"):
        await command(agent, "agent every", by=agent)
    assert await command(agent, "agent") == "default\n"


async def test_the_system_prompt_is_what_the_model_gets(serve: Callable[..., Any], place: Path) -> None:
    """The built-in one, with the directory; or the setting."""
    agent = await make(serve, place)
    driver = await agent.runner.load()
    agent.runner.reconfigure()
    assert await command(agent, "systemprompt") == f"{driver.state.setup.system}\n"
    assert "You are Ollie" in driver.state.setup.system
    await agent.change({"system": "Be kind."}, by=None)
    assert await command(agent, "systemprompt") == f"Be kind.\n\nWorking directory: {place}/project\n"
    assert driver.state.setup.system.startswith("Be kind.")


async def test_the_models_of_its_backend_are_listed(serve: Callable[..., Any], place: Path) -> None:
    """As `model` takes them."""
    agent = await make(serve, place)
    assert await command(agent, "models") == "replay\n"
