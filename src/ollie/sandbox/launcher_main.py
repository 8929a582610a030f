"""The launcher process: it forks the reapers that the server asks for.

It is small, has one thread, and imports nothing once it serves, so a fork is cheap and safe; the server, with its
threads and its event loop, never forks. It ends when the server does, after its reapers. When a reaper is killed, what
it leaves behind becomes the launcher's, which ends it.
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
from typing import NoReturn

from ollie.protocol.words import reason
from ollie.sandbox import reaper
from ollie.sandbox.processes import children
from ollie.sandbox.requests import CONFINED, Failed, Start, encode, receive, started_with
from ollie.sandbox.syscalls import become_subreaper, close_all_but, pending_signals, signal_descriptor

_RESERVED = 4  # 0 to 3 are what a program gets; nothing else may have these numbers


def main() -> NoReturn:
    """Serve until the server closes the socket and nothing runs any more. The first argument is a `Start`."""
    start = started_with(sys.argv[1])
    _prepare(start.preload)
    Reapers(start).serve()
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


class Reapers:
    """The launcher's state: which reapers there are, and the ends of their sockets.

    A reaper's socket is kept open here until it is reaped and nothing of its run is left, so that the server, should no
    report come, learns by its end that the run is over.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._control = socket.socket(fileno=start.control)
        self._pid = os.getpid()
        self._reapers: dict[int, int] = {}
        self._bereft: list[int] = []  # sockets of reapers that were killed, until nothing of their runs is left

    def serve(self) -> None:
        """Make reapers and reap them."""
        signals = signal_descriptor(set(reaper.SIGNALS))
        control = self._control.fileno()
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        poll.register(control, select.POLLIN)
        serving = True
        while serving or self._reapers or self._bereft:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if signals in ready:
                if signal.SIGTERM in pending_signals(signals):
                    return  # the reapers notice
                self._reap()
            if control in ready and not self._accept():
                poll.unregister(control)
                serving = False

    def _accept(self) -> bool:
        """Make one reaper; False when the server is gone."""
        try:
            packet, descriptors = receive(self._control)
        except OSError:  # no room for a descriptor: the server sees that its other side has gone
            return True
        if not packet:
            return False
        (its_socket,) = descriptors
        try:
            pid = os.fork()
        except OSError as error:
            with suppress(BrokenPipeError, ConnectionResetError):
                os.write(its_socket, encode(Failed(f"no process can be made: {reason(error)}")))
            os.close(its_socket)
            return True
        if pid == 0:
            self._become_reaper(its_socket, confined=packet == CONFINED)
        self._reapers[pid] = its_socket
        return True

    def _become_reaper(self, its_socket: int, *, confined: bool) -> NoReturn:
        try:
            # Descriptors of other reapers, kept open here, would keep both of their sides from noticing an end.
            close_all_but(_RESERVED, (its_socket,))
            control = socket.socket(fileno=its_socket)
            reaper.serve(control, self._start, launcher_pid=self._pid, confined=confined)
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
            its_socket = self._reapers.pop(pid, None)
            if its_socket is not None:
                if status == 0:
                    os.close(its_socket)
                else:
                    self._bereft.append(its_socket)
        if self._bereft:
            self._end_orphans()

    def _end_orphans(self) -> None:
        """End what killed reapers left; when all of it is gone their runs are over."""
        orphans = set(children(self._pid)) - self._reapers.keys()
        for orphan in orphans:
            os.kill(orphan, signal.SIGKILL)
        if not orphans:
            for its_socket in self._bereft:
                os.close(its_socket)
            self._bereft.clear()
