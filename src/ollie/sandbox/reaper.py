"""The process above a run: its program's process is made here, all of it is ended here, and how it went is said here.

Every process of the run descends from the reaper, and whatever loses its parent becomes the reaper's child, so when it
has no child left, nothing of the run is alive. It ends the run

* on a message `End` from the server,
* when the server or the launcher is gone,
* when the first process has ended and others are left (not in the background),
* when the run exceeds its memory or number of processes.

First everything gets SIGTERM, after a grace SIGKILL. Inside a Landlock domain that scopes signals both reach everything
at once (`scope.py`); without one the descendants are signalled one by one until none is left.

A reaper takes one run after another: when nothing of a run is alive, nothing of it is left here either, and its domain
holds the reaper alone. One that could not end a run, or was told to end, takes no other.

That nothing is alive is what waitpid(2) says, with ECHILD, and no look at /proc. It cannot miss a process: whoever
forks lives, so it is a child here itself or has an ancestor that is, and that one is waited for. When an ancestor ends,
the kernel gives its children to this subreaper in the moment in which it can be waited for, not later, as children
whose end is told by SIGCHLD, whatever they were made with. What a tool makes with CLONE_PARENT is a child here at once.
"""

import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import NoReturn

from ollie.protocol.words import reason
from ollie.sandbox import child, enforce, scope
from ollie.sandbox.processes import usage
from ollie.sandbox.requests import (
    PACKET_BYTES,
    Begin,
    Deliver,
    End,
    Exit,
    Failed,
    Ready,
    Reason,
    Start,
    decode,
    encode,
)
from ollie.sandbox.syscalls import (
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    become_subreaper,
    pending_signals,
    prctl,
    signal_descriptor,
)

# What the reaper waits for; the launcher blocks them before it forks, so that none is lost.
SIGNALS = {signal.SIGCHLD, signal.SIGTERM}

SETTLE_S = 0.05  # the tail of a pipeline ends a moment after its head, and is not left running
WATCH_S = 0.25  # between two looks at memory and processes, only when there is a limit
FORCE_AGAIN_S = 0.1
GIVE_UP_S = 5.0  # without a domain a process of another user can refuse to end


def serve(control: socket.socket, start: Start, *, launcher_pid: int, confined: bool) -> NoReturn:
    """Be the reaper of one run after another, in a process made for it.

    All that does not depend on a run is done before there is one: the domain, and the fork of the program's process.

    Args:
        control: the socket to the server; its end ends this process, and before that what it runs.
        start: what the launcher was started with.
        launcher_pid: the parent; when it is another one already, this process has nobody to serve.
        confined: whether the runs will be; without, this process stays outside of any domain.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != launcher_pid:
        os._exit(1)
    become_subreaper()
    scoped: scope.Scope | None = None
    notes: tuple[str, ...] = ()
    if confined:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        enforce.shrink_bounding_set()
        if start.outer:
            try:
                scoped = scope.enter(start.server_pid, start.outer)
            except (scope.ScopeError, OSError) as error:
                notes = (f"the processes of this run are ended one by one: {error}",)
    signals = signal_descriptor(set(SIGNALS))
    # When the server is gone there is nobody to tell anything.
    with suppress(BrokenPipeError, ConnectionResetError):
        reusable = True
        while reusable:
            pid = _announce(control, notes)
            if not pid:
                break
            begin = _begun(control.fileno(), signals)
            if begin is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                break
            run = Run(begin, control.fileno(), signals, scoped, pid)
            control.send(encode(run.until_ended()), socket.MSG_NOSIGNAL)
            reusable = run.reusable
    os._exit(0)


def _announce(control: socket.socket, notes: tuple[str, ...]) -> int:
    """Have a process stand by for the next program, and tell the server; the process's id, 0 when there can be none."""
    own_pid = os.getpid()
    job, its_job = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with job, its_job:
        try:
            pid = os.fork()
        except OSError as error:
            control.send(encode(Failed(f"no process can be made: {reason(error)}")), socket.MSG_NOSIGNAL)
            return 0
        if pid == 0:
            child.stand_by(its_job, own_pid)
        socket.send_fds(control, [encode(Ready(own_pid, pid, notes))], [job.fileno()], socket.MSG_NOSIGNAL)
    return pid


def _begun(control: int, signals: int) -> Begin | None:
    """What the next run is; None when there will be none."""
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if signals in ready and signal.SIGTERM in pending_signals(signals):
            return None
        if control in ready:
            packet = os.read(control, PACKET_BYTES)
            message = decode(packet) if packet else None
            if message is None or isinstance(message, Begin):
                return message  # anything else is for the run before, and came late


