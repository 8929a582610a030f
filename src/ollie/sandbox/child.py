"""The last steps before a program runs: the process restricts itself, in an order that each step depends on.

A session of its own first, so that signals to its group stay there; limits, descriptors and directory while files are
still free; the user while it may still change; no_new_privs before Landlock and seccomp, which demand it; capabilities
after Landlock; descriptors of others after the last use of any; seccomp last, since it forbids what came before.
"""

import os
import pwd
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

from ollie.protocol.policy import Policy, decode
from ollie.sandbox import calls, caps, landlock, rlimits, seccomp
from ollie.sandbox.requests import Request
from ollie.sandbox.syscalls import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, call, prctl

BROKER = 3
_LAST_DESCRIPTOR = 0xFFFFFFFF


class StepError(Exception):
    """A step failed, so the program may not run; the text says which and why."""


@dataclass(frozen=True, slots=True)
class User:
    """Whom a program runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A run with everything that can be computed before the fork.

    `ruleset` and `filtered` are what the kernel can enforce of the policy, None and False for nothing; `limits` are by
    resource number.
    """

    request: Request
    policy: Policy
    ruleset: landlock.Ruleset | None
    filtered: bool
    user: User | None
    limits: dict[int, int]


def plan(request: Request, *, abi: int, filters: bool) -> Plan:
    """What `run` will do on this kernel. Raises StepError for a user that does not exist."""
    policy = decode(request.policy)
    user = _user(policy.general.user) if request.enforced and os.geteuid() == 0 else None
    uid = user.uid if user else os.getuid()
    files = policy.filesystem
    if request.call:
        # The function's own interpreter is part of what it runs on.
        files = replace(files, ro=(*files.ro, *calls.readable_paths()))
    return Plan(
        request=request,
        policy=policy,
        ruleset=landlock.ruleset(replace(policy, filesystem=files), abi) if request.enforced and abi else None,
        filtered=request.enforced and filters,
        user=user,
        limits=rlimits.values(policy.limits, rlimits.tasks() if uid and policy.limits.processes else None),
    )


def run(plan: Plan, streams: tuple[int, ...], status: int) -> NoReturn:
    """Restrict this process and become the program.

    Args:
        plan: what to do.
        streams: the descriptors for 0, 1, 2 and, with a broker, 3; each is above 3.
        status: a close-on-exec descriptor: closed without a word when the program runs, else told what failed.
    """
    try:
        _restrict(plan, streams, status)
        if plan.request.call:
            os.close(status)
            calls.run(plan.request.call, plan.request.argv, plan.request.env)
        _execute(plan.request)
    except BaseException as error:  # noqa: BLE001 - nothing may return from here into the launcher
        os.write(status, str(error).encode()[:4000] or b"the sandbox failed")
    os._exit(126)


def _restrict(plan: Plan, streams: tuple[int, ...], status: int) -> None:
    os.setsid()
    _step("set the limits", lambda: rlimits.apply(plan.limits))
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    _step(f"use {plan.request.cwd} as working directory", lambda: os.chdir(plan.request.cwd))
    _step("change the user", lambda: _become(plan.user))
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user clears it, so after that
    if plan.request.enforced:
        _step("give up new privileges", lambda: prctl(PR_SET_NO_NEW_PRIVS, 1))
        if (ruleset := plan.ruleset) is not None:
            _step("confine files with landlock", lambda: landlock.apply(ruleset))
        _step("drop capabilities", caps.drop)
    _close_others(len(streams), status)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by the interpreter
        signal.signal(ignored, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if plan.filtered:
        confines = plan.ruleset is not None
        _step("filter system calls", lambda: seccomp.apply(plan.policy.network, landlock=confines))


def _execute(request: Request) -> None:
    try:
        os.execvpe(request.argv[0], request.argv, dict(request.env))  # noqa: S606 - this is the launcher
    except OSError as error:
        raise StepError(f"cannot run {request.argv[0]}: {error.strerror}") from None


def _step(what: str, take: Callable[[], object]) -> None:
    try:
        take()
    except (OSError, ValueError) as error:
        raise StepError(f"cannot {what}: {getattr(error, 'strerror', None) or error}") from None


def _become(user: User | None) -> None:
    if user:
        os.setgroups(user.groups)
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)


def _user(name: str | None) -> User | None:
    if name is None:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise StepError(f"unknown user {name} in general.user of the sandbox policy") from None
    return User(entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(name, entry.pw_gid)))


def _close_others(first: int, status: int) -> None:
    """Close every descriptor but the streams and `status`."""
    if first < status:
        call("close_range", first, status - 1, 0)
    call("close_range", status + 1, _LAST_DESCRIPTOR, 0)
