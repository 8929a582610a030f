"""The broker of runs without the sandbox: keeps what is asked, tells observers, and lets a call wait for its answer.

The call that asks waits here. When it is cancelled its request is withdrawn, so an approval never starts something
that nobody waits for. What an answer means is decided in `approval`; this does the waiting.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import time
from typing import TYPE_CHECKING

from ninep.bell import Bell
from ninep.files import Watcher
from ninep.tree import Peer
from ollie.toolsrv.approval import Answer, ApprovalError, Event, Request, State, settle
from ollie.toolsrv.json_line import json_line
from ollie.toolsrv.prepare import OWN_VARIABLES, Job, RefusedError
from ollie.toolsrv.sight import sees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ollie.toolsrv.fingerprint import Fingerprint

# How many settled requests are remembered, so that a late answer is told what became of its request.
_REMEMBERED = 256
_ID_BYTES = 4


@dataclass(eq=False)
class _Entry:
    """A request with its state; `settled` is set when that is final."""

    number: int
    request: Request
    state: State = State.PENDING
    why: str = ""
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Broker:
    """The requests of one server.

    Args:
        timeout_s: how long a request waits for its answer.
        most: how many requests of one agent may wait at a time.
        changed: told each request that is asked or settled, with its state.
    """

    def __init__(self, timeout_s: float, most: int, changed: Callable[[Request, State], None]) -> None:
        self._timeout_s = timeout_s
        self._most = most
        self._waiting: Counter[str] = Counter()
        self._changed = changed
        self._entries: dict[str, _Entry] = {}
        self._asked = 0
        self._bell = Bell()

    async def clear(self, job: Job) -> Job:
        """The job as it was approved, waited for. Cancelled, the request is withdrawn.

        Raises:
            RefusedError: It is refused, nobody answers in time, or too many of its agent wait already.
        """
        with self._counted(job.task.agent):
            found = await _fingerprint(job)
            entry = self._ask(job, found)
            try:
                async with asyncio.timeout(self._timeout_s):
                    await entry.settled.wait()
            except TimeoutError:
                # An answer may have come in the step in which the time was up.
                if entry.state is State.PENDING:
                    self._settle(entry, Event.EXPIRE)
            finally:
                if entry.state is State.PENDING:
                    self._settle(entry, Event.WITHDRAW)
        if entry.state is State.WITHDRAWN:
            raise RefusedError("not run: its agent is gone")
        if entry.state is State.EXPIRED:
            raise RefusedError(
                f"not run: nobody said within {self._timeout_s:g} s (bypass_timeout_s) that it may run without the "
                "sandbox; a time limit of the call counts from that answer on"
            )
        if entry.state is State.REJECTED:
            raise RefusedError(f"not run: refused without the sandbox{': ' if entry.why else ''}{entry.why}")
        return replace(job, approved=found)

    @contextmanager
    def _counted(self, agent: str) -> "Iterator[None]":
        """One more of an agent that waits."""
        if self._waiting[agent] >= self._most:
            raise RefusedError(
                f"not run: {self._most} calls of this agent wait for approval, and no more may (max_requests); have "
                "one answered"
            )
        self._waiting[agent] += 1
        try:
            yield
        finally:
            self._waiting[agent] -= 1
            if not self._waiting[agent]:
                del self._waiting[agent]
                self._bell.ring()

    async def end(self, agent: str) -> None:
        """An agent is gone, and with it what it asks for: it returns when none of its calls waits here any more.

        One may be about to ask, or to start with an approval that it has.
        """
        while self._waiting[agent]:
            for entry in self._pending():
                if entry.request.agent == agent:
                    self._settle(entry, Event.WITHDRAW)
            await self._bell.wait()

    def open(self, peer: Peer) -> list[Request]:
        """The requests that wait for an answer and that the peer sees, oldest first."""
        return [entry.request for entry in self._pending() if sees(peer, entry.request.agent)]

    def resolve(self, given: Answer) -> None:
        """Settle a request.

        Raises:
            ApprovalError: `no such request: …`, `request … was approved already`, and the like.
        """
        entry = self._entries.get(given.id)
        if entry is None:
            raise ApprovalError(f"no such request: {given.id}")
        if given.hash and given.hash != entry.request.hash:
            raise ApprovalError(f"request {given.id} has another hash")
        self._settle(entry, Event.APPROVE if given.approved else Event.REJECT, given.why)

    def watch(self, peer: Peer) -> "PendingWatcher":
        """Every request still open, then each new one."""
        return PendingWatcher(self, peer)

    async def beyond(self, number: int, peer: Peer) -> tuple[int, Request]:
        """The oldest open request after that number, waited for; with its own number."""
        while True:
            for entry in self._pending():
                if entry.number > number and sees(peer, entry.request.agent):
                    return entry.number, entry.request
            await self._bell.wait()

    def _pending(self) -> Iterable[_Entry]:
        return [entry for entry in self._entries.values() if entry.state is State.PENDING]

    def _ask(self, job: Job, found: "Fingerprint") -> _Entry:
        now = time()
        request = Request(
            id=self._new_id(),
            agent=job.task.agent,
            session=job.task.session,
            tool=job.task.tool,
            command=job.task.command,
            argv=job.argv,
            stdin=job.stdin.decode(errors="replace"),
            cwd=job.cwd,
            environment=job.environment,
            differs=_differing(job),
            files=tuple(found.files),
            hash=found.hash,
            asked_at=round(now, 3),
            expires_at=round(now + self._timeout_s, 3),
        )
        self._asked += 1
        entry = self._entries[request.id] = _Entry(self._asked, request)
        self._changed(request, entry.state)
        self._bell.ring()
        return entry

    def _settle(self, entry: _Entry, event: Event, why: str = "") -> None:
        entry.state = settle(entry.request, entry.state, event)
        entry.why = why
        entry.settled.set()
        self._changed(entry.request, entry.state)
        settled = [known for known in self._entries.values() if known.state is not State.PENDING]
        for known in settled[:-_REMEMBERED]:
            del self._entries[known.request.id]

    def _new_id(self) -> str:
        while True:
            new = os.urandom(_ID_BYTES).hex()
            if new not in self._entries:
                return new


class PendingWatcher(Watcher):
    """One fid's view of the open requests."""

    def __init__(self, broker: Broker, peer: Peer) -> None:
        self._broker, self._peer, self._at = broker, peer, 0

    async def next(self) -> bytes:
        """The next one, a JSON object and a newline."""
        self._at, request = await self._broker.beyond(self._at, self._peer)
        return json_line(request.public())


async def check(job: Job) -> None:
    """See that a job is what was approved, right before it runs; one that needed no approval is.

    Raises:
        RefusedError: `not run: … has changed since it was asked for; …`.
    """
    if job.approved is not None and (path := job.approved.changed(await _fingerprint(job))):
        raise RefusedError(f"not run: {path} has changed since it was asked for; ask again")


async def _fingerprint(job: Job) -> "Fingerprint":
    from ollie.toolsrv.fingerprint import fingerprint  # noqa: PLC0415  3 MB that a server needs for a bypass only

    return await asyncio.to_thread(fingerprint, job)


def _differing(job: Job) -> dict[str, str]:
    """The variables of a job that have another value than the server's own, and are not those that every run gets."""
    return {
        name: value
        for name, value in job.environment.items()
        if name not in OWN_VARIABLES and os.environ.get(name) != value
    }
