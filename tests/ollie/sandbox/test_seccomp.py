"""The filter as a value: every rule is run through a small BPF machine, for both architectures."""

import errno
import itertools
import socket
import struct

import pytest

from ollie.protocol.policy import Network
from ollie.sandbox import seccomp
from ollie.sandbox.numbers import AARCH64, NUMBERS, X86_64, Machine

ALLOW = 0
Program = tuple[seccomp.Instruction, ...]
OFF, ON, UNIX, BOTH = (
    Network(),
    Network(enabled=True),
    Network(unix_sockets=True),
    Network(enabled=True, unix_sockets=True),
)
NEW_USER, NEW_NET, NEW_TIME = 0x10000000, 0x40000000, 0x80


def run(program: Program, number: int, arguments: tuple[int, ...] = (), audit: int = X86_64.audit) -> int:
    """The errno that a filter answers a call with, 0 when it is allowed."""
    data = struct.pack(
        "=IIQ6Q", number & 0xFFFFFFFF, audit, 0, *(value & (1 << 64) - 1 for value in (*arguments, *[0] * 6)[:6])
    )
    accumulator = at = 0
    while True:
        instruction = program[at]
        at += 1
        match instruction.code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, instruction.value)
            case 0x54:
                accumulator &= instruction.value
            case 0x15:
                at += instruction.jump_true if accumulator == instruction.value else instruction.jump_false
            case 0x35:
                at += instruction.jump_true if accumulator >= instruction.value else instruction.jump_false
            case 0x06:
                return ALLOW if instruction.value == 0x7FFF0000 else instruction.value & 0xFFFF
            case _:
                pytest.fail(f"unknown instruction {instruction}")


def answer(machine: Machine, network: Network, call: str, *arguments: object, landlock: bool = True) -> int:
    program = seccomp.program(seccomp.rules(network, landlock=landlock), machine)
    number = machine.number(call)
    return ALLOW if number is None else run(program, number, arguments, machine.audit)


MACHINES = pytest.mark.parametrize("machine", [X86_64, AARCH64], ids=lambda machine: machine.name)

CASES = [
    # call, arguments, without and with network, and with unix sockets
    ("socket", (socket.AF_INET, socket.SOCK_STREAM, 0), errno.EACCES, ALLOW, errno.EACCES),
    ("socket", (socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, 17), errno.EACCES, ALLOW, errno.EACCES),
    ("socket", (socket.AF_INET, socket.SOCK_STREAM, 262), errno.EACCES, ALLOW, errno.EACCES),
    ("socket", (socket.AF_INET6, socket.SOCK_DGRAM, 58), errno.EACCES, ALLOW, errno.EACCES),
    ("socket", (socket.AF_INET, socket.SOCK_STREAM, 132), errno.EACCES, errno.EPROTONOSUPPORT, errno.EACCES),
    ("socket", (socket.AF_INET6, socket.SOCK_DGRAM, 136), errno.EACCES, errno.EPROTONOSUPPORT, errno.EACCES),
    ("socket", (socket.AF_INET, socket.SOCK_RAW, 1), errno.EACCES, errno.EACCES, errno.EACCES),
    ("socket", (socket.AF_INET, socket.SOCK_STREAM | 1 << 40, 0), errno.EACCES, ALLOW, errno.EACCES),
    ("socket", (socket.AF_UNIX, socket.SOCK_STREAM, 0), errno.EACCES, errno.EACCES, ALLOW),
    ("socket", (socket.AF_UNIX | 1 << 32, socket.SOCK_STREAM, 0), errno.EACCES, errno.EACCES, ALLOW),
    ("socket", (socket.AF_NETLINK, socket.SOCK_RAW, 0), errno.EACCES, ALLOW, errno.EACCES),
    ("socket", (socket.AF_NETLINK, socket.SOCK_RAW, 9), errno.EACCES, errno.EACCES, errno.EACCES),
    ("socket", (socket.AF_PACKET, socket.SOCK_RAW, 0), errno.EACCES, errno.EACCES, errno.EACCES),
    ("socket", (socket.AF_VSOCK, socket.SOCK_STREAM, 0), errno.EACCES, errno.EACCES, errno.EACCES),
    ("socketpair", (socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK, 0), ALLOW, ALLOW, ALLOW),
    ("socketpair", (socket.AF_UNIX, socket.SOCK_SEQPACKET, 0), ALLOW, ALLOW, ALLOW),
    ("socketpair", (socket.AF_UNIX, socket.SOCK_DGRAM, 0), errno.EACCES, errno.EACCES, ALLOW),
    ("socketpair", (socket.AF_INET, socket.SOCK_STREAM, 0), errno.EACCES, errno.EACCES, ALLOW),
]


