"""Signals to a whole run, without a way to reach anything else.

A reaper in a Landlock domain of its own that scopes signals can signal its run and nothing more, so `kill(-1)` ends
every process of the run at once, however often it forked or changed its session. Outside such a domain the same call
ends the whole machine when made by root. Therefore the proof that the domain holds and the kill are one function, which
refuses when the proof fails, and there is no other `kill(-1)` in this package.
"""

import os
import signal
from contextlib import suppress

from ollie.sandbox import rulesets
from ollie.sandbox.processes import descendants
from ollie.sandbox.requests import Ruleset


class ScopeError(RuntimeError):
    """Signals of this process are not confined to its run; nothing was signalled."""


class Scope:
    """The right to signal everything below this process. It exists only where the proof held once.

    Args:
        server_pid: of the server that started the launcher, alive and outside the domain.

    Raises:
        ScopeError: the server or process 1 can be signalled from here, or is not there to prove anything.
    """

    def __init__(self, server_pid: int) -> None:
        prove(server_pid, may_be_gone=False)
        self._server_pid = server_pid

    def kill(self, number: int) -> None:
        """Send a signal to every process of the run but this one. Raises ScopeError as the constructor does."""
        # A domain cannot be left, so a server that has died since takes nothing from the proof that held before.
        prove(self._server_pid, may_be_gone=True)
        with suppress(ProcessLookupError):
            os.kill(-1, number)


def enter(server_pid: int, ruleset: Ruleset) -> Scope:
    """Enter the outer domain of a run and prove it; no_new_privs is set already.

    Raises:
        ScopeError: this process stays in the domain, and may not use `kill(-1)`.
        OSError: the kernel refused the ruleset.
    """
    made = rulesets.make(ruleset)
    try:
        rulesets.enter(made.descriptor)
    finally:
        os.close(made.descriptor)
    return Scope(server_pid)


def prove(server_pid: int, *, may_be_gone: bool) -> None:
    """Return when neither the server nor process 1 can be signalled from here, else raise ScopeError.

    The server runs as the same user, so that only the domain can be what forbids it. Signal 0 is checked, never sent.
    """
    for pid in (server_pid, 1):
        try:
            os.kill(pid, 0)
        except PermissionError:
            continue
        except ProcessLookupError:
            if may_be_gone and pid == server_pid:
                continue
            raise ScopeError(f"process {pid} is not there to prove the scope of signals") from None
        raise ScopeError(f"signals are not confined to the run: process {pid} can be signalled")


def sweep(number: int) -> None:
    """Signal every descendant of this process one by one: what is left to do without a domain.

    For SIGKILL they are stopped first, until no new one shows, so that what forks cannot run ahead. Descendants that
    changed their user refuse the signal and stay.
    """
    if number == signal.SIGKILL:
        stopped: set[int] = set()
        while new := set(descendants(os.getpid())) - stopped:
            _signal(new, signal.SIGSTOP)
            stopped |= new
    _signal(set(descendants(os.getpid())), number)


def _signal(pids: set[int], number: int) -> None:
    """Signal those of the processes that still descend from this one.

    A number may have passed to a stranger since it was listed: a descriptor holds on to whom it names now, and the
    second list says whether that is a descendant.
    """
    held: dict[int, int] = {}
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                held[pid] = os.pidfd_open(pid)
        for pid in held.keys() & set(descendants(os.getpid())):
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(held[pid], number)
    finally:
        for descriptor in held.values():
            os.close(descriptor)
