"""What runs the turns of one agent: its queue, its engine, and what its engine needs.

A turn begins in two steps. What it needs is made ready first: the history is read, and the tool server is there and has
the agent's tools. Then, in one step of the loop, the prompt leaves the queue and enters the history, so that it
is always in one of the two. While the first step lasts the agent counts as running, and a stop is kept for the turn.

While nothing runs there is no task, no timer and no connection.

A queue that comes from the store is held until somebody lets it go: the server when it begins and `resume` is `queue`,
else the next prompt, or the session's command `resume`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ninep.errors import NinepError
from ollie.backends.interface import Backend
from ollie.engine import cut, own
from ollie.engine import events as ev
from ollie.engine.messages import Message, ToolCall, ToolSpec
from ollie.engine.records import Ended, Failed, Prompted, Record
from ollie.engine.state import State as Engine
from ollie.olliesrv.errors import RefusedError, gone
from ollie.olliesrv.settings.directories import check_unmoved
from ollie.olliesrv.settings.outfit import Outfit
from ollie.olliesrv.settings.services import Services
from ollie.olliesrv.toolserver.toolserver import Call
from ollie.olliesrv.turns.account import Account
from ollie.olliesrv.turns.chat import Transcript, history
from ollie.olliesrv.turns.driver import Driver
from ollie.olliesrv.turns.ends import Ends
from ollie.olliesrv.turns.kit import Kit, problem
from ollie.olliesrv.turns.patience import patiently
from ollie.olliesrv.turns.plan import Plan
from ollie.olliesrv.turns.preparation import Preparation
from ollie.olliesrv.turns.queue import Lease, Queue
from ollie.olliesrv.turns.states import State, state_of
from ollie.protocol.result import ToolResult
from ollie.store.rows import Seq, StoreError

if TYPE_CHECKING:
    from ollie.olliesrv.sessions.session import Session


class Runner:
    """Runs the turns of one agent.

    Args:
        agent: the id of the agent.
        outfit: gives what the agent works with now.
        transcript: where what happens is written.
        plan: its plan.
        account: what it has used.
        session: its session.
        services: what the server has.
        announce: told the state whenever it may have changed.

    Attributes:
        driver: of its engine; None before it is needed.
    """

    def __init__(  # noqa: PLR0917  each is one thing it needs, and one place makes it
        self,
        agent: str,
        outfit: Callable[[], Outfit],
        transcript: Transcript,
        plan: Plan,
        account: Account,
        session: "Session",
        services: Services,
        announce: Callable[[State], None],
    ) -> None:
        self._queue = Queue(services.store, agent, self._settled)
        self._kit = Kit(agent, outfit, session.toolsrv)
        self._agent = agent
        self._outfit = outfit
        self._transcript = transcript
        self._plan = plan
        self._account = account
        self._session = session
        self._services = services
        self._store = services.store
        self._announce = announce
        self.driver: Driver | None = None
        self._loading = asyncio.Lock()
        self._preparation: Preparation | None = None
        self._problem = ""  # why this turn may ask no model; it ends with that
        self._closing = False
        self._connected = False
        self._pressing = False
        self._ends = Ends()

    # Its queue.

    @property
    def busy(self) -> bool:
        """Whether a turn runs, or is being made ready."""
        return self._preparation is not None or (self.driver is not None and not self.driver.idle)

    @property
    def queued(self) -> int:
        """How many prompts wait."""
        return self._queue.length

    @property
    def state(self) -> State:
        """The state of the agent."""
        queued = self._queue.ready and not self._closing
        return state_of(turn=self.busy, queued=queued, paused=self._paused)

    @property
    def _paused(self) -> bool:
        return self._session.paused and not self._pressing

    @property
    def activity(self) -> str:
        """What it is doing, for people; empty for nothing."""
        if self._preparation is not None:
            return self._preparation.trouble or "starting"
        if self.driver is None:
            return ""
        if self.busy and self._session.toolsrv.asks(self._agent):
            return "waiting for approval"
        return self.driver.trouble or self.driver.state.activity

    def enqueue(self, text: str, *, pressing: bool = False) -> Seq:
        """Add a prompt to the queue, and begin its turn if it may run now; a pressing one may also in a pause."""
        seq = self._queue.add(text)
        self._pressing = self._pressing or pressing
        self.let_go()
        return seq

    def inject(self, text: str) -> tuple[bool, Seq]:
        """Give words to the model in the turn that runs; where none runs they are a prompt. Whether one runs."""
        if not self.busy:
            return False, self.enqueue(text)
        entry, seq = self._queue.inject(text)
        words = ev.Inject(text, entry)
        if self._preparation is not None:
            self._preparation.inject(words)
        elif self.driver is not None:
            self.driver.feed(words)
        return True, seq

    def given(self, entries: Sequence[int]) -> Seq:
        """The model has been given injected words; in one step of the loop with their place in the history."""
        return [self._queue.given(entry) for entry in entries][-1]

    def complete(self, key: str, message: str) -> Seq:
        """Add a message to the queue, unless one with this key was added before; a queue that is held stays held."""
        if self._account.complete(key):
            self._queue.add(message)
        # In one step of the loop with the entry, so that the store has both or neither.
        seq = self._account.stored()
        self.advance()
        return seq

    def lease(self) -> Lease | None:
        """The next prompt that nobody has in hand, for a reader; None when there is none."""
        lease = self._queue.lease()
        self._changed()
        return lease

    def _settled(self) -> None:
        """A reader has read a prompt whole, or has given it back."""
        if not self.queued and not self.busy:
            self._ends.fail(RefusedError("the prompt is not queued any more: somebody took it from fifo"))
        self.advance()

    def let_go(self) -> None:
        """Let a queue from the store go on."""
        self._queue.held = False
        self.advance()

    def advance(self) -> None:
        """Begin the next turn if there is one that may run now, and announce the state."""
        if self._queue.ready and not self._paused and not self._closing and not self.busy:
            self._preparation = Preparation(self._queue.take())
            self._preparation.run(self._prepare(self._preparation))
        self._changed()

    def turn_end(self) -> "asyncio.Future[ev.TurnEnded]":
        """How the turn that runs, or else the next one, ends; `file does not exist` when the agent is killed first."""
        return self._ends.next()

    async def _prepare(self, preparation: Preparation) -> None:
        """Make ready what a turn needs, and begin it."""
        fetching = preparation.fetch(self._kit.fetch())
        try:
            driver = await patiently(self.load, preparation.wait_for)
            await asyncio.wait({fetching})
            self._problem = problem(fetching)
        finally:
            fetching.cancel()
            self._preparation = None
        self._begin(driver, preparation)
        self._changed()

    def _begin(self, driver: Driver, preparation: Preparation) -> None:
        """Take a prompt from the queue into the history; the turn that follows runs by itself."""
        try:
            setup = self._outfit().setup(self._kit.specs)
        except RefusedError as error:
            self._problem = str(error)
            setup = ev.Setup("")
        self._queue.remove(preparation.queued.entry)
        self._pressing = False
        driver.feed(*preparation.events(setup))

    def _changed(self) -> None:
        """Announce the state; the tool server is held while it is `running`."""
        state = self.state
        running = state is State.RUNNING
        if running is not self._connected:
            self._connected = running
            toolsrv = self._session.toolsrv
            (toolsrv.hold if running else toolsrv.release)()
        self._announce(state)

    async def load(self) -> Driver:
        """The driver; made when it is first needed, with the history as it is stored."""
        async with self._loading:
            if self.driver is None:
                past = await self._past()
                await self._transcript.resume()
                totals = self._account.counts.totals
                self.driver = Driver(Engine(ev.Setup(""), past, self._plan.text, totals, turn=totals.turns), self)
        return self.driver

    async def _past(self) -> tuple[Message, ...]:
        return history(await self._store.records(self._agent))

    async def recover(self) -> None:
        """Close the turn that an earlier server was in the middle of when it ended."""
        past = await self._past()
        said = await self._transcript.resume_cut(past)
        counts = self._account.counts
        self._transcript.append(cut.close(past, said, counts.totals.turns, counts.cost_last_turn_usd))
        self._store.set_busy(self._agent, busy=False)

    async def last_words(self) -> str:
        """What its model said last."""
        return cut.last_words(await self._past())

    # What its turns need.

    def backend(self) -> Backend:
        """The backend to ask; a `RefusedError` when there is none, or nothing may be asked any more."""
        problem = self._problem or self._account.exhausted()
        if problem:
            raise RefusedError(problem)
        return self._outfit().backend()

    def append(self, records: Sequence[Record]) -> Seq:
        """Write records to the chat and the history, and count."""
        assert self.driver is not None
        chat_offset = None
        for record in records:
            if isinstance(record, Prompted):
                chat_offset = self._transcript.length
            if isinstance(record, Prompted | Ended):
                self._store.set_busy(self._agent, busy=isinstance(record, Prompted))
            if isinstance(record, Failed):
                self._session.tell("error", self._agent, {"error": record.text})
        seq = self._transcript.append(records)
        return self._account.take(self.driver.state, chat_offset=chat_offset) or seq

    async def stored(self, seq: Seq, trouble: Callable[[StoreError], None]) -> None:
        """Return when everything up to this change is durable, however often that fails; `trouble` is told."""
        await self._store.stored(seq, trouble)

    async def call_tool(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        """Run a tool, then look whether the tools have changed by it.

        When this returns or raises, also on cancellation, nothing of the call is alive.
        """
        if call.name == own.AGENT_SPAWN:
            return await self._session.spawn(self._agent, arguments)
        outfit = self._outfit()
        cwd = outfit.row.cwd
        check_unmoved(cwd)
        result = await self._session.toolsrv.call(Call(self._agent, call.name, arguments, cwd, outfit.sandbox))
        if await self._kit.revised():
            self.reconfigure()
        return result

    def write_plan(self, text: str) -> Seq:
        """The model wrote its plan."""
        return self._plan.replace(text)

    def clear_history(self) -> Seq:
        """Forget the stored history."""
        return self._store.clear_records(self._agent)

    def turn_ended(self, ended: ev.TurnEnded) -> None:
        """Tell those who wait for the end of this turn, and those who watch."""
        fields = {"state": "finished", "turn": ended.turn, "reason": ended.reason, "note": ended.note}
        self._session.tell("turn", self._agent, fields)
        self._ends.tell(ended)

    # What is done to it.

    def reconfigure(self) -> None:
        """Settings have changed: from the next request on they count."""
        if self.driver is not None:
            with contextlib.suppress(RefusedError):  # the next turn says what is wrong
                self.driver.feed(ev.Configure(self._outfit().setup(self._kit.specs)))

    async def retool(self, again: str = "") -> None:
        """It is to have other tools: from the next request on it does.

        Args:
            again: the one of them that is to be read from disk again.
        """
        await self._kit.refresh(again)
        self.reconfigure()

    def set_plan(self, text: str) -> None:
        """The plan was written by somebody else than the model."""
        if self.driver is not None:
            self.driver.feed(ev.SetPlan(text))

    async def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the agent has, its own (`engine/own.py`) included; starts the tool server if need be."""
        return await self._kit.fetched()

    async def stop(self, note: str) -> bool:
        """Interrupt the turn that runs; whether there was one. When this returns nothing of it is alive."""
        if not self.busy:
            return False
        over = self.turn_end()
        work = self.driver.tasks if self.driver else ()
        if self._preparation is not None:
            self._preparation.stop(note)
        elif self.driver is not None:
            self.driver.feed(ev.Stop(note))
        config = self._services.config
        if not (await asyncio.wait({over}, timeout=config.stop_s + config.close_s))[0]:
            raise RefusedError(
                f"the turn does not end: {self.activity or 'its work goes on'} (kill the agent to end it)"
            )
        over.exception()  # it was killed meanwhile, if there is one
        if work:
            await asyncio.wait(work, timeout=config.close_s)
        return True

    async def clear(self) -> bool:
        """Forget the history; False when a turn runs."""
        driver = await self.load()
        if self.busy:
            return False
        driver.feed(ev.Clear())
        await self._store.stored(driver.last)
        return True

    async def close(self) -> None:
        """End all work, whatever it is, and let go of the tool server. Nothing begins afterwards."""
        self._closing = True
        if self._preparation is not None:
            await self._preparation.cancel()
            self._preparation = None
        if self.driver is not None:
            await self.driver.close(self._services.config.cancel_s + self._services.config.close_s)
        self._queue.close()
        self._ends.fail(gone())
        if self._connected:
            self._connected = False
            self._session.toolsrv.release()

    async def shut(self, note: str) -> None:
        """End the turn that runs as a stop does, begin none, and then end all work."""
        self._closing = True
        with contextlib.suppress(TimeoutError, NinepError):
            async with asyncio.timeout(self._services.config.close_s):
                await self.stop(note)
        await self.close()