@MACHINES
@pytest.mark.parametrize(("call", "arguments", "answers"), [(*case[:2], case[2:]) for case in CASES])
def test_network(machine: Machine, call: str, arguments: tuple[int, ...], answers: tuple[int, ...]) -> None:
    """Which sockets can be made, for each setting of the network."""
    off, on, unix = answers
    assert answer(machine, OFF, call, *arguments) == off
    assert answer(machine, ON, call, *arguments) == on
    assert answer(machine, UNIX, call, *arguments) == unix
    assert answer(machine, BOTH, call, *arguments) in {on, unix}


ALWAYS = [
    ("clone3", (), errno.ENOSYS),
    ("io_uring_setup", (), errno.ENOSYS),
    ("clone", (17,), ALLOW),
    ("clone", (0x3D0F00,), ALLOW),  # a thread
    ("clone", (17 | NEW_USER,), errno.EPERM),
    ("clone", (17 | NEW_NET,), errno.EPERM),
    ("unshare", (0x400,), ALLOW),
    ("unshare", (NEW_USER,), errno.EPERM),
    ("unshare", (NEW_TIME,), errno.EPERM),
    ("setns", (3, 0), errno.EPERM),
    ("mount", (), errno.EPERM),
    ("open_tree_attr", (), errno.EPERM),
    ("bpf", (), errno.EPERM),
    ("keyctl", (), errno.EPERM),
    ("ioctl", (0, 0x5413), ALLOW),
    ("ioctl", (0, 0x5412), errno.EPERM),
    ("ioctl", (0, 1 << 32 | 0x5412), errno.EPERM),
    ("ioctl", (0, 0x541C), errno.EPERM),
    ("prlimit64", (0, 7), ALLOW),
    ("prlimit64", (1, 7), errno.EPERM),
    ("setpriority", (0, 0, 5), ALLOW),
    ("setpriority", (0, 1, 5), errno.EPERM),
    ("setpriority", (2, 0, 5), errno.EPERM),
    ("ioprio_set", (1, 0, 5), ALLOW),
    ("ioprio_set", (3, 0, 5), errno.EPERM),
    ("sched_setaffinity", (0,), ALLOW),
    ("sched_setaffinity", (77,), errno.EPERM),
    ("mknodat", (-100, 0, 0o100644), ALLOW),
    ("mknodat", (-100, 0, 0o010644), ALLOW),
    ("mknodat", (-100, 0, 0o020644), errno.EPERM),
    ("mknodat", (-100, 0, 0o060644), errno.EPERM),
    ("mknod", (0, 0o140644), ALLOW),
    ("shmget", (), errno.EPERM),
    ("mq_unlink", (), errno.EPERM),
    ("file_setattr", (), errno.ENOSYS),
    ("pidfd_getfd", (), errno.EPERM),
    ("process_vm_readv", (), errno.EPERM),
    ("clock_settime", (), errno.EPERM),
    ("kexec_load", (), errno.EPERM),
    ("ptrace", (), ALLOW),
    ("seccomp", (), ALLOW),
    ("landlock_restrict_self", (), ALLOW),
    ("pidfd_getfd", (1,), errno.EPERM),
]


@MACHINES
@pytest.mark.parametrize("network", [OFF, BOTH], ids=["off", "on"])
@pytest.mark.parametrize(("call", "arguments", "expected"), ALWAYS)
def test_always(machine: Machine, network: Network, call: str, arguments: tuple[int, ...], expected: object) -> None:
    """What is denied whatever the policy says, and what lies beside it and is not."""
    assert answer(machine, network, call, *arguments) == expected


