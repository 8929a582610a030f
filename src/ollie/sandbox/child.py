"""The last steps before a program runs: the process restricts itself, in an order that each step depends on.

A session of its own first, so that signals to its group stay there; limits, descriptors and directory while files are
still free; the user while it may still change; no_new_privs before Landlock and seccomp, which demand it; capabilities
after Landlock; descriptors of others after the last use of any; seccomp last, since it forbids what came before. The
reaper has given up the bounding set, once for all its runs, and where it is confined no_new_privs as well.
"""

import os
import signal
import socket
from contextlib import suppress
from typing import NoReturn

from ollie.sandbox import calls, enforce, rulesets
from ollie.sandbox.requests import RESTRICTED, Made, Plan, receive_plan, send_made
from ollie.sandbox.syscalls import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, close_all_but, prctl

_RESERVED = 4  # 0 to 3 are what a program gets


def stand_by(job: socket.socket, reaper_pid: int) -> NoReturn:
    """Wait for a plan with the program's descriptors, then restrict this process and become the program.

    It holds nothing but its job: neither the reaper's socket nor any other descriptor of the reaper's.

    Args:
        job: where the plan comes from; its end, before, ends this process. It is told when nothing is left to do, and
            closed when the program runs; or it is told what failed. When it takes no word any more nothing is run.
        reaper_pid: the parent, without whom this process does not live.
    """
    try:
        with _Step("start"):
            close_all_but(_RESERVED, (job.fileno(),))
            _die_with(reaper_pid)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the interpreter ignores these two
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            received = receive_plan(job)
        if received is None:
            os._exit(0)
        plan, descriptors = received
        with _Step("start"):
            made = _restrict(plan, descriptors, job.fileno(), reaper_pid)
        if made:
            with suppress(OSError):  # later programs make their own
                send_made(job, made)
            os.close(made.descriptor)
        os.write(job.fileno(), RESTRICTED)
        if plan.call:
            job.close()
            calls.run(plan.call, plan.argv, plan.env)
        with _Step(f"run {plan.argv[0]}"):
            _execute(plan)
    except BaseException as error:  # noqa: BLE001  nothing may return from here into the reaper
        with suppress(OSError):  # nobody listens
            os.write(job.fileno(), str(error).encode(errors="replace")[:4000])
    os._exit(126)


class _StepError(Exception):
    """What could not be done: a sentence for the user."""


class _Step:
    """What is done in its block. What the system, or Python on its behalf, refuses becomes a sentence for the user."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | ValueError):
            why = getattr(error, "strerror", None) or error
            raise _StepError(f"cannot {self._what}: {why}") from None


def _die_with(reaper_pid: int) -> None:
    """Be killed when the reaper ends; this process ends now when it has."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != reaper_pid:
        os._exit(126)


def _restrict(plan: Plan, descriptors: list[int], job: int, reaper_pid: int) -> Made | None:
    """Restrict this process; the ruleset that was made for it, if it was."""
    offered = descriptors.pop() if plan.made is not None else -1
    made: Made | None = None
    os.setsid()
    with _Step("set the limits"):
        enforce.limit(plan.rlimits)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    with _Step(f"use {plan.cwd} as working directory"):
        enforce.enter(plan.cwd)
    if plan.user:
        with _Step("change the user"):
            enforce.become(plan.user)
        _die_with(reaper_pid)  # the change has cleared it
    if plan.confined:
        prctl(PR_SET_NO_NEW_PRIVS, 1)  # as in the reaper: what follows is refused without
    if plan.inner:
        with _Step("confine files with landlock"):
            if plan.made is None or not rulesets.holds(plan.inner, plan.made):
                made = rulesets.make(plan.inner, plan.cwd)
            rulesets.enter(made.descriptor if made else offered)
    if plan.confined:
        with _Step("drop capabilities"):
            enforce.drop_capabilities()
    close_all_but(len(descriptors), (job, made.descriptor) if made else (job,))
    if plan.filter:
        with _Step("filter system calls"):
            enforce.filter_calls(plan.filter)
    return made


def _execute(plan: Plan) -> None:
    """Execute the program, found in PATH as execvp(3) does. Raises OSError when none can be."""
    name = plan.argv[0]
    if "/" in name:
        os.execve(name, plan.argv, plan.env)  # noqa: S606  this is the launcher
    found: OSError = FileNotFoundError(2, os.strerror(2))
    for directory in plan.env.get("PATH", "").split(":"):
        try:
            os.execve(f"{directory or '.'}/{name}", plan.argv, plan.env)  # noqa: S606  no shell is wanted
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            found = error
    raise found
