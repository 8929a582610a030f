"""How many descriptors a server may have: all that the system lets it have, and what remains is kept for its owner.

A shell gives its programs 1024 by custom, and lets them have more. A server takes those for itself; what it starts gets
what the server was given, since programs that use select(2) or go through all descriptors count on that.
"""

import errno
import os
import resource

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})
"""The errors that say that there is no descriptor left: in this process, on this machine."""

_MOST = 1024 * 1024
_RESERVE = 256


def raise_limit() -> int:
    """Let this process have as many descriptors as it may; how many it had before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _MOST)), hard))
    return soft


def bound(pid: int, soft: int) -> None:
    """Let a process that was just started, and what it starts, have so many."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(soft, hard), hard))


def scarce() -> bool:
    """Whether all are in use but those that are kept for the owner."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        lowest = os.eventfd(0, os.EFD_CLOEXEC)  # the lowest number that is free: all below are in use
    except OSError as error:
        if error.errno in EXHAUSTED:
            return True
        raise
    os.close(lowest)
    return lowest >= soft - min(_RESERVE, soft // 4)
