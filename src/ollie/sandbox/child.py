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

from ollie.sandbox import calls, enforce
from ollie.sandbox.requests import RESTRICTED, Plan, receive_plan
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
    step = ["start"]
    try:
        close_all_but(_RESERVED, (job.fileno(),))
        _die_with(reaper_pid)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the interpreter ignores these two
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        received = receive_plan(job)
        if received is None:
            os._exit(0)
        plan, streams = received
        _restrict(plan, streams, job.fileno(), reaper_pid, step)
        os.write(job.fileno(), RESTRICTED)
        if plan.call:
            job.close()
            calls.run(plan.call, plan.argv, plan.env)
        step[0] = f"run {plan.argv[0]}"
        _execute(plan)
    except BaseException as error:  # noqa: BLE001  nothing may return from here into the reaper
        reason = getattr(error, "strerror", None) or error
        with suppress(OSError):  # nobody listens
            os.write(job.fileno(), f"cannot {step[0]}: {reason}".encode(errors="replace")[:4000])
    os._exit(126)


def _die_with(reaper_pid: int) -> None:
    """Be killed when the reaper ends; this process ends now when it has."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != reaper_pid:
        os._exit(126)


def _restrict(plan: Plan, streams: list[int], job: int, reaper_pid: int, step: list[str]) -> None:
    os.setsid()
    step[0] = "set the limits"
    enforce.limit(plan.rlimits)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    step[0] = f"use {plan.cwd} as working directory"
    enforce.enter(plan.cwd)
    if plan.user:
        step[0] = "change the user"
        enforce.become(plan.user)
        _die_with(reaper_pid)  # the change has cleared it
    if plan.confined:
        prctl(PR_SET_NO_NEW_PRIVS, 1)  # as in the reaper: what follows is refused without
    if plan.inner:
        step[0] = "confine files with landlock"
        enforce.restrict(plan.inner, plan.cwd)
    if plan.confined:
        step[0] = "drop capabilities"
        enforce.drop_capabilities()
    close_all_but(len(streams), (job,))
    if plan.filter:
        step[0] = "filter system calls"
        enforce.filter_calls(plan.filter)


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
