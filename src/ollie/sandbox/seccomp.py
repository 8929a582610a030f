"""The seccomp filter of a run: system calls that Landlock does not cover, as a table compiled to BPF.

The default is to allow; what is denied answers with an errno, never with a signal, so that programs fall back or say
what failed. See seccomp(2), Documentation/userspace-api/seccomp_filter.rst and linux/filter.h.

`sendto` stays allowed (asyncio needs it): without a way to make a socket it reaches nothing new. A call whose arguments
are not looked at costs nothing at run time, since the kernel remembers its answer.
"""

import errno
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from socket import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM
from typing import NamedTuple

from ollie.protocol.policy import Network
from ollie.sandbox.numbers import X86_64, Machine, machine
from ollie.sandbox.syscalls import call

_MASK_TYPE = 0xF  # of socket(2)'s type, without SOCK_CLOEXEC and SOCK_NONBLOCK
_MASK_FORMAT = 0o170000
_CHARACTER_DEVICE, _BLOCK_DEVICE = 0o020000, 0o060000
_NAMESPACES = 0x7E020000  # CLONE_NEW* but CLONE_NEWTIME, whose bit means something else to clone(2)
_NEW_TIME = 0x80
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # they type into a terminal
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1


class Test(NamedTuple):
    """A condition on the low half of an argument: masked, it is one of `values`, or with `none` it is none of them."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    none: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """Calls that are answered with `error` when all tests hold."""

    calls: str
    error: int = errno.EPERM
    tests: tuple[Test, ...] = ()


# Denied under every policy.
ALWAYS: tuple[Rule, ...] = (
    Rule("clone3 io_uring_setup io_uring_enter io_uring_register", errno.ENOSYS),  # programs fall back to older calls
    Rule("bpf perf_event_open userfaultfd fanotify_init process_madvise kcmp modify_ldt"),
    Rule("add_key request_key keyctl"),
    Rule("mount umount2 pivot_root chroot move_mount open_tree open_tree_attr mount_setattr"),
    Rule("fsopen fsconfig fsmount fspick open_by_handle_at quotactl quotactl_fd swapon swapoff acct"),
    Rule("setns"),
    # Any of the bits: the masked value is not zero.
    Rule("clone", tests=(Test(0, (0,), _NAMESPACES, none=True),)),
    Rule("unshare", tests=(Test(0, (0,), _NAMESPACES | _NEW_TIME, none=True),)),
    Rule("process_vm_readv process_vm_writev pidfd_getfd"),
    Rule("ioctl", tests=(Test(1, (_TIOCSTI, _TIOCLINUX)),)),
    Rule("shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl"),
    # Of other processes; 0 is the caller.
    Rule("prlimit64", tests=(Test(0, (0,), none=True),)),
    Rule("sched_setscheduler sched_setparam sched_setattr sched_setaffinity", tests=(Test(0, (0,), none=True),)),
    Rule("setpriority", tests=(Test(0, (_PRIO_PROCESS,), none=True),)),
    Rule("setpriority ioprio_set", tests=(Test(1, (0,), none=True),)),
    Rule("ioprio_set", tests=(Test(0, (_IOPRIO_WHO_PROCESS,), none=True),)),
    Rule("migrate_pages move_pages"),
    Rule("mknod", tests=(Test(1, (_CHARACTER_DEVICE, _BLOCK_DEVICE), _MASK_FORMAT),)),
    Rule("mknodat", tests=(Test(2, (_CHARACTER_DEVICE, _BLOCK_DEVICE), _MASK_FORMAT),)),
    Rule("init_module finit_module delete_module kexec_load kexec_file_load reboot"),
    Rule("clock_settime clock_adjtime settimeofday adjtimex"),
    Rule("syslog sethostname setdomainname vhangup iopl ioperm uselib ustat sysfs lookup_dcookie nfsservctl"),
)

# Without Landlock nothing else keeps a tool from the memory of other processes.
WITHOUT_LANDLOCK: tuple[Rule, ...] = (Rule("ptrace"),)

_FAMILIES = (AF_INET, AF_INET6, AF_NETLINK)
_PAIR_TYPES = (SOCK_STREAM, SOCK_SEQPACKET)


def rules(network: Network, *, landlock: bool) -> tuple[Rule, ...]:
    """The rules for a policy's network section, and for whether Landlock is in force."""
    return ALWAYS + (() if landlock else WITHOUT_LANDLOCK) + _network(network)


