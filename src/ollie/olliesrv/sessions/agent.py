"""An agent: who it is, what may be done to it and by whom, and what its files show.

Its turns are run by `runner.py`; what it works with is computed in `outfit.py`.

`by` is who asks: an agent, which is bound by its session and its ceiling, or None for everybody else. It is never left
out, so that no way in can forget it.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ollie.engine import own
from ollie.engine.messages import ToolSpec
from ollie.engine.records import Noted
from ollie.olliesrv.errors import RefusedError, denied, gone, unknown
from ollie.olliesrv.sessions.entity import Entity
from ollie.olliesrv.settings.ceilings import Ceiling, covers
from ollie.olliesrv.settings.outfit import Outfit
from ollie.olliesrv.settings.services import Services
from ollie.olliesrv.turns import prompts
from ollie.olliesrv.turns.account import Account
from ollie.olliesrv.turns.chat import Chat, Transcript
from ollie.olliesrv.turns.plan import Plan
from ollie.olliesrv.turns.queue import Lease
from ollie.olliesrv.turns.runner import Runner
from ollie.olliesrv.turns.states import State, States, StateWatch, state_of
from ollie.protocol import within
from ollie.protocol.discovery import Broken
from ollie.store.rows import AgentRow, LogName

if TYPE_CHECKING:
    from ollie.engine.events import TurnEnded
    from ollie.olliesrv.sessions.session import Session

_OWN_KEYS = frozenset({"agent", "cwd", "model"})  # of `cfg`, those that an agent may change


class Agent(Entity[AgentRow]):
    """An agent.

    Args:
        row: the agent as it is stored.
        session: its session.
        services: what the server has.
    """

    def __init__(self, row: AgentRow, session: "Session", services: Services) -> None:
        super().__init__(row)
        self.session = session
        self._services = services
        self._store = store = services.store
        self.account = Account(lambda: self.outfit, store, lambda: self.runner.driver, session.account)
        ended = self.account.counts.totals.turns > 0
        self.states = States(state_of(turn=False, queued=False, paused=session.paused), ended=ended)
        self.chat = Chat(store, row.id, LogName.CHAT, self.states)
        self.chat_raw = Chat(store, row.id, LogName.CHAT_RAW, self.states)
        self.plan = Plan(store, row.id, self._plan_written)
        self._transcript = Transcript(store, row.id, self.chat, self.chat_raw)
        self.runner = Runner(
            row.id, lambda: self.outfit, self._transcript, self.plan, self.account, session, services, self._announce
        )

    # Who it is, and who may do what to it.

    @property
    def state(self) -> State:
        """Its state."""
        return self.states.state

    @property
    def queued(self) -> int:
        """How many prompts wait."""
        return self.runner.queued

    @property
    def outfit(self) -> Outfit:
        """What it works with."""
        return Outfit(self.row, self._services)

    @property
    def ceiling(self) -> Ceiling:
        """Its upper bound."""
        return self.outfit.ceiling

    def may(self, other: "Agent") -> bool:
        """Whether it may prompt and command another agent, or itself."""
        return not self.gone and other.session is self.session and covers(self.ceiling, other.ceiling)

    def permit(self, by: "Agent | None") -> None:
        """Raise `file does not exist` when it was killed, `permission denied` when `by` may not command it."""
        if self.gone:
            raise gone()
        if by is not None and not by.may(self):
            raise denied()

    # Prompting it.

    def check_prompt(self, size_bytes: int, *, by: "Agent | None") -> None:
        """Raise what can be refused of a prompt before it is complete, of which there are so many bytes."""
        self.permit(by)
        prompts.check_length(size_bytes, self._services.config.max_prompt_bytes)

    async def prompt(self, data: bytes, *, by: "Agent | None", pressing: bool = False) -> None:
        """Queue a turn. When this returns the prompt is durable, and the state is `running` or the queue longer.

        Args:
            data: the prompt in UTF-8; newlines at its end are dropped.
            by: who asks.
            pressing: it is part of a turn that runs, which a pause does not touch.

        Raises:
            RefusedError: as `permit` or `prompts.read`.
        """
        self.permit(by)
        text = prompts.read(data, self._services.config.max_prompt_bytes)
        await self._store.stored(self.runner.enqueue(text, pressing=pressing))

    async def inject(self, text: str, *, by: "Agent | None") -> bool:
        """Give words to its model with the next tool result, or before the turn ends; durable when this returns.

        Where no turn runs they are a prompt; whether one runs.

        Raises:
            RefusedError: as `prompt`.
        """
        self.permit(by)
        words = prompts.read(text.encode(), self._services.config.max_prompt_bytes)
        injected, seq = self.runner.inject(words)
        await self._store.stored(seq)
        return injected

    def next_prompt(self, *, by: "Agent | None") -> Lease | None:
        """The next prompt of the queue, for a reader, who has it for good when he has read it whole."""
        self.permit(by)
        return self.runner.lease()

    async def completed(self, key: str, message: str) -> None:
        """Queue the message that something in the background has ended, once for each key; then it is durable."""
        await self._store.stored(self.runner.complete(key, message))

    def turn_end(self) -> "asyncio.Future[TurnEnded]":
        """How the turn that runs, or else the next one, ends; `file does not exist` when the agent is killed first."""
        return self.runner.turn_end()

    # Commanding it.

    async def stop(self, *, by: "Agent | None") -> bool:
        """Interrupt the turn that runs; whether there was one. When this returns nothing of it is alive."""
        self.permit(by)
        return await self.runner.stop("stopped")

    async def clear(self, *, by: "Agent | None") -> None:
        """Forget the conversation; the chat files and the plan stay."""
        self.permit(by)
        if not await self.runner.clear():
            raise RefusedError(f"agent is running: {self.name} (stop it first)")

    async def tools(self, *, by: "Agent | None") -> tuple[ToolSpec, ...]:
        """Its tools; starts the tool server if need be."""
        self.permit(by)
        return await self.runner.tools()

    async def change(self, pairs: Mapping[str, str], *, by: "Agent | None") -> None:
        """Change settings by key of `cfg`, all or none; durable when this returns.

        What the owner changes moves the ceiling, too. An agent changes model, directory and profile only, and never
        beyond a ceiling.
        """
        self.permit(by)
        await self._become(self.outfit.changed(pairs).bounded() if by is None else self._changed_within(pairs, by))

    def _changed_within(self, pairs: Mapping[str, str], by: "Agent") -> Outfit:
        """Itself with changes that an agent asks for; of directories outside its bound it learns nothing."""
        if not pairs.keys() <= _OWN_KEYS:
            raise denied()
        try:
            after = self.outfit.changed(pairs)
        except RefusedError:
            if "cwd" in pairs:
                raise denied() from None
            raise
        bounds = by.ceiling, self.ceiling
        if not all(within.covers(bound.directory, after.row.cwd) for bound in bounds):
            raise denied()
        if "agent" in pairs:
            needed = after.bounded().ceiling
            if not all(covers(bound, needed) for bound in bounds):
                raise denied()
        return after

    async def load_tool(self, name: str, *, by: "Agent | None") -> None:
        """Give it a tool, for good; durable when this returns. One that it has is read from disk again.

        What the owner gives moves the ceiling, too; an agent gives only what the ceilings hold.

        Raises:
            RefusedError: as `permit`; `unknown tool: …` with the nearest; `broken tool: …` and why.
        """
        self.permit(by)
        offered = await asyncio.to_thread(self._services.catalog.tools)
        if name not in offered and name not in own.SPECS:
            raise unknown("tool", name, [*offered, *own.SPECS])
        tool = offered.get(name)
        if isinstance(tool, Broken):
            raise RefusedError(f"broken tool: {name}: {tool.error}")
        self.permit(by)
        after = self.outfit.with_tool(name)
        if by is None:
            after = after.bounded()
        elif not all(name in bound.tools for bound in (by.ceiling, self.ceiling)):
            raise denied()
        await self._become(after, again=name)

    async def unload_tool(self, name: str, *, by: "Agent | None") -> None:
        """Take a tool from it, for good; durable when this returns. What the owner takes leaves the ceiling, too.

        Raises:
            RefusedError: as `permit`; `tool not loaded: …`.
        """
        self.permit(by)
        after = self.outfit.without_tool(name)
        await self._become(after.bounded() if by is None else after)

    async def _become(self, after: Outfit, again: str = "") -> None:
        """Work with something else from the next request on; durable when this returns."""
        before, self.row = self.outfit.host_tools, after.row
        seq = self._store.put_agent(self.row)
        if again or after.host_tools != before:
            await self.runner.retool(again)
        else:
            self.runner.reconfigure()
        await self._store.stored(seq)

    async def models(self) -> list[str]:
        """The models of its backend."""
        name = self.outfit.backend_name
        return [model for backend, model in await self._services.models.known() if backend == name]

    async def rename(self, name: str, *, by: "Agent | None") -> None:
        """Give it another name; durable when this returns. The owner's alone: by its name he knows who asks him."""
        self.permit(by)
        if by is not None:
            raise denied()
        if name == self.name:
            return
        self.session.rename_agent(self, name)
        self.row = replace(self.row, name=name)
        seq = self._store.put_agent(self.row)
        self.session.tell("agent", self.id, {"state": "renamed"})
        await self._store.stored(seq)

    async def close(self) -> None:
        """The server ends: end the turn that runs, begin none, forget nothing."""
        await self.runner.shut("the server was stopped")

    def note(self, text: str) -> None:
        """Write a line for its readers into the chat."""
        if not self.gone:
            self._transcript.append([Noted(text)])

    async def _kill(self) -> None:
        self.states.end()
        self.chat.settle()
        self.chat_raw.settle()
        self.session.forget_agent(self)
        await self.runner.close()
        await self.session.toolsrv.forget(self.id)
        await self._store.stored(self._store.drop_agent(self.id))

    # Waiting for it.

    def watch_state(self, uname: str) -> StateWatch:
        """A reading of `statewait` by one fid."""
        return StateWatch(self.states, uname)

    async def wait_state(self) -> State:
        """The state, as soon as the agent neither runs nor has a queue that it may run."""
        return await self.states.resting()

    def _plan_written(self, text: str) -> None:
        self.runner.set_plan(text)

    def _announce(self, state: State) -> None:
        if not self.gone and self.states.become(state):
            self.session.tell("state", self.id, {"state": state})
            self.chat.settle()
            self.chat_raw.settle()
