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
from socket import (
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    AF_UNIX,
    IPPROTO_ICMP,
    IPPROTO_ICMPV6,
    IPPROTO_TCP,
    IPPROTO_UDP,
    SOCK_DGRAM,
    SOCK_SEQPACKET,
    SOCK_STREAM,
)
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
    # Programs fall back to older calls. The last one is a way to a file that Landlock does not see.
    Rule("clone3 io_uring_setup io_uring_enter io_uring_register file_setattr", errno.ENOSYS),
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
    Rule("shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink"),
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
# TCP and UDP, also over several paths (262) and as ping has it; the kernel loads the module of any other for who asks.
_PROTOCOLS = (0, IPPROTO_TCP, IPPROTO_UDP, 262, IPPROTO_ICMP, IPPROTO_ICMPV6)
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
        unknown = (Test(0, (AF_INET, AF_INET6)), Test(2, _PROTOCOLS, none=True))
        denied.append(Rule("socket", errno.EPROTONOSUPPORT, unknown))
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


class Step(NamedTuple):
    """An instruction whose jumps go to the next place of that name; without a name to the next step."""

    code: int
    value: int
    true: str = ""
    false: str = ""


Place = str  # a name in a list of steps
_ALLOWED, _REFUSED = Step(_RETURN, _ALLOW), Step(_RETURN, _ERRNO | errno.ENOSYS)


def program(denied: tuple[Rule, ...], on: Machine) -> tuple[Instruction, ...]:
    """The filter for an architecture. Calls of another one, and of x32, answer ENOSYS.

    The kernel runs it for every number once when it is loaded, and compiles it: so the number is searched for by
    halves, and what is answered alike shares its return.
    """
    rules_of: dict[int, list[Rule]] = {}
    for rule in denied:
        for name in rule.calls.split():
            number = on.number(name)
            if number is not None:
                rules_of.setdefault(number, []).append(rule)
    tested = {number: found for number, found in rules_of.items() if found[0].tests}
    errors = {number: found[0].error for number, found in rules_of.items() if not found[0].tests}
    goals = {number: f"call {number}" for number in tested} | {n: f"error {error}" for n, error in errors.items()}
    steps: list[Step | Place] = [Step(_LOAD, _ARCH), Step(_JUMP_EQUAL, on.audit, "native"), _REFUSED, "native"]
    steps.append(Step(_LOAD, _NR))
    if on is X86_64:
        steps += [Step(_JUMP_GREATER_EQUAL, _X32_BIT, false="search"), _REFUSED, "search"]
    steps += _search(_ranges(goals))
    for error in sorted(set(errors.values())):
        steps += [f"error {error}", Step(_RETURN, _ERRNO | error)]
    steps += ["allow", _ALLOWED]
    for number, found in tested.items():
        steps += [f"call {number}", *_tested(found)]
    return _placed(steps)


def _ranges(goals: dict[int, Place]) -> list[tuple[int, Place]]:
    """Where to go by number, as ranges: each begins with its number and ends before the next one."""
    ranges: list[tuple[int, Place]] = []
    for first in sorted({0, *goals, *(number + 1 for number in goals)}):
        goal = goals.get(first, "allow")
        if not ranges or ranges[-1][1] != goal:
            ranges.append((first, goal))
    return ranges


def _search(ranges: list[tuple[int, Place]]) -> Iterator[Step | Place]:
    """Go where the range of the number in the accumulator leads."""
    middle = len(ranges) // 2
    low, high = ranges[:middle], ranges[middle:]
    first, goal = high[0]
    upper = f"from {first}"
    yield Step(_JUMP_GREATER_EQUAL, first, goal if len(high) == 1 else upper, low[0][1] if len(low) == 1 else "")
    if len(low) > 1:
        yield from _search(low)
    if len(high) > 1:
        yield upper
        yield from _search(high)


def _tested(found: list[Rule]) -> Iterator[Step | Place]:
    """The first rule whose tests all hold answers; else the call is allowed."""
    for rule in found:
        for test in rule.tests:
            yield from _test(test)
        yield Step(_RETURN, _ERRNO | rule.error)
        yield "next rule"
    yield _ALLOWED


def _test(test: Test) -> Iterator[Step | Place]:
    """Load, mask and compare; falls through when the test holds, goes to the next rule when not."""
    yield Step(_LOAD, _ARGUMENTS + 8 * test.argument)  # the low half comes first on both architectures
    if test.mask != Test(0, ()).mask:
        yield Step(_AND, test.mask)
    for value in test.values[:-1]:
        yield Step(_JUMP_EQUAL, value, "next rule" if test.none else "holds")
    last = test.values[-1]
    yield Step(_JUMP_EQUAL, last, "next rule") if test.none else Step(_JUMP_EQUAL, last, false="next rule")
    yield "holds"


def _placed(steps: list[Step | Place]) -> tuple[Instruction, ...]:
    """The instructions, with their jumps counted; all of them lead forward."""
    code: list[Instruction] = []  # from the last one
    behind: dict[Place, int] = {}  # how many instructions follow a place
    for step in reversed(steps):
        if isinstance(step, Place):
            behind[step] = len(code)
            continue
        true, false = (len(code) - behind[place] if place else 0 for place in (step.true, step.false))
        code.append(Instruction(step.code, true, false, step.value))
    return tuple(reversed(code))


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
