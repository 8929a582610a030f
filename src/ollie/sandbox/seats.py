"""The reapers of one launcher process, as the server sees them: which of them can take a run.

One is kept idle, with its program's process standing by, so that a run does not wait for two forks; and a reaper whose
run has ended takes another one, which saves the forks themselves.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from ollie.sandbox.requests import (
    CONFINED,
    FREE,
    Begin,
    Ended,
    Failed,
    Message,
    Plan,
    Ready,
    decode,
    encode,
    receive,
    send_plan,
)
from ollie.sandbox.runs import Exit, Run, SandboxError

_IDLE = 2  # of each kind: while one makes the process of its next run, another one is ready
_COMING = 4  # on their way at a time: the launcher makes one after the other


class Seat:
    """A reaper, with the process below it that becomes the next program.

    Args:
        control: our end of its socket.
        changed: called when its run has ended, when it is ready for one, and when it could not be made or has gone.
        confined: whether its runs are.

    Attributes:
        confined: the same.
        gone: whether it has ended, and nothing of its run is left; or is let go.
        error: why it could not be made; empty otherwise.
    """

    def __init__(self, control: socket.socket, changed: "Callable[[Seat], None]", *, confined: bool) -> None:
        self.confined = confined
        self.gone = False
        self.error = ""
        self._control = control
        self._changed = changed
        self._job: socket.socket | None = None
        self._ready = Ready(0, 0, ())
        self._run: Run | None = None
        control.setblocking(False)
        asyncio.get_running_loop().add_reader(control, self._listen)

    @property
    def ready(self) -> bool:
        """Whether it can take a run."""
        return self._job is not None

    @property
    def busy(self) -> bool:
        """Whether a run has it."""
        return self._run is not None

    def begin(
        self, begin: Begin, plan: Plan, streams: list[int], notes: tuple[str, ...], ended: Callable[[Run], None]
    ) -> Run:
        """Begin a run on a seat that is ready; `Run.started` says whether the program runs.

        Raises:
            OSError: the plan cannot be sent, for want of memory or descriptors; the seat is closed.
        """
        job, self._job = self._job, None
        assert job is not None
        run = self._run = Run(self._ready, notes, job, self._tell, ended)
        # The reaper first: without one nothing may run.
        self._tell(begin)
        try:
            send_plan(job, plan, streams)
        except (BrokenPipeError, ConnectionResetError):
            run.unstarted()
        except OSError:
            self.close()
            self._changed(self)
            raise
        return run

    def close(self) -> None:
        """Let the reaper go; it ends what it runs, and itself."""
        if self.gone:
            return
        self.gone = True
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        if self._job is not None:
            self._job.close()
        self._end(Exit(None, None, "lost", 0, ()))

    def _tell(self, message: Message) -> None:
        # A reaper that reads nothing for hundreds of messages is stopped: there is nobody to tell.
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            self._control.send(encode(message), socket.MSG_NOSIGNAL)

    def _listen(self) -> None:
        try:
            packet, descriptors = receive(self._control)
        except BlockingIOError:
            return
        except OSError:  # reset, or no room for a descriptor: it is of no use any more
            packet, descriptors = b"", []
        message = decode(packet) if packet else None
        if isinstance(message, Ended):
            self._end(Exit(*message))
        elif isinstance(message, Ready):
            self._ready = message
            self._job = socket.socket(fileno=descriptors[0])
            self._job.setblocking(False)
        else:
            self.error = message.error if isinstance(message, Failed) else ""
            self.close()
        self._changed(self)

    def _end(self, how: Exit) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.ended(how)


class Seats:
    """The reapers that one launcher process makes.

    Args:
        control: the socket to the launcher.
        gone: called when the launcher has ended.
    """

    def __init__(self, control: socket.socket, gone: Callable[[], None]) -> None:
        self._control = control
        control.setblocking(False)
        asyncio.get_running_loop().add_reader(control, gone)
        self._closed = False
        self._seats: set[Seat] = set()
        self._kinds = {confined: _Kind() for confined in (True, False)}

    def foresee(self, *, confined: bool) -> None:
        """Ask for as many seats as are waited for, and for one to be idle."""
        kind = self._kinds[confined]
        wanted = len(kind.waiting) + (not kind.idle)
        while len(kind.coming) < min(wanted, _COMING) and not self._closed:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            seat = Seat(ours, self._changed, confined=confined)
            self._seats.add(seat)
            kind.coming.add(seat)
            # When the launcher has gone, so has the other side of the seat.
            with theirs, suppress(BrokenPipeError, ConnectionResetError):
                asked = CONFINED if confined else FREE
                socket.send_fds(self._control, [asked], [theirs.fileno()], socket.MSG_NOSIGNAL)

    async def take(self, *, confined: bool) -> Seat | None:
        """A seat that is ready; None when what was asked for has gone, it may be with the launcher.

        Raises:
            SandboxError: `no process can be made: …`.
        """
        if self._closed:
            return None
        kind = self._kinds[confined]
        if kind.idle:
            seat = kind.idle.pop()
            self.foresee(confined=confined)
            return seat
        waiter: asyncio.Future[Seat | None] = asyncio.get_running_loop().create_future()
        kind.waiting.append(waiter)
        self.foresee(confined=confined)
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and not waiter.exception() and (given := waiter.result()):
                self._changed(given)
            raise

    def close(self) -> None:
        """The launcher has gone, or shall: nobody gets a seat any more."""
        self._closed = True
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        for kind in self._kinds.values():
            while waiter := kind.next_waiter():
                waiter.set_result(None)
        for seat in tuple(self._seats):
            if not seat.busy:
                self._drop(seat)

    def _changed(self, seat: Seat) -> None:
        """Give a seat that is ready to whoever waits for one, or keep it idle; drop one that has gone."""
        kind = self._kinds[seat.confined]
        expected = seat in kind.coming
        kind.coming.discard(seat)
        if seat.gone:
            self._drop(seat)
            # Nobody comes in its place; who waits may ask again.
            if expected and (waiter := kind.next_waiter()):
                if seat.error:
                    waiter.set_exception(SandboxError(seat.error))
                else:
                    waiter.set_result(None)
        elif not seat.ready and not self._closed:
            kind.coming.add(seat)
        elif seat.ready and (waiter := kind.next_waiter()):
            waiter.set_result(seat)
        elif len(kind.idle) < _IDLE and not self._closed:
            kind.idle.append(seat)
        else:
            self._drop(seat)
        if kind.waiting:
            self.foresee(confined=seat.confined)

    def _drop(self, seat: Seat) -> None:
        seat.close()
        self._seats.discard(seat)
        kind = self._kinds[seat.confined]
        if seat in kind.idle:
            kind.idle.remove(seat)


class _Kind:
    """The seats of confined runs, or of others: who waits for one, what will be ready soon, and what is."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[Seat | None]] = deque()
        self.coming: set[Seat] = set()
        self.idle: list[Seat] = []

    def next_waiter(self) -> "asyncio.Future[Seat | None] | None":
        """The first that still waits, not any longer."""
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():  # else it was cancelled
                return waiter
        return None
