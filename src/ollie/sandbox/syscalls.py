"""System calls that Python has no function for, made through libc's `syscall`.

Every argument is passed as wide as a pointer: a C int leaves the upper half of a register undefined, and the kernel
reads it all. A call that fails raises OSError with its errno; the caller knows what it was doing.
"""

import ctypes
import errno
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache

from ollie.sandbox.numbers import machine

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_UNUSED = (0,) * 6  # for the arguments that a call does not have
Buffer = bytes | ctypes.Array[ctypes.c_char] | None


def attempt(name: str, *arguments: int | Buffer) -> int:
    """Make a system call by its name in `numbers.py`; its result, or its errno as a negative number.

    Raises:
        OSError: ENOSYS on an architecture without numbers.
    """
    result = _syscall()(_number(name), *arguments, *_UNUSED[len(arguments) :])
    return -ctypes.get_errno() if result == -1 else result


def call(name: str, *arguments: int | Buffer) -> int:
    """Make a system call by its name in `numbers.py`.

    Raises:
        OSError: with the errno of the call; ENOSYS on an architecture without numbers.
    """
    result = attempt(name, *arguments)
    if result < 0:
        raise OSError(-result, f"{name}: {os.strerror(-result)}")
    return result


def prctl(option: int, value: int, *more: int) -> None:
    """Set an attribute of this process. Raises OSError."""
    call("prctl", option, value, *more)


def become_subreaper() -> None:
    """Adopt descendants whose parent ends, so that ancestry leads here whatever they do."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


@cache
def _number(name: str) -> int:
    here = machine()
    number = here.number(name) if here else None
    if number is None:
        raise OSError(errno.ENOSYS, f"{name}: {os.strerror(errno.ENOSYS)}")
    return number


@cache
def _syscall() -> Callable[..., int]:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.argtypes = (ctypes.c_long, *(ctypes.c_void_p for _ in _UNUSED))
    function.restype = ctypes.c_long
    return function


def close_all_but(first: int, kept: Iterable[int]) -> None:
    """Close every descriptor from `first` on, but the kept ones."""
    for descriptor in sorted(kept):
        if first < descriptor:
            call("close_range", first, descriptor - 1, 0)
        first = descriptor + 1
    call("close_range", first, 0xFFFFFFFF, 0)


def signal_descriptor(signals: set[int]) -> int:
    """A non-blocking descriptor that is readable while one of these signals, which are blocked, is pending."""
    mask = 0
    for number in signals:
        mask |= 1 << (number - 1)
    return call("signalfd4", -1, mask.to_bytes(8, sys.byteorder), 8, os.O_CLOEXEC | os.O_NONBLOCK)


def pending_signals(descriptor: int) -> set[int]:
    """Take the pending signals from a `signal_descriptor`."""
    found: set[int] = set()
    while True:
        try:
            record = os.read(descriptor, 128)
        except BlockingIOError:
            return found
        found.add(int.from_bytes(record[:4], sys.byteorder))
