"""From a policy to the plan of a run: all that can be computed before a process is made.

Computed in the server, once for each policy, since whatever the forked processes compute they pay for in copied pages.
"""

import os
import pwd
import sys
import sysconfig
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ollie.protocol.policy import Policy
from ollie.sandbox import landlock, rlimits, seccomp
from ollie.sandbox.probe import Probe
from ollie.sandbox.requests import Begin, Plan, Ruleset
from ollie.sandbox.runs import SandboxError, Spec


def plan(spec: Spec, policy: Policy | None, kernel: Probe) -> tuple[Begin, Plan]:
    """What the reaper of a run is told, and the plan of its program.

    Args:
        spec: what to run.
        policy: that of the spec, with all that it adds by itself.
        kernel: what it gives.

    Raises:
        SandboxError: `unknown user x in general.user of the sandbox policy`.
    """
    limits = policy.limits if policy else spec.limits
    user = _user(policy.general.user) if policy and policy.general.user and kernel.root else None
    unprivileged = user is not None or not kernel.root
    tasks = rlimits.tasks() if unprivileged and limits.processes else None
    inner, filtered = _restrictions(policy, kernel, call=bool(spec.call)) if policy else (None, b"")
    return Begin(spec.background, spec.grace_s, limits.memory or 0, limits.processes or 0), Plan(
        argv=spec.argv,
        call=spec.call,
        env=dict(spec.env),
        cwd=spec.cwd,
        rlimits=rlimits.values(limits, tasks),
        user=user,
        confined=policy is not None,
        inner=inner,
        made=None,
        filter=filtered,
    )


@lru_cache(maxsize=64)
def _restrictions(policy: Policy, kernel: Probe, *, call: bool) -> tuple[Ruleset | None, bytes]:
    """The ruleset and the filter of a program."""
    if call:
        # The function's own interpreter is part of what it runs on.
        files = policy.filesystem
        policy = replace(policy, filesystem=replace(files, ro=(*files.ro, *readable_paths())))
    return (
        landlock.ruleset(policy, kernel.abi) if kernel.abi else None,
        seccomp.assembled(policy.network, landlock=kernel.abi > 0) if kernel.seccomp else b"",
    )


def readable_paths() -> tuple[str, ...]:
    """What a function may have to read to import something late: the standard library, packages, and this one."""
    package = str(Path(__file__).parents[1])
    standard = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    packages = [path for path in sys.path if path.endswith(("/site-packages", "/dist-packages"))]
    return tuple(dict.fromkeys([*standard, *packages, package]))


def _user(name: str) -> tuple[int, int, tuple[int, ...]]:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise SandboxError(f"unknown user {name} in general.user of the sandbox policy") from None
    return entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(name, entry.pw_gid))
