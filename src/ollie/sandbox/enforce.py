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

from ollie.protocol import links
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

# struct open_how: a descriptor that only names the file, and RESOLVE_NO_SYMLINKS
_HOW = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, 4)

# A path that is not there, or that this user cannot reach, is refused to the program in any case; one that leads
# through a link of a tool's is refused for that.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)


def restrict(rules: Rules, cwd: str = "/") -> None:
    """Enter a Landlock domain. Paths that do not exist are left out, and those that lead through links of tools.

    Args:
        rules: what is allowed.
        cwd: the directory of the run, which had no links when the rules were made.
    """
    # An older kernel takes the longer structure too, when what it does not know is zero.
    handled, paths, written, real = rules
    descriptor = call("landlock_create_ruleset", handled, len(handled), 0)
    try:
        for path, access in paths:
            _allow(descriptor, path, access, None if path in real else (written, (*written, cwd)))
        call("landlock_restrict_self", descriptor, 0)
    finally:
        os.close(descriptor)


def leads_through_link(path: str) -> bool:
    """Whether a part of a path is a link."""
    descriptor = _named(path)
    if descriptor >= 0:
        os.close(descriptor)
    return descriptor == -errno.ELOOP


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


def _allow(ruleset: int, path: str, access: int, known: tuple[tuple[str, ...], tuple[str, ...]] | None) -> None:
    """Add the rule for a path; links in it are followed only with what is `known`, see `links.resolved`."""
    beneath = _named(path)
    if beneath == -errno.ELOOP and known and (real := links.resolved(path, *known)):
        beneath = _named(real)  # should a part have become a link since, it is refused
    if -beneath in _ABSENT:
        return
    if beneath < 0:
        raise OSError(-beneath, os.strerror(-beneath), path)
    try:
        added = attempt("landlock_add_rule", ruleset, 1, _RULE(access, beneath), 0)
        if added == -errno.EINVAL:  # it is not a directory
            access &= ON_FILE
            added = attempt("landlock_add_rule", ruleset, 1, _RULE(access, beneath), 0) if access else 0
        if added < 0:
            raise OSError(-added, os.strerror(-added))
    finally:
        os.close(beneath)


def _named(path: str) -> int:
    """A descriptor for a path that has no links, or an errno as a negative number."""
    return attempt("openat2", 0, os.fsencode(path), _HOW, len(_HOW))
