"""The launcher process: it forks a reaper for every run that the server asks for.

It is small, has one thread, and imports nothing once it serves, so a fork is cheap and safe; the server, with its
threads and its event loop, never forks. It ends when the server does, after its reapers. When a reaper is killed, what
it leaves behind becomes the launcher's, which ends it.
"""

import array
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import NoReturn

from ollie.sandbox import child, landlock, reaper, seccomp
from ollie.sandbox.processes import children
from ollie.sandbox.requests import PACKET_BYTES, Failed, send, unpack
from ollie.sandbox.syscalls import become_subreaper, pending_signals, signal_descriptor

_DESCRIPTORS = 6  # at most, with a request
_RESERVED = 4  # 0 to 3 are what a program gets; nothing else may have these numbers


def main() -> NoReturn:
    """Serve until the server closes the socket and nothing runs any more.

    The only argument is JSON: `control`, the descriptor of the socket; `server_pid`; `preload`, names of modules.
    """
    values = json.loads(sys.argv[1])
    control = socket.socket(fileno=values["control"])
    _prepare(values["preload"])
    Launcher(control, values["server_pid"]).serve()
    os._exit(0)


def _prepare(preload: list[str]) -> None:
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

    def __init__(self, control: socket.socket, server_pid: int) -> None:
        self._control = control
        self._server_pid = server_pid
        self._abi = landlock.abi()
        self._filters = seccomp.available()
        self._runs: dict[int, socket.socket] = {}
        self._bereft: list[socket.socket] = []  # of runs whose reaper was killed, until nothing of them is left

    def serve(self) -> None:
        """Start runs and reap reapers."""
        signals = signal_descriptor(set(reaper.SIGNALS))
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        serving = True
        while serving or self._runs or self._bereft:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if signals in ready:
                if signal.SIGTERM in pending_signals(signals):
                    return  # the reapers notice
                self._reap()
            if self._control.fileno() in ready and not self._accept():
                poll.unregister(self._control)
                serving = False

    def _accept(self) -> bool:
        """Start one run; False when the server is gone."""
        packet, ancillary, _, _ = self._control.recvmsg(
            PACKET_BYTES, socket.CMSG_SPACE(_DESCRIPTORS * 4), socket.MSG_CMSG_CLOEXEC
        )
        if not packet:
            return False
        descriptors = array.array("i", b"".join(data for _, _, data in ancillary)).tolist()
        run = socket.socket(fileno=descriptors[0])
        streams = tuple(descriptors[2:])
        try:
            request = unpack(_content(descriptors[1]))
            self._fork(run, child.plan(request, abi=self._abi, filters=self._filters), streams)
        except (child.StepError, OSError) as error:
            send(run, Failed(str(error)))
            run.close()
        finally:
            for descriptor in streams:
                os.close(descriptor)
        return True

    def _fork(self, run: socket.socket, plan: child.Plan, streams: tuple[int, ...]) -> None:
        launcher_pid = os.getpid()
        if plan.filtered:
            seccomp.prepare(plan.policy.network, landlock=plan.ruleset is not None)
        pid = os.fork()
        if pid:
            self._runs[pid] = run
            return
        try:
            # Kept open in another run, this would keep the server from noticing an end, and a reaper from noticing its.
            for other in (self._control, *self._runs.values(), *self._bereft):
                other.close()
            reaper.run(
                plan,
                run,
                streams,
                server_pid=self._server_pid,
                launcher_pid=launcher_pid,
                abi=self._abi,
            )
        except BaseException as error:  # noqa: BLE001 - nothing may return from here into the launcher
            send(run, Failed(f"the reaper failed: {type(error).__name__}: {error}"))
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
            if run and status == 0:
                run.close()
            elif run:
                self._bereft.append(run)
        if self._bereft:
            orphans = set(children(os.getpid())) - self._runs.keys()
            for orphan in orphans:
                os.kill(orphan, signal.SIGKILL)
            if not orphans:
                for run in self._bereft:
                    run.close()
                self._bereft.clear()


def _content(descriptor: int) -> bytes:
    try:
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)
