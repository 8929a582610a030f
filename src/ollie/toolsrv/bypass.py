"""The broker of runs without the sandbox: keeps what is asked, tells observers, and lets a call wait for its answer.

The call that asks waits here. When it is cancelled its request is withdrawn, so an approval never starts something
that nobody waits for. What an answer means is decided in `approval`; this does the waiting.
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import time

from ninep.bell import Bell
from ninep.files import Watcher
from ninep.tree import Peer
from ollie.toolsrv.approval import Answer, ApprovalError, Event, Request, State, settle
from ollie.toolsrv.json_line import json_line
from ollie.toolsrv.prepare import Job, RefusedError
from ollie.toolsrv.sight import sees

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
        changed: told each request that is asked or settled, with its state.
    """

    def __init__(self, timeout_s: float, changed: Callable[[Request, State], None]) -> None:
        self._timeout_s = timeout_s
        self._changed = changed
        self._entries: dict[str, _Entry] = {}
        self._asked = 0
        self._bell = Bell()

    async def clear(self, job: Job) -> None:
        """Wait until the job is approved. Cancelled, the request is withdrawn.

        Raises:
            RefusedError: It is refused, nobody answers in time, or it is not what was approved any more.
        """
        entry = self._ask(job)
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
            raise RefusedError(f"not run: nobody approved it without the sandbox in {self._timeout_s:g} s")
        if entry.state is State.REJECTED:
            raise RefusedError(f"not run: refused without the sandbox{': ' if entry.why else ''}{entry.why}")
        if fingerprint(job) != entry.request.hash:
            raise RefusedError("not run: a file or directory of it has changed since it was asked for; ask again")

    def withdraw(self, agent: str) -> None:
        """An agent is gone, and with it what it asks for."""
        for entry in self._pending():
            if entry.request.agent == agent:
                self._settle(entry, Event.WITHDRAW)

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

    def _ask(self, job: Job) -> _Entry:
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
            hash=fingerprint(job),
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


def fingerprint(job: Job) -> str:
    """A hash of what a job will run: program, arguments, input, environment, its directory, and its program's files."""
    import hashlib  # noqa: PLC0415  3 MB that a server needs only when somebody asks for a bypass

    files = [_identity(path) for path in (job.cwd, *(word for word in job.argv if word.startswith("/")))]
    what = [job.argv, job.function, job.stdin.hex(), job.cwd, sorted(job.environment.items()), files]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def _identity(path: str) -> tuple[int, ...]:
    """What changes when a path leads to something else, or a file's content is another; empty where there is none."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return ()
    if Path(path).is_dir():
        return found.st_dev, found.st_ino
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode
