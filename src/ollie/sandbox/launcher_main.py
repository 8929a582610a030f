"""The launcher process: it forks a reaper for every run that the server asks for.

It is small, has one thread, and imports nothing once it serves, so a fork is cheap and safe; the server, with its
threads and its event loop, never forks. One reaper stands by, with the process of its program, so that a run does not
wait for two forks. The launcher ends when the server does, after its reapers. When a reaper is killed, what it leaves
behind becomes the launcher's, which ends it.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from ollie.protocol.words import reason
from ollie.sandbox import reaper
from ollie.sandbox.processes import children
from ollie.sandbox.requests import Failed, Start, is_confined, receive_packet, split, started_with
from ollie.sandbox.syscalls import become_subreaper, close_all_but, pending_signals, signal_descriptor

_RESERVED = 4  # 0 to 3 are what a program gets; nothing else may have these numbers


class Ready(NamedTuple):
    """A reaper that stands by: where it and its program's process get their plan."""

    pid: int
    job: socket.socket
    childs_job: socket.socket

    def close(self) -> None:
        """Close the sockets; without a plan the processes end then."""
        self.job.close()
        self.childs_job.close()


def main() -> NoReturn:
    """Serve until the server closes the socket and nothing runs any more. The only argument is a `Start`."""
    start = started_with(sys.argv[1])
    _prepare(start.preload)
    Launcher(start).serve()
    os._exit(0)


def _prepare(preload: Iterable[str]) -> None:
    """Reach the state that every run is forked from."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < _RESERVED:
        pass
    os.close(descriptor)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, reaper.SIGNALS)
    become_subreaper()
    for name in preload:
        importlib.import_module(name)
    # What is here now is shared with every fork, and never looked at by the collector again.
    gc.collect()
    gc.freeze()
    gc.disable()


class Launcher:
    """The launcher's state: which reapers there are, and the sockets of their runs.

    A run's socket is kept open here until its reaper is reaped and nothing of it is left, so that the server, should no
    report come, learns by its end that the run is over.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._control = socket.socket(fileno=start.control)
        self._pid = os.getpid()
        self._runs: dict[int, int] = {}
        self._bereft: list[int] = []  # sockets of runs whose reaper was killed, until nothing of them is left
        self._ready: Ready | None = None

    def serve(self) -> None:
        """Start runs and reap reapers."""
        signals = signal_descriptor(set(reaper.SIGNALS))
        control = self._control.fileno()
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        poll.register(control, select.POLLIN)
        serving = True
        self._ready = self._fork(confined=True)
        while serving or self._runs or self._bereft or self._ready:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if signals in ready:
                if signal.SIGTERM in pending_signals(signals):
                    return  # the reapers notice
                self._reap()
            if control in ready and not self._accept():
                poll.unregister(control)
                serving = False
                if self._ready:
                    self._ready.close()

    def _accept(self) -> bool:
        """Start one run; False when the server is gone."""
        packet, descriptors = receive_packet(self._control)
        if not packet:
            return False
        if descriptors:
            run, streams, memory = split(packet, descriptors)
            self._start_run(packet, run, streams, memory)
            for descriptor in streams + memory:
                os.close(descriptor)
        return True

    def _start_run(self, packet: bytes, run: int, streams: list[int], memory: list[int]) -> None:
        """Give a plan to a reaper and to its program's process, and have another one stand by."""
        confined = is_confined(packet)
        ready, self._ready = (self._ready, None) if confined else (None, self._ready)
        try:
            ready = ready or self._fork(confined=confined)
            self._runs[ready.pid] = run
            # The reaper first: without one nothing may run. That it was killed shows when it is reaped.
            with suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(ready.job, [packet], [run, *memory])
                socket.send_fds(ready.childs_job, [packet], streams + memory)
            ready.close()
            self._ready = self._ready or self._fork(confined=True)
        except OSError as error:
            if run not in self._runs.values():
                reaper.tell(run, Failed(f"no process can be made: {reason(error)}"))
                os.close(run)

    def _fork(self, *, confined: bool) -> Ready:
        job, its_job = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        childs_job, its_childs_job = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            self._stand_by(its_job, its_childs_job, confined=confined)
        its_job.close()
        its_childs_job.close()
        return Ready(pid, job, childs_job)

    def _stand_by(self, job: socket.socket, childs_job: socket.socket, *, confined: bool) -> NoReturn:
        try:
            # Descriptors of other runs, kept open here, would keep both of their sides from noticing an end.
            close_all_but(_RESERVED, (job.fileno(), childs_job.fileno()))
            reaper.stand_by(job, childs_job, self._start, launcher_pid=self._pid, confined=confined)
        except BaseException as error:  # noqa: BLE001  nothing may return from here into the launcher
            sys.stderr.write(f"reaper: {type(error).__name__}: {error}\n")
        finally:
            os._exit(1)

    def _reap(self) -> None:
        """Take what has ended. What a killed reaper left is ended too, and only then its run is over."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            run = self._runs.pop(pid, None)
            if run is not None:
                if status == 0:
                    os.close(run)
                else:
                    self._bereft.append(run)
            elif self._ready and self._ready.pid == pid:
                self._ready.close()
                self._ready = None
        if self._bereft:
            self._end_orphans()

    def _end_orphans(self) -> None:
        """End what killed reapers left; when all of it is gone their runs are over."""
        orphans = set(children(self._pid)) - self._runs.keys()
        if self._ready:
            orphans.discard(self._ready.pid)
        for orphan in orphans:
            os.kill(orphan, signal.SIGKILL)
        if not orphans:
            for run in self._bereft:
                os.close(run)
            self._bereft.clear()
