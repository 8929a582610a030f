"""The few calls that restrict this process, for good. What they are told comes from `landlock.py` and `seccomp.py`.

Each raises OSError when the kernel refuses; the process may then not go on. Landlock and seccomp restrict one thread,
so callers have one; both demand no_new_privs.
"""

import array
import errno
import os
import resource
import struct
from contextlib import suppress

from ollie.sandbox.requests import Rules
from ollie.sandbox.syscalls import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_SET_SECUREBITS,
    attempt,
    call,
    prctl,
)

# Rights that a rule for something that is not a directory may hold; more is EINVAL. EXECUTE, WRITE_FILE, READ_FILE,
# TRUNCATE, IOCTL_DEV, RESOLVE_UNIX of `landlock.py`.
ON_FILE = 0b1_1100_0000_0000_0111

_CAPABILITIES_3 = 0x20080522  # version of struct __user_cap_header_struct
_MOST_CAPABILITIES = 64
# NOROOT and NO_SETUID_FIXUP on, KEEP_CAPS off, each with its lock: uid 0 means nothing to later programs.
_SECUREBITS = 0b101111

_RULE = struct.Struct("=Qi").pack  # struct landlock_path_beneath_attr: access, descriptor

# A path that is not there, or that this user cannot reach, is refused to the program in any case.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)


def restrict(rules: Rules) -> None:
    """Enter a Landlock domain. Paths that do not exist are left out."""
    # An older kernel takes the longer structure too, when what it does not know is zero.
    handled, paths = rules
    descriptor = call("landlock_create_ruleset", handled, len(handled), 0)
    try:
        for path, access in paths:
            _allow(descriptor, path, access)
        call("landlock_restrict_self", descriptor, 0)
    finally:
        os.close(descriptor)


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


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _ABSENT:
            return
        raise
    try:
        added = attempt("landlock_add_rule", ruleset, 1, _RULE(access, beneath), 0)
        if added == -errno.EINVAL:  # it is not a directory
            access &= ON_FILE
            added = attempt("landlock_add_rule", ruleset, 1, _RULE(access, beneath), 0) if access else 0
        if added < 0:
            raise OSError(-added, os.strerror(-added))
    finally:
        os.close(beneath)
