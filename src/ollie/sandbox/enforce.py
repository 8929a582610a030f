"""The few calls that restrict this process, for good, but for those of Landlock, which are in `rulesets.py`.

Each raises OSError when the kernel refuses; the process may then not go on. Seccomp restricts one thread, so callers
have one, and it demands no_new_privs.
"""

import array
import errno
import os
import resource
import struct
from contextlib import suppress

from ollie.sandbox.syscalls import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_SET_SECUREBITS,
    call,
    prctl,
)

_CAPABILITIES_3 = 0x20080522  # version of struct __user_cap_header_struct
_MOST_CAPABILITIES = 64
# NOROOT and NO_SETUID_FIXUP on, KEEP_CAPS off, each with its lock: uid 0 means nothing to later programs.
_SECUREBITS = 0b101111


def enter(directory: str) -> None:
    """Make this the working directory. A link in its path is an error: it had none when the run was prepared."""
    os.chdir(directory)
    if os.getcwd() != directory:  # noqa: PTH109  the launcher does without pathlib
        raise OSError(errno.ELOOP, "it leads through a link", directory)


def filter_calls(program: bytes) -> None:
    """Filter the system calls of this process and of its children."""
    instructions = array.array("B", program)
    address, size = instructions.buffer_info()
    call("seccomp", 1, 0, struct.pack("@HP", size // 8, address))  # SECCOMP_SET_MODE_FILTER


def shrink_bounding_set() -> None:
    """Give up the means for this process and its children to get a capability back from a program.

    Without CAP_SETPCAP it cannot be shrunk; no_new_privs then keeps a process from using what is in it.
    """
    with suppress(OSError):
        for capability in range(_MOST_CAPABILITIES):
            prctl(PR_CAPBSET_DROP, capability)  # fails at the first number that the kernel does not know


def drop_capabilities() -> None:
    """Give up every capability, and what user 0 is."""
    with suppress(OSError):
        prctl(PR_SET_SECUREBITS, _SECUREBITS)
    with suppress(OSError):
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    call("capset", struct.pack("=Ii", _CAPABILITIES_3, 0), bytes(24))


def limit(wanted: tuple[tuple[int, int], ...]) -> None:
    """Set resource limits, soft and hard, never above the hard ones that this process has."""
    for number, value in wanted:
        hard = resource.getrlimit(number)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (bound, bound))


def become(user: tuple[int, int, tuple[int, ...]]) -> None:
    """Change to another user, for good."""
    uid, gid, groups = user
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
