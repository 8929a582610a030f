"""The last steps before a program runs: the process restricts itself, in an order that each step depends on.

A session of its own first, so that signals to its group stay there; limits, descriptors and directory while files are
still free; the user while it may still change; no_new_privs before Landlock and seccomp, which demand it; capabilities
after Landlock; descriptors of others after the last use of any; seccomp last, since it forbids what came before.
"""

import os
import signal
import socket
from typing import NoReturn

from ollie.sandbox import calls, enforce
from ollie.sandbox.requests import RESTRICTED, Plan, receive_plan
from ollie.sandbox.syscalls import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, close_all_but, prctl


def stand_by(job: socket.socket) -> NoReturn:
    """Wait for a plan with the program's descriptors, then restrict this process and become the program.

    Args:
        job: where the plan comes from; its end, before, ends this process. It is told when nothing is left to do, and
            closed when the program runs; or it is told what failed.
    """
    step = ["start"]
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the interpreter ignores these two
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        received = receive_plan(job)
        if received is None:
            os._exit(0)
        plan, streams = received
        _restrict(plan, streams, job.fileno(), step)
        os.write(job.fileno(), RESTRICTED)
        if plan.call:
            job.close()
            calls.run(plan.call, plan.argv, plan.env)
        step[0] = f"run {plan.argv[0]}"
        _execute(plan)
    except BaseException as error:  # noqa: BLE001  nothing may return from here into the reaper
        reason = getattr(error, "strerror", None) or error
        os.write(job.fileno(), f"cannot {step[0]}: {reason}".encode(errors="replace")[:4000])
    os._exit(126)


def _restrict(plan: Plan, streams: list[int], job: int, step: list[str]) -> None:
    os.setsid()
    step[0] = "set the limits"
    enforce.limit(plan.rlimits)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    step[0] = f"use {plan.cwd} as working directory"
    os.chdir(plan.cwd)
    if plan.user:
        step[0] = "change the user"
        enforce.become(plan.user)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the change has cleared it
    if plan.confined:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
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