def _network(network: Network) -> tuple[Rule, ...]:
    families = (_FAMILIES if network.enabled else ()) + ((AF_UNIX,) if network.unix_sockets else ())
    denied = [Rule("socket", errno.EACCES, (Test(0, families, none=True),) if families else ())]
    if network.enabled:
        # No raw sockets; of netlink only routes (0), which the resolver and getifaddrs read.
        denied.append(Rule("socket", errno.EACCES, (Test(0, (AF_INET, AF_INET6)), _not_type(SOCK_STREAM, SOCK_DGRAM))))
        denied.append(Rule("socket", errno.EACCES, (Test(0, (AF_NETLINK,)), Test(2, (0,), none=True))))
    if not network.unix_sockets:
        # A datagram pair can be sent anywhere by address; a connected stream pair cannot.
        denied.append(Rule("socketpair", errno.EACCES, (Test(0, (AF_UNIX,), none=True),)))
        denied.append(Rule("socketpair", errno.EACCES, (_not_type(*_PAIR_TYPES),)))
    return tuple(denied)


def _not_type(*types: int) -> Test:
    return Test(1, types, _MASK_TYPE, none=True)


# --- compilation: linux/bpf_common.h ---------------------------------------------------------------------------------

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06  # BPF_LD|W|ABS, BPF_ALU|AND|K, BPF_RET|K
_JUMP_EQUAL, _JUMP_GREATER_EQUAL = 0x15, 0x35
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NR, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32_BIT = 0x40000000


class Instruction(NamedTuple):
    """One BPF instruction; the jumps count instructions to skip, at most 255."""

    code: int
    jump_true: int
    jump_false: int
    value: int


def program(denied: tuple[Rule, ...], on: Machine) -> tuple[Instruction, ...]:
    """The filter for an architecture. Calls of another one, and of x32, answer ENOSYS."""
    refuse = Instruction(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    code = [Instruction(_LOAD, 0, 0, _ARCH), Instruction(_JUMP_EQUAL, 1, 0, on.audit), refuse]
    code.append(Instruction(_LOAD, 0, 0, _NR))
    if on is X86_64:
        code += [Instruction(_JUMP_GREATER_EQUAL, 0, 1, _X32_BIT), refuse]
    for rule in denied:
        for name in rule.calls.split():
            number = on.number(name)
            if number is not None:
                code += _check(number, rule)
    return (*code, Instruction(_RETURN, 0, 0, _ALLOW))


def _check(number: int, rule: Rule) -> Iterator[Instruction]:
    """`if nr == number and all tests: return error`, with the call number in the accumulator before and after."""
    body = [instruction for test in rule.tests for instruction in _test(test)]
    body.append(Instruction(_RETURN, 0, 0, _ERRNO | rule.error))
    # A failed test jumps behind the body, to the instruction that loads the number again.
    size = len(body)
    yield Instruction(_JUMP_EQUAL, 0, size + bool(rule.tests), number)
    for index, instruction in enumerate(body):
        rest = size - index - 1
        yield instruction._replace(
            jump_true=rest if instruction.jump_true == _OUT else instruction.jump_true,
            jump_false=rest if instruction.jump_false == _OUT else instruction.jump_false,
        )
    if rule.tests:
        yield Instruction(_LOAD, 0, 0, _NR)


_OUT = -1  # a jump that leaves the body, filled in by `_check`


def _test(test: Test) -> list[Instruction]:
    """Load, mask and compare; falls through when the test holds, leaves the body when not."""
    code = [Instruction(_LOAD, 0, 0, _ARGUMENTS + 8 * test.argument)]  # the low half comes first on both architectures
    if test.mask != Test(0, ()).mask:
        code.append(Instruction(_AND, 0, 0, test.mask))
    for index, value in enumerate(test.values):
        rest = len(test.values) - index - 1
        if test.none:
            code.append(Instruction(_JUMP_EQUAL, _OUT, 0, value))
        else:
            code.append(Instruction(_JUMP_EQUAL, rest, 0 if rest else _OUT, value))
    return code


@cache
def assembled(network: Network, *, landlock: bool) -> bytes:
    """The filter for this machine, as the kernel takes it; empty on an architecture that there is none for."""
    here = machine()
    if here is None:
        return b""
    return b"".join(struct.pack("=HBBI", *item) for item in program(rules(network, landlock=landlock), here))


def available() -> bool:
    """Whether the kernel takes filters: it then says that this pointer, not this mode, is wrong."""
    if machine() is None:
        return False
    try:
        call("seccomp", 1, 0, None)
    except OSError as error:
        return error.errno == errno.EFAULT
    return True
