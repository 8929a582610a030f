"""Landlock rulesets in the kernel: made from a description, recognised as still true, entered. See landlock(7).

To make one, every path of a policy is opened, which is the larger part of what it takes to restrict a process. So the
process of a program offers the one that it made to the server, and the server offers it to later ones. What a ruleset
allows is not the paths but the files that they led to, and it keeps these from being replaced by others of the same
identity. Where a path leads to another file now, or to none, or to one that was not there, the ruleset is not used.

Each function raises OSError when the kernel refuses. Landlock restricts one thread, so callers have one, and it demands
no_new_privs.
"""

import errno
import os
import struct

from ollie.protocol import links
from ollie.sandbox.requests import Identity, Made, Ruleset
from ollie.sandbox.syscalls import attempt, call

# Rights that a rule for something that is not a directory may hold; more is EINVAL. EXECUTE, WRITE_FILE, READ_FILE,
# TRUNCATE, IOCTL_DEV, RESOLVE_UNIX of `landlock.py`.
ON_FILE = 0b1_1100_0000_0000_0111

_RULE = struct.Struct("=Qi").pack  # struct landlock_path_beneath_attr: access, descriptor

# struct open_how: a descriptor that only names the file, and RESOLVE_NO_SYMLINKS
_HOW = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, 4)

# A path that is not there, or that this user cannot reach, is refused to the program in any case; one that leads
# through a link of a tool's is refused for that.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)


def make(ruleset: Ruleset, cwd: str = "/") -> Made:
    """Make a ruleset. Paths that do not exist are left out, and those that lead through links of tools.

    Args:
        ruleset: what is allowed.
        cwd: the directory of the run, which had no links when the ruleset was described.
    """
    # An older kernel takes the longer structure too, when what it does not know is zero.
    descriptor = call("landlock_create_ruleset", ruleset.handled, len(ruleset.handled), 0)
    followed = (ruleset.written, (*ruleset.written, cwd))
    try:
        identities = tuple(
            _allow(descriptor, path, access, None if path in ruleset.real else followed)
            for path, access in ruleset.paths
        )
    except BaseException:
        os.close(descriptor)
        raise
    return Made(descriptor, identities)


def holds(ruleset: Ruleset, identities: tuple[Identity, ...]) -> bool:
    """Whether what was made from a description is what would be made now: whether its paths lead where they led."""
    tools = tuple(f"{place.rstrip('/')}/" for place in ruleset.written)
    return all(
        (_identity_without_links(path) if path.startswith(tools) else _identity(path)) == identity
        for (path, _), identity in zip(ruleset.paths, identities, strict=True)
    )


def enter(descriptor: int) -> None:
    """Restrict this process and its children by a ruleset."""
    call("landlock_restrict_self", descriptor, 0)


def leads_through_link(path: str) -> bool:
    """Whether a part of a path is a link."""
    descriptor = _named(path)
    if descriptor >= 0:
        os.close(descriptor)
    return descriptor == -errno.ELOOP


def _allow(ruleset: int, path: str, access: int, followed: tuple[tuple[str, ...], tuple[str, ...]] | None) -> Identity:
    """Add the rule for a path; links in it are followed only where `links.resolved` does, given the two `followed`."""
    beneath = _named(path)
    if beneath == -errno.ELOOP and followed and (real := links.resolved(path, *followed)):
        beneath = _named(real)  # should a part have become a link since, it is refused
    if -beneath in _ABSENT:
        return None
    if beneath < 0:
        raise OSError(-beneath, os.strerror(-beneath), path)
    try:
        added = attempt("landlock_add_rule", ruleset, 1, _RULE(access, beneath), 0)
        if added == -errno.EINVAL:  # it is not a directory
            access &= ON_FILE
            added = attempt("landlock_add_rule", ruleset, 1, _RULE(access, beneath), 0) if access else 0
        if added < 0:
            raise OSError(-added, os.strerror(-added))
        return _identity(beneath)
    finally:
        os.close(beneath)


def _identity(file: str | int) -> Identity:
    """That of a path, whatever leads to it, or of a descriptor."""
    try:
        found = os.stat(file)  # noqa: PTH116  the launcher does without pathlib
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _identity_without_links(path: str) -> Identity:
    """That of a path in which a link would be a tool's, even to the same file."""
    descriptor = _named(path)
    if descriptor < 0:
        return None
    try:
        return _identity(descriptor)
    finally:
        os.close(descriptor)


def _named(path: str) -> int:
    """A descriptor for a path that has no links, or an errno as a negative number."""
    return attempt("openat2", 0, os.fsencode(path), _HOW, len(_HOW))