@MACHINES
def test_without_landlock_nothing_is_traced(machine: Machine) -> None:
    """Where Landlock does not keep a tracer inside, tracing is denied."""
    assert answer(machine, ON, "ptrace", landlock=False) == errno.EPERM


@MACHINES
def test_other_architectures(machine: Machine) -> None:
    """Calls of another architecture and of x32 do not exist."""
    program = seccomp.program(seccomp.rules(OFF, landlock=True), machine)
    assert run(program, 20, audit=0x40000003) == errno.ENOSYS
    assert run(program, 20, audit=machine.audit) == ALLOW
    if machine is X86_64:
        assert run(program, 0x40000000 | 39, audit=machine.audit) == errno.ENOSYS
        assert run(program, -1, audit=machine.audit) == errno.ENOSYS


@MACHINES
@pytest.mark.parametrize("network", [OFF, ON, UNIX, BOTH])
@pytest.mark.parametrize("landlock", [True, False])
def test_every_jump_stays_inside(machine: Machine, network: Network, landlock: object) -> None:
    """The kernel's limits: 4096 instructions, jumps forward within the program, a return at its end."""
    program = seccomp.program(seccomp.rules(network, landlock=bool(landlock)), machine)
    assert len(program) < 4096
    for index, instruction in enumerate(program):
        for jump in (instruction.jump_true, instruction.jump_false):
            assert 0 <= jump <= 255
            assert index + 1 + jump < len(program) or instruction.code == 0x06
    assert program[-1].code == 0x06


@MACHINES
@pytest.mark.parametrize("network", [OFF, ON, UNIX, BOTH])
@pytest.mark.parametrize("landlock", [True, False])
def test_filter_answers_as_the_table_says(machine: Machine, network: Network, landlock: object) -> None:
    """Every number is answered by the first of its rules whose tests all hold, whatever the arguments."""
    program = seccomp.program(seccomp.rules(network, landlock=bool(landlock)), machine)
    rules: dict[int | None, list[seccomp.Rule]] = {}
    for rule in seccomp.rules(network, landlock=bool(landlock)):
        for call in rule.calls.split():
            rules.setdefault(machine.number(call), []).append(rule)
    for number in range(1024):
        own = rules.get(number, [])
        values = {value for rule in own for test in rule.tests for value in (*test.values, test.mask)} | {7}
        for arguments in itertools.product(values, repeat=3 if len(values) > 1 else 1):
            given = (*arguments, 0, 0)
            expected = next((rule.error for rule in own if all(_holds(test, given) for test in rule.tests)), ALLOW)
            assert run(program, number, given, machine.audit) == expected
            # The kernel takes ints of 32 bits where it is asked: what is in the upper half changes nothing.
            assert run(program, number, tuple(each | 0xDEAD << 32 for each in given), machine.audit) == expected
        for audit in {X86_64.audit, AARCH64.audit, 0x40000003, 0x40000028, 0} - {machine.audit}:
            assert run(program, number, audit=audit) == errno.ENOSYS
        if machine is X86_64:
            assert run(program, number | 0x40000000, audit=machine.audit) == errno.ENOSYS
    for number in (1024, 4095, 1 << 16, 1 << 29, 0x3FFFFFFF):
        assert run(program, number, audit=machine.audit) == ALLOW


def _holds(test: seccomp.Test, arguments: tuple[int, ...]) -> bool:
    return ((arguments[test.argument] & 0xFFFFFFFF & test.mask) in test.values) is not test.none


def test_numbers_are_distinct() -> None:
    """No two calls share a number, and every rule's call is in the table."""
    for column in (0, 1):
        known = [numbers[column] for numbers in NUMBERS.values() if numbers[column] is not None]
        assert len(known) == len(set(known))
    for rule in seccomp.rules(OFF, landlock=False):
        assert set(rule.calls.split()) <= NUMBERS.keys()
