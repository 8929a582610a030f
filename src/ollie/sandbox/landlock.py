"""Landlock: what of a policy the kernel can enforce on files, ports, signals and abstract sockets.

The rights of every ABI are one table. `ruleset` turns a policy into the values that the system calls take, for any ABI
and without a kernel; `rulesets.py` makes the calls. See landlock(7) and Documentation/userspace-api/landlock.rst.
"""

import struct
from dataclasses import dataclass

from ollie.protocol.policy import Policy
from ollie.protocol.within import grants
from ollie.sandbox.requests import Ruleset
from ollie.sandbox.syscalls import call

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
RESOLVE_UNIX = 1 << 16

BIND_TCP = 1 << 0
CONNECT_TCP = 1 << 1

SCOPE_ABSTRACT_UNIX = 1 << 0
SCOPE_SIGNAL = 1 << 1


@dataclass(frozen=True, slots=True)
class Rights:
    """What one ABI can handle."""

    files: int
    ports: int = 0
    scopes: int = 0


_ABI_1 = (1 << 13) - 1
_PORTS = BIND_TCP | CONNECT_TCP
_SCOPES = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL
_ABI_5 = _ABI_1 | REFER | TRUNCATE | IOCTL_DEV

# Index: the ABI. 7 adds flags for the audit log and 8 a flag for threads, neither of which is needed here.
ABI: tuple[Rights, ...] = (
    Rights(0),
    Rights(_ABI_1),
    Rights(_ABI_1 | REFER),
    Rights(_ABI_1 | REFER | TRUNCATE),
    Rights(_ABI_1 | REFER | TRUNCATE, _PORTS),
    Rights(_ABI_5, _PORTS),
    Rights(_ABI_5, _PORTS, _SCOPES),
    Rights(_ABI_5, _PORTS, _SCOPES),
    Rights(_ABI_5, _PORTS, _SCOPES),
    Rights(_ABI_5 | RESOLVE_UNIX, _PORTS, _SCOPES),
)

# The right that a letter of `within.RIGHTS` stands for. Making device nodes and their ioctls are in none of them.
_LETTERS = {
    "r": READ_FILE | READ_DIR,
    "x": EXECUTE,
    "w": WRITE_FILE
    | TRUNCATE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | MAKE_FIFO
    | MAKE_SYM
    | REFER,
}


def known(abi: int) -> Rights:
    """The rights of an ABI; those of the newest one known here for a newer one."""
    return ABI[min(abi, len(ABI) - 1)]


def ruleset(policy: Policy, abi: int) -> Ruleset:
    """The ruleset for an expanded policy. Nothing is handled that the ABI does not know."""
    rights = known(abi)
    paths: dict[str, int] = {}
    for path, letters in grants(policy.filesystem):
        access = 0
        for letter in letters:
            access |= _LETTERS[letter]
        if policy.network.unix_sockets and "w" in letters:
            access |= RESOLVE_UNIX
        paths[path] = paths.get(path, 0) | access
    # All network or none: ports are handled only to deny them.
    ports = 0 if policy.network.enabled else rights.ports
    granted = ((path, access & rights.files) for path, access in paths.items())
    written = tuple(path for path, letters in grants(policy.filesystem) if "w" in letters)
    return Ruleset(_handled(rights.files, ports, rights.scopes), tuple(granted), written + policy.written, policy.real)


def reaper_ruleset(abi: int) -> Ruleset | None:
    """The ruleset of a reaper, the outer domain of a run: signals and abstract sockets stay inside, files are free.

    None where the ABI scopes no signals: there is no use for it.

    A ruleset that does not handle REFER forbids every link and rename between directories in the domains below it, so
    it is handled, and granted everywhere.
    """
    rights = known(abi)
    if not rights.scopes:
        return None
    return Ruleset(_handled(REFER & rights.files, 0, rights.scopes), (("/", REFER & rights.files),), (), ())


def abi() -> int:
    """The ABI of this kernel, 0 when it has no Landlock or it is not enabled."""
    try:
        return call("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


def _handled(files: int, ports: int, scopes: int) -> bytes:
    """Struct landlock_ruleset_attr."""
    return struct.pack("=QQQ", files, ports, scopes)
