"""What a tool server is to its tree: its tools, its runs, and who may ask for them."""

import asyncio
from dataclasses import dataclass, replace

from ninep.errors import NinepError
from ninep.tree import Peer
from ollie.protocol import payload
from ollie.protocol.payload import Call, PayloadError
from ollie.sandbox.probe import Probe
from ollie.toolsrv.approval import State as RequestState
from ollie.toolsrv.auth import Auth
from ollie.toolsrv.bypass import Broker
from ollie.toolsrv.done import Done
from ollie.toolsrv.events import Event, Events, of_request, of_run
from ollie.toolsrv.execute import Executor
from ollie.toolsrv.prepare import Settings
from ollie.toolsrv.registry import Registry
from ollie.toolsrv.runs import Run, Runs, State
from ollie.toolsrv.sight import permitted, sees


@dataclass(frozen=True)
class Toolsrv:
    """The object at the top of the tree.

    Attributes:
        auth: None where nobody has to authenticate.
        probe: What the kernel gives to a sandbox.
    """

    settings: Settings
    registry: Registry
    runs: Runs
    executor: Executor
    broker: Broker
    events: Events
    done: Done
    auth: Auth | None
    probe: Probe

    def call(self, peer: Peer, data: bytes) -> Call:
        """The call in a payload; the agent is the one it names, else the one that attached.

        Raises:
            NinepError: The payload cannot be read, names no tool or an agent other than the one that attached, or has a
                wrong token.
        """
        try:
            call = payload.call(payload.parse(data))
        except PayloadError as error:
            raise NinepError(str(error)) from None
        if self.auth is not None:
            self.auth.check_token(call.token)
        if not call.tool:
            raise NinepError("payload has no tool")
        return replace(call, agent=permitted(peer, call.agent) if call.agent else peer.aname)

    async def end(self, agent: str) -> None:
        """An agent is gone: end what it runs, and forget what was kept for it.

        Whoever asks, it goes on to its end. When this returns nothing of the agent is alive.
        """
        await asyncio.shield(self.runs.work(self._end(agent)))

    async def _end(self, agent: str) -> None:
        self.registry.forget(agent)
        await self.broker.end(agent)
        while runs := [run for run in self.runs if run.task.agent == agent]:
            await asyncio.gather(*(run.stop(self.settings.grace_s) for run in runs))
            for run in runs:
                run.dismiss()
        for pid in self.done.drop(agent):
            self.events.emit(agent, {"event": "done", "state": "dropped", "pid": pid, "agent": agent})

    def visible(self, peer: Peer) -> list[Run]:
        """The runs that a peer sees."""
        return [run for run in self.runs if sees(peer, run.task.agent)]

    def now(self, peer: Peer) -> list[Event]:
        """What a peer sees of what runs, has ended, and waits for approval, as events; the last one says `now`."""
        return [
            *(of_run(run) for run in self.visible(peer) if run.state is not State.EXITED),
            *({"event": "done", "pid": record["pid"], "agent": record["agent"]} for record in self.done.waiting(peer)),
            *(of_request(request, RequestState.PENDING) for request in self.broker.open(peer)),
            {"event": "now"},
        ]
