"""The reapers of one launcher process, as the server sees them: which of them can take a run.

One is asked for beforehand, with its program's process standing by, so that a run does not wait for two forks; and a
reaper whose run has ended takes another one, which saves the forks themselves. At most two are kept idle. A reaper with
the process below it is a seat:

======  ==================================================  ==========================================
state   what there is                                       what leads out of it
======  ==================================================  ==========================================
coming  a reaper, or a request for one; no process below    `Ready`: idle
idle    a process stands by, and nobody has the seat        `take`, or who waits for one: given
given   the same, and somebody is about to begin            `begin`: busy; not wanted any more: idle
busy    a run                                               `Exit`, nothing of it is alive: coming
gone    nothing that is of use                              nothing
======  ==================================================  ==========================================

Every state but the last also leads to gone: the reaper has ended, or could not be made, or is let go. A run that is
lost with it is over by then: the launcher keeps the reaper's socket open until nothing of the run is left.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial

from ollie.protocol.words import reason
from ollie.sandbox.offers import Offers
from ollie.sandbox.requests import (
    CONFINED,
    FREE,
    Begin,
    Exit,
    Failed,
    Message,
    Plan,
    Ready,
    decode,
    encode,
    receive,
    send_plan,
)
from ollie.sandbox.runs import Run, SandboxError

_IDLE = 2  # of each kind: while one makes the process of its next run, another one is ready
_COMING = 4  # on their way at a time: the launcher makes one after the other


class State(Enum):
    """The state of a seat, see above."""

    COMING = "coming"
    IDLE = "idle"
    GIVEN = "given"
    BUSY = "busy"
    GONE = "gone"


class Seat:
    """A reaper, with the process below it that becomes the next program.

    Args:
        control: our end of its socket.
        changed: called with the state before when what the reaper says, or its end, has led to another one.
        offers: the rulesets that its runs may use, and add to.
        confined: whether its runs are.

    Attributes:
        confined: the same.
        state: whoever gives the seat away, or takes it back, sets it.
        error: why it could not be made; empty otherwise.
    """

    def __init__(
        self, control: socket.socket, changed: "Callable[[Seat, State], None]", offers: Offers, *, confined: bool
    ) -> None:
        self.confined = confined
        self.state = State.COMING
        self.error = ""
        self._control = control
        self._changed = changed
        self._offers = offers
        self._standing: tuple[Ready, socket.socket] | None = None  # what stands by
        self._run: Run | None = None
        control.setblocking(False)
        asyncio.get_running_loop().add_reader(control, self._listen)

    def begin(
        self,
        begin: Begin,
        plan: Plan,
        streams: list[int],
        notes: tuple[str, ...],
        ended: Callable[[Run], None],
    ) -> Run | None:
        """Begin a run on a seat that was given; `Run.started` says whether the program runs. None when it has gone.

        Raises:
            OSError: the plan cannot be sent, for want of memory or descriptors; the seat has gone.
        """
        if self._standing is None:
            return None
        ready, job = self._standing
        self._standing = None
        self.state = State.BUSY
        ready = ready._replace(notes=notes + ready.notes)
        run = self._run = Run(ready, job, self._tell, partial(self._offers.keep, plan), ended)
        try:
            # The reaper first: without one nothing may run.
            self._control.send(encode(begin), socket.MSG_NOSIGNAL)
            send_plan(job, *self._offers.add_to(plan, streams))
        except (BrokenPipeError, ConnectionResetError):
            run.unstarted()
        except OSError:
            self._close()
            raise
        return run

    def close(self) -> None:
        """Let the reaper go; it ends what it runs, and itself."""
        if self.state is not State.GONE:
            self._close()

    def _close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        if self._standing is not None:
            self._standing[1].close()
            self._standing = None
        self._end(Exit(None, None, "lost", 0, ()))
        self._become(State.GONE)

    def _tell(self, message: Message) -> None:
        # A reaper that reads nothing for hundreds of messages is stopped: there is nobody to tell.
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            self._control.send(encode(message), socket.MSG_NOSIGNAL)

    def _listen(self) -> None:
        try:
            packet, descriptors = receive(self._control)
        except BlockingIOError:
            return
        except ConnectionResetError:
            packet, descriptors = b"", []
        except OSError as error:  # no room for a descriptor: it is of no use any more
            self.error = f"no process can be made: {reason(error)}"
            packet, descriptors = b"", []
        message = decode(packet) if packet else None
        if isinstance(message, Exit):
            self._end(message)
            self._become(State.COMING)
        elif isinstance(message, Ready):
            job = socket.socket(fileno=descriptors[0])
            job.setblocking(False)
            self._standing = message, job
            self._become(State.IDLE)
        else:
            if isinstance(message, Failed):
                self.error = message.error
            self._close()

    def _end(self, how: Exit) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.ended(how)

    def _become(self, state: State) -> None:
        before, self.state = self.state, state
        self._changed(self, before)


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
        self._offers = Offers()
        self._seats: set[Seat] = set()
        self._waiting: dict[bool, deque[asyncio.Future[Seat | None]]] = {True: deque(), False: deque()}

    def foresee(self, *, confined: bool) -> None:
        """Ask for as many seats as are waited for, and for one to be idle.

        When none can be asked for, and none is on its way, nobody waits any longer.
        """
        wanted = len(self._waiting[confined]) + (not self._in(State.IDLE, confined=confined))
        coming = len(self._in(State.COMING, confined=confined))
        while coming < min(wanted, _COMING) and not self._closed:
            try:
                self._ask(confined=confined)
            except OSError as error:
                while not coming and (waiter := self._next_waiter(confined=confined)):
                    waiter.set_exception(SandboxError(f"no process can be made: {reason(error)}"))
                return
            coming += 1

    async def take(self, *, confined: bool) -> Seat | None:
        """A seat that is ready; None when what was asked for has gone, it may be with the launcher.

        Raises:
            SandboxError: `no process can be made: …`.
        """
        if self._closed:
            return None
        if idle := self._in(State.IDLE, confined=confined):
            seat = idle[0]
            seat.state = State.GIVEN
            self.foresee(confined=confined)
            return seat
        waiter: asyncio.Future[Seat | None] = asyncio.get_running_loop().create_future()
        self._waiting[confined].append(waiter)
        self.foresee(confined=confined)
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and not waiter.exception() and (given := waiter.result()):
                self._give(given)
            raise

    def close(self) -> None:
        """The launcher has gone, or shall: nobody gets a seat any more."""
        self._closed = True
        self._offers.close()
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        for confined in self._waiting:
            while waiter := self._next_waiter(confined=confined):
                waiter.set_result(None)
        for seat in tuple(self._seats):
            if seat.state is not State.BUSY:
                seat.close()

    def _ask(self, *, confined: bool) -> None:
        """Ask the launcher for a seat. Raises OSError when this process has no room for it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                asked = CONFINED if confined else FREE
                socket.send_fds(self._control, [asked], [theirs.fileno()], socket.MSG_NOSIGNAL)
            except (BrokenPipeError, ConnectionResetError):
                pass  # when the launcher has gone, so has the other side of the seat
            except OSError:
                ours.close()
                raise
        self._seats.add(Seat(ours, self._changed, self._offers, confined=confined))

    def _changed(self, seat: Seat, before: State) -> None:
        """Go on with a seat in another state, or without it."""
        if seat.state is State.IDLE:
            self._give(seat)
        elif seat.state is State.GONE:
            self._seats.discard(seat)
            # Nobody comes in its place; who waits may ask again.
            if before is State.COMING and (waiter := self._next_waiter(confined=seat.confined)):
                if seat.error:
                    waiter.set_exception(SandboxError(seat.error))
                else:
                    waiter.set_result(None)
        elif self._closed:
            seat.close()
        if self._waiting[seat.confined]:
            self.foresee(confined=seat.confined)

    def _give(self, seat: Seat) -> None:
        """Give a seat with a process to whoever waits for one, or keep it idle; let it go when there are enough."""
        if seat.state is State.GONE:
            return
        seat.state = State.IDLE
        if waiter := self._next_waiter(confined=seat.confined):
            seat.state = State.GIVEN
            waiter.set_result(seat)
        elif self._closed or len(self._in(State.IDLE, confined=seat.confined)) > _IDLE:
            seat.close()

    def _in(self, state: State, *, confined: bool) -> list[Seat]:
        return [seat for seat in self._seats if seat.state is state and seat.confined is confined]

    def _next_waiter(self, *, confined: bool) -> "asyncio.Future[Seat | None] | None":
        """The first that still waits, not any longer."""
        waiting = self._waiting[confined]
        while waiting:
            waiter = waiting.popleft()
            if not waiter.done():  # else it was cancelled
                return waiter
        return None
