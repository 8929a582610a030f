"""Dropping capabilities, for good and for every program that is executed later. See capabilities(7)."""

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

_VERSION_3 = 0x20080522
_MOST = 64
# SECBIT_NOROOT, NO_SETUID_FIXUP, KEEP_CAPS off; each with its lock: uid 0 means nothing to later programs.
_SECUREBITS = 0b1 | 0b10 | 0b100 | 0b1000 | 0b100000


def drop() -> None:
    """Give up every capability and the means to get one back.

    A process without CAP_SETPCAP cannot shrink its bounding set; no_new_privs then keeps it from using what is in it.

    Raises:
        OSError: capset failed; the process may then not go on.
    """
    with suppress(OSError):
        prctl(PR_SET_SECUREBITS, _SECUREBITS)
        for capability in range(_MOST):
            prctl(PR_CAPBSET_DROP, capability)  # fails at the first number that the kernel does not know
    with suppress(OSError):
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    call("capset", struct.pack("=Ii", _VERSION_3, 0), bytes(24))