class Run:
    """One run from its start to its end.

    Attributes:
        reusable: whether this process may take another run afterwards.
    """

    def __init__(self, begin: Begin, control: int, signals: int, scoped: scope.Scope | None, pid: int) -> None:
        self._begin = begin
        self._control = control
        self._signals = signals
        self._scope = scoped
        self._pid = pid
        self.reusable = True
        self._result: int | None = None  # wait status of the first process
        self._reason: Reason | None = None  # why the run is being ended, None while it is not
        self._left_running = 0
        self._force_at: float | None = None
        self._give_up_at: float | None = None
        self._settled_at: float | None = None
        self._notes: tuple[str, ...] = ()
        self._watch_at = time.monotonic() + WATCH_S if begin.memory or begin.processes else None

    def until_ended(self) -> Exit:
        """Wait for what happens until nothing of the run is alive."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        while self._reap():
            timeout_s = self._timeout_s()
            ready = {descriptor for descriptor, _ in poll.poll(None if timeout_s is None else 1000 * timeout_s)}
            if self._signals in ready and signal.SIGTERM in pending_signals(self._signals):
                self._leave()
            if self._control in ready and not self._listen():
                poll.unregister(self._control)
                self._leave()
            if not self._on_time(time.monotonic()):
                self.reusable = False
                break
        return self._ended()

    def _reap(self) -> bool:
        """Take the status of what has ended; whether anything of the run is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                break
            if pid == self._pid:
                self._result = status
        if self._result is not None and not self._reason and not self._begin.background:
            self._settled_at = self._settled_at or time.monotonic() + SETTLE_S
        return True

    def _listen(self) -> bool:
        """Do what one message asks; False when the server is gone."""
        try:
            packet = os.read(self._control, PACKET_BYTES)
        except ConnectionResetError:
            return False
        if not packet:
            return False
        message = decode(packet)
        if isinstance(message, End):
            self._end(message.reason, message.grace_s)
        elif isinstance(message, Deliver) and self._result is None:
            with suppress(OSError):
                os.killpg(self._pid, message.number)
        return True

    def _on_time(self, now: float) -> bool:
        """Do what is due; False to give up on what refuses to end."""
        if self._settled_at is not None and now >= self._settled_at and self._reason is None:
            self._left_running = usage(os.getpid()).processes
            self._end("exited", self._begin.grace_s)
        if self._watch_at is not None and now >= self._watch_at and self._reason is None:
            self._watch_at = now + WATCH_S
            self._check_limits()
        if self._force_at is not None and now >= self._force_at:
            self._force_at = now + FORCE_AGAIN_S
            self._give_up_at = self._give_up_at or now + GIVE_UP_S
            self._signal(signal.SIGKILL)
        return self._scope is not None or self._give_up_at is None or now < self._give_up_at

    def _check_limits(self) -> None:
        used = usage(os.getpid())
        if 0 < self._begin.processes < used.processes:
            self._end("processes", 0)
        elif 0 < self._begin.memory < used.rss_bytes:
            self._end("memory", 0)

    def _leave(self) -> None:
        """End the run since the launcher or the server is gone."""
        self.reusable = False
        self._end("lost", self._begin.grace_s)

    def _end(self, reason: Reason, grace_s: float) -> None:
        """Begin to end the run, or end it sooner; the first reason stays."""
        if self._reason is None:
            self._reason = reason
            if grace_s > 0:
                self._signal(signal.SIGTERM)
                self._signal(signal.SIGCONT)  # what is stopped could not act on it
        due = time.monotonic() + grace_s
        self._force_at = due if self._force_at is None else min(self._force_at, due)

    def _signal(self, number: int) -> None:
        if self._scope is not None:
            try:
                self._scope.kill(number)
            except scope.ScopeError as error:
                self._notes = (f"the processes of this run were ended one by one: {error}",)
                self._scope = None
                self.reusable = False
            else:
                return
        scope.sweep(number)

    def _timeout_s(self) -> float | None:
        running = self._reason is None
        times = (self._settled_at if running else None, self._watch_at if running else None, self._force_at)
        due = min((moment for moment in times if moment is not None), default=None)
        return None if due is None else max(0.0, due - time.monotonic())

    def _ended(self) -> Exit:
        result = self._result
        status = os.WEXITSTATUS(result) if result is not None and os.WIFEXITED(result) else None
        number = os.WTERMSIG(result) if result is not None and os.WIFSIGNALED(result) else None
        left = usage(os.getpid()).processes if self._give_up_at else 0
        notes = (*self._notes, f"{left} processes could not be ended") if left else self._notes
        return Exit(status, number, self._reason or "exited", self._left_running, notes)
