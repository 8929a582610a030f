"""An agent: who it is, what may be done to it and by whom, and what its files show.

Its turns are run by `runner.py`; what it works with is computed in `outfit.py`.

`by` is who asks: an agent, which is bound by its session and its ceiling, or None for everybody else. It is never left
out, so that no way in can forget it.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ollie.engine import blocks
from ollie.engine.messages import ToolSpec
from ollie.engine.records import Noted
from ollie.olliesrv.errors import RefusedError, denied, gone
from ollie.olliesrv.pairs import format_record, parse_record
from ollie.olliesrv.settings.ceilings import Ceiling, covers
from ollie.olliesrv.settings.keys import KEYS
from ollie.olliesrv.settings.outfit import Outfit
from ollie.olliesrv.settings.services import Services
from ollie.olliesrv.turns import prompts, stats
from ollie.olliesrv.turns.chat import Chat, Transcript
from ollie.olliesrv.turns.plan import Plan
from ollie.olliesrv.turns.runner import Runner
from ollie.olliesrv.turns.states import State, States, StateWatch, state_of
from ollie.protocol import payload, within
from ollie.store.interface import AgentRow, LogName

if TYPE_CHECKING:
    from ollie.engine.events import TurnEnded
    from ollie.olliesrv.sessions.session import Session

_LOG_BYTES = 64 * 1024


class Agent:
    """An agent.

    Args:
        row: the agent as it is stored.
        session: its session.
        services: what the server has.
    """

    def __init__(self, row: AgentRow, session: "Session", services: Services) -> None:
        store = services.store
        self.session = session
        self.alive = True
        self.row = row
        ended = stats.decode(store.stats(row.id)).totals.turns > 0
        self.states = States(state_of(turn=False, queued=False, paused=session.paused), ended=ended)
        self.chat = Chat(store, row.id, LogName.CHAT, self.states)
        self.chat_raw = Chat(store, row.id, LogName.CHAT_RAW, self.states)
        self.plan = Plan(store, row.id, self._plan_written)
        self._services = services
        self._store = store
        self._transcript = Transcript(store, row.id, self.chat, self.chat_raw)
        self.runner = Runner(
            row.id, lambda: self.outfit, self._transcript, self.plan, session, services, self._announce
        )
        self._tasks: set[asyncio.Task[Any]] = set()

    # Who it is, and who may do what to it.

    @property
    def gone(self) -> bool:
        """Whether it was killed."""
        return not self.alive

    @property
    def number(self) -> int:
        """Its object number."""
        return self.row.number

    @property
    def id(self) -> str:
        """Its id, a UUIDv7."""
        return self.row.id

    @property
    def name(self) -> str:
        """Its name."""
        return self.row.name

    @property
    def cwd(self) -> str:
        """Its working directory, resolved."""
        return self.row.cwd

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
        return self.alive and other.session is self.session and covers(self.ceiling, other.ceiling)

    def permit(self, by: "Agent | None") -> None:
        """Raise `file does not exist` when it was killed, `permission denied` when `by` may not command it."""
        if not self.alive:
            raise gone()
        if by is not None and not by.may(self):
            raise denied()

    # Prompting it.

    def check_prompt(self, data: bytes, *, by: "Agent | None") -> None:
        """Raise what can be refused of a prompt, or of its beginning, before it is complete."""
        self.permit(by)
        prompts.check_length(data, self._services.config.max_prompt_bytes)

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

    async def configure(self, data: bytes, *, by: "Agent | None") -> str:
        """Change settings, all that are written or none. The owner's alone.

        Args:
            data: pairs as in a record.
            by: who asks.

        Returns:
            Nothing, as the response of a command.
        """
        self.permit(by)
        if by is not None:
            raise denied()
        await self.change(parse_record(data, tuple(KEYS)), by=None)
        return ""

    async def change(self, pairs: Mapping[str, str], *, by: "Agent | None") -> None:
        """Change settings by key of `cfg`; durable when this returns. What the owner changes moves the ceiling, too."""
        self.permit(by)
        after = self.outfit.changed(pairs).bounded() if by is None else self._changed_within(pairs, by)
        self.row = after.row
        seq = self._store.put_agent(self.row)
        self.runner.reconfigure()
        await self._store.stored(seq)

    def _changed_within(self, pairs: Mapping[str, str], by: "Agent") -> Outfit:
        """Itself with changes that an agent asks for; of directories outside its bound it learns nothing."""
        try:
            after = self.outfit.changed(pairs)
        except RefusedError:
            if "cwd" in pairs:
                raise denied() from None
            raise
        if not all(within.covers(bound.directory, after.row.cwd) for bound in (by.ceiling, self.ceiling)):
            raise denied()
        return after

    async def rename(self, name: str, *, by: "Agent | None") -> None:
        """Give it another name; durable when this returns."""
        self.permit(by)
        self.session.rename_agent(self, name)
        self.row = replace(self.row, name=name)
        await self._store.stored(self._store.put_agent(self.row))

    async def kill(self, *, by: "Agent | None") -> None:
        """Remove it. When this returns nothing of it is alive, and it is gone from the store.

        It goes on to the end also when the caller is cancelled, as a tool is that kills its own agent.
        """
        self.permit(by)
        self.alive = False
        await asyncio.shield(self._spawn(self._kill()))

    async def close(self) -> None:
        """The server ends: end the turn that runs, begin none, forget nothing."""
        await self.runner.shut("the server was stopped")

    def note(self, text: str) -> None:
        """Write a line for its readers into the chat."""
        if self.alive:
            self._transcript.append([Noted(text)])

    async def _kill(self) -> None:
        self.states.end()
        self.chat.settle()
        self.chat_raw.settle()
        self.session.forget_agent(self)
        await self.runner.close()
        self.session.toolsrv.forget(self.id)
        await self._store.stored(self._store.drop_agent(self.id))

    # What its files show.

    def watch_state(self, uname: str) -> StateWatch:
        """A reading of `statewait` by one fid."""
        return StateWatch(self.states, uname)

    async def wait_state(self) -> bytes:
        """The state with a newline, as soon as the agent neither runs nor has a queue that it may run."""
        return f"{await self.states.resting()}\n".encode()

    def id_text(self) -> bytes:
        """Its id with a newline."""
        return f"{self.id}\n".encode()

    def name_text(self) -> bytes:
        """Its name with a newline."""
        return f"{self.name}\n".encode()

    def cfg_text(self) -> bytes:
        """Every setting with what counts for it, a line each, as it can be written."""
        shown = self.outfit.shown()
        return b"".join(format_record({key: value}) if value else f"{key}=\n".encode() for key, value in shown.items())

    async def log_text(self) -> bytes:
        """The last 64 KiB of `chat.raw`, cut at a block."""
        return blocks.tail(await self.chat_raw.end(_LOG_BYTES + 1), _LOG_BYTES)

    def stats_text(self) -> bytes:
        """What it has used and what it is doing, a line each."""
        outfit, counts = self.outfit, self.runner.account.counts
        values = {
            "state": self.state.value,
            "activity": self.runner.activity,
            "backend": outfit.backend_name,
            "model": outfit.model,
            "profile": self.row.profile,
            "queue": str(self.queued),
            **stats.lines(counts),
            "context_limit": "",
            "chat_bytes": str(self.chat.length),
            "turn_chat_offset": str(counts.turn_chat_offset),
            "started_at": stats.moment(self.row.created_at),
        }
        return payload.format(values)

    def _plan_written(self, text: str) -> None:
        self.runner.set_plan(text)

    def _announce(self, state: State) -> None:
        if self.alive and self.states.become(state):
            self.chat.settle()
            self.chat_raw.settle()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
