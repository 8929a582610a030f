"""What a tool server is to its tree: its tools, its runs, and who may ask for them."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ninep.errors import PERMISSION_DENIED, NinepError
from ninep.tree import Peer
from ollie.protocol import payload
from ollie.protocol.discovery import Broken
from ollie.protocol.metadata import ToolInfo
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
        return replace(call, agent=own(peer, call.agent) if call.agent else peer.aname)

    def visible(self, peer: Peer) -> list[Run]:
        """The runs that a peer sees."""
        return [run for run in self.runs if sees(peer, run)]

    def now(self, peer: Peer) -> list[Event]:
        """What a peer sees of what runs, has ended, and waits for approval, as events; the last one says `now`."""
        return [
            *(of_run(run) for run in self.visible(peer) if run.state is not State.EXITED),
            *({"event": "done", "pid": record["pid"], "agent": record["agent"]} for record in self.done.waiting(peer)),
            *(of_request(request, RequestState.PENDING) for request in self.broker.open(peer)),
            {"event": "now"},
        ]

    def loaded_text(self, agent: str) -> str:
        """The tools of an agent: a JSON array and a newline."""
        return _json([tool.public() for tool in self.registry.loaded(agent)])

    def offered_text(self) -> bytes:
        """Every tool of this host, a broken one with its error: a JSON array and a newline."""
        return _json([_offer(tool) for tool in self.registry.offered()]).encode()

    def info_text(self) -> bytes:
        """The host: `key=value` lines."""
        from importlib import metadata  # noqa: PLC0415  3 MB that a server needs only when it is asked

        host = os.uname()
        facts = {
            "platform": host.sysname.lower(),
            "arch": host.machine,
            "version": metadata.version("ollie"),
            "landlock_abi": self.probe.abi,
            "seccomp": self.probe.seccomp,
            "userns": self.probe.userns,
            "yolo": self.settings.yolo,
        }
        return payload.format({key: _value(value) for key, value in facts.items()})


def own(peer: Peer, agent: str) -> str:
    """The agent that a peer asks about.

    Raises:
        NinepError: `permission denied` when it attached for another one.
    """
    if peer.aname not in {"", agent}:
        raise NinepError(PERMISSION_DENIED)
    return agent


def sees(peer: Peer, run: Run) -> bool:
    """Who attached for an agent sees the runs of that agent; who named none sees all."""
    return peer.aname in {"", run.task.agent}


def table(runs: Iterable[Run]) -> str:
    """`pid<tab>state<tab>tool`, a line for each run."""
    return "".join(f"{run.number}\t{run.state}\t{run.task.tool}\n" for run in runs)


def _offer(tool: ToolInfo | Broken) -> dict[str, object]:
    return {"name": tool.name, "error": tool.error} if isinstance(tool, Broken) else tool.public()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
