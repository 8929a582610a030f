"""The limits of a policy that the kernel keeps for each process. See setrlimit(2)."""

import resource
from pathlib import Path

from ollie.protocol.policy import Limits

# RLIMIT_NPROC counts the user's threads everywhere, so it is a backstop well above the number of processes; the number
# itself is watched by the reaper.
_THREADS_EACH = 8


def values(limits: Limits, tasks: int | None) -> tuple[tuple[int, int], ...]:
    """The resource limits of a run: (resource, value) each.

    Args:
        limits: of the policy.
        tasks: a number that the threads of the run's user do not exceed now; None for uid 0, whom RLIMIT_NPROC does not
            bind.
    """
    wanted = {
        resource.RLIMIT_CORE: 0,  # a core file is memory written to a directory of the tool's choice
        resource.RLIMIT_DATA: limits.memory,
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_NOFILE: limits.open_files,
    }
    if limits.processes is not None and tasks is not None:
        wanted[resource.RLIMIT_NPROC] = tasks + _THREADS_EACH * limits.processes
    return tuple((number, value) for number, value in wanted.items() if value is not None)


def tasks() -> int:
    """The threads of the whole machine now, which no user exceeds: counting one user's would take long."""
    running_of_all = Path("/proc/loadavg").read_text(encoding="ascii").split()[3]
    return int(running_of_all.partition("/")[2])
