"""What a restricted program cannot do, tried from inside; and the same without a sandbox, where it works."""

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ollie.sandbox.landlock import abi

Inside = Callable[..., dict[str, Any]]

PYTHON = os.path.realpath(sys.executable)
SYSTEM_PYTHON = Path("/usr/bin/python3")
ATTEMPTS = Path(__file__).with_name("attempts.py")

BATTERY = {
    "filesystem": {
        "rw": ["{CWD}", "{TMPDIR}"],
        "rox": ["/usr", "/bin", "/lib", "/lib64"],
        "ro": ["/etc"],
    },
    "network": {"enabled": False},
    "advanced": {"add_exec": True},
}
WITH_PROC = {**BATTERY, "filesystem": {**BATTERY["filesystem"], "ro": ["/etc", "/proc", "/sys/class/block"]}}
WITH_NETWORK = {**BATTERY, "network": {"enabled": True}}


def attempt(inside: Inside, place: Path, name: str, policy: object) -> object:
    """What an attempt ended with: the name of an errno, or {"reached": …}."""
    shutil.copy(ATTEMPTS, place / "cwd" / "attempts.py")
    server = inside("server_pid")["pid"]
    result = inside(
        "run",
        place=str(place),
        argv=[PYTHON, "attempts.py", name, str(place), str(server)],
        policy=policy,
    )
    lines = [line for line in result["output"].splitlines() if line]
    assert result["status"] == 0, result["output"]
    return json.loads(lines[-1])


@pytest.fixture
def targets(place: Path) -> Iterator[Path]:
    """What the attempts aim at: a program, and unix sockets that listen."""
    shutil.copy("/bin/true", place / "outside" / "program")
    listening = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)]
    listening[0].bind(str(place / "outside" / "socket"))
    listening[0].listen()
    listening[1].bind(str(place / "outside" / "datagrams"))
    yield place
    for each in listening:
        each.close()


FILES = {
    "read_outside": "EACCES",
    "write_outside": "EACCES",
    "append_outside": "EACCES",
    "create_outside": "EACCES",
    "mkdir_outside": "EACCES",
    "symlink_outside": "EACCES",
    "unlink_outside": "EACCES",
    "truncate_outside": "EACCES",
    "truncate_by_open_outside": "EACCES",
    "list_outside": "EACCES",
    "write_etc": "EACCES",
    "read_through_symlink": "EACCES",
    "write_through_symlink": "EACCES",
    "read_through_directory_symlink": "EACCES",
    "hard_link_in": "EXDEV",
    "hard_link_out": "EACCES",
    "rename_in": "EACCES",
    "rename_out": "EACCES",
    "exchange": "EACCES",
    "dot_dot_from_descriptor": "EACCES",
    "dot_dot_from_path_descriptor": "EACCES",
    "reopen_path_descriptor": "EACCES",
    "open_by_handle": "EPERM",
    "make_device": "EPERM",
    "make_disk": "EPERM",
    "open_kernel_memory": "EACCES",
    "write_cgroup": "EACCES",
    "execute_written": "EACCES",
    "execute_outside": "EACCES",
    "attributes_outside": "ENOSYS",
}
PROCESSES = {
    "proc_root_of_server": "EACCES",
    "proc_cwd_of_server": "EACCES",
    "environment_of_server": "EACCES",
    "environment_of_parent": "EACCES",
    "memory_of_server": "EACCES",
    "memory_map_of_server": "EACCES",
    "descriptor_of_server": "EACCES",
    "ptrace_server": "EPERM",
    "memory_of_reaper": "EACCES",
    "descriptor_of_reaper": "EACCES",
    "ptrace_reaper": "EPERM",
    "take_descriptor_of_reaper": "EPERM",
    "limit_reaper": "EPERM",
    "reach_any_process": "EPERM",
    "read_memory_of_server": "EPERM",
    "take_descriptor_of_server": "EPERM",
    "compare_with_server": "EPERM",
    "signal_server": "EPERM",
    "signal_reaper": "EPERM",
    "signal_by_descriptor": "EPERM",
    "limit_server": "EPERM",
    "renice_server": "EPERM",
    "renice_user": "EPERM",
    "pin_server": "EPERM",
    "schedule_server": "EPERM",
    "enter_namespace_of_server": "EACCES",
    "enter_namespace_by_pidfd": "EPERM",
    "shared_memory": "EPERM",
    "remove_queue": "EPERM",
    "make_queue": "EPERM",
    "read_raw_disk": "EACCES",
}
NETWORK = dict.fromkeys(
    (
        "tcp_connect",
        "tcp_bind",
        "tcp_listen_unbound",
        "tcp_ipv6",
        "tcp_fast_open",
        "mptcp",
        "udp",
        "raw",
        "packet",
        "netlink",
        "netlink_audit",
        "vsock",
        "crypto",
        "unix_stream",
        "unix_datagram",
        "unix_abstract",
        "unix_datagram_pair",
    ),
    "EACCES",
)
# An ordinary user's namespace has one user only, and the kernel knows no other to refuse.
_ANOTHER_USER = "EPERM" if os.geteuid() == 0 else "EINVAL"
PRIVILEGES = {
    "user_namespace": "EPERM",
    "user_namespace_by_clone": "EPERM",
    "user_namespace_by_clone3": "ENOSYS",
    "mount": "EPERM",
    "chroot": "EPERM",
    "load_bpf": "EPERM",
    "keyring": "EPERM",
    "perf": "EPERM",
    "page_faults": "EPERM",
    "io_uring": "ENOSYS",
    "type_into_terminal": "EPERM",
    "paste_into_terminal": "EPERM",
    "old_system_call_table": "ENOSYS",
    "set_the_clock": "EPERM",
    "change_user": _ANOTHER_USER,
    "chown": _ANOTHER_USER,
}

needs_signals = pytest.mark.skipif(abi() < 6, reason=f"signals are scoped from Landlock ABI 6, this kernel has {abi()}")


@pytest.mark.skipif(abi() < 3, reason=f"truncation is confined from Landlock ABI 3, this kernel has {abi()}")
@pytest.mark.parametrize(("name", "expected"), FILES.items())
def test_files(inside: Inside, targets: Path, name: str, expected: object) -> None:
    """Nothing outside the policy is read, written, made, removed, moved or executed, on whatever way."""
    assert attempt(inside, targets, name, BATTERY) == expected
    assert (targets / "outside" / "secret").read_text() == "secret"
    assert sorted(path.name for path in (targets / "outside").iterdir()) == ["datagrams", "program", "secret", "socket"]


@needs_signals
@pytest.mark.parametrize(("name", "expected"), PROCESSES.items())
def test_processes(inside: Inside, targets: Path, name: str, expected: object) -> None:
    """The server and the reaper cannot be read, traced, signalled or slowed, even where /proc can be read."""
    assert attempt(inside, targets, name, WITH_PROC) == expected


@pytest.mark.parametrize(("name", "expected"), NETWORK.items())
def test_network_off(inside: Inside, targets: Path, name: str, expected: object) -> None:
    """Without network there is no socket of any family."""
    assert attempt(inside, targets, name, BATTERY) == expected


@pytest.mark.parametrize(
    "name",
    [
        "raw",
        "packet",
        "netlink_audit",
        "vsock",
        "crypto",
        "unix_stream",
        "unix_datagram",
        "unix_abstract",
        "unix_datagram_pair",
    ],
)
def test_network_on(inside: Inside, targets: Path, name: str) -> None:
    """With network only connections to hosts can be made: neither raw packets nor services of this machine."""
    assert attempt(inside, targets, name, WITH_NETWORK) == "EACCES"


@pytest.mark.parametrize(("name", "expected"), PRIVILEGES.items())
@pytest.mark.parametrize("policy", [BATTERY, WITH_NETWORK], ids=["network off", "network on"])
def test_privileges(inside: Inside, targets: Path, name: str, expected: object, policy: object) -> None:
    """The kernel's other doors are closed under every policy."""
    assert attempt(inside, targets, name, policy) == expected


def test_nothing_of_the_server_is_left(inside: Inside, targets: Path) -> None:
    """No descriptor, variable, capability, ignored signal or core file passes to a program."""
    found = attempt(inside, targets, "state", WITH_PROC)["reached"]
    assert found["descriptors"] == []
    assert set(found["environment"]) <= {"PATH", "HOME", "TMPDIR", "LANG", "LC_CTYPE"}
    assert found["capabilities"] == ["0" * 16] * 5
    assert (found["no_new_privs"], found["seccomp"]) == ("1", "2")
    assert found["core"] == [0, 0]
    assert found["signals"][0] == "0" * 16
    assert found["session"]


AS_NOBODY = {**WITH_PROC, "general": {"user": "nobody"}}


@pytest.mark.parametrize("abi", [0, 5, 99])
@pytest.mark.parametrize(
    ("policy", "before"),
    [
        (WITH_PROC, WITH_PROC),
        (None, None),
        pytest.param(
            WITH_PROC,
            AS_NOBODY,
            marks=[
                pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user"),
                pytest.mark.skipif(not SYSTEM_PYTHON.exists(), reason=f"there is no {SYSTEM_PYTHON} for every user"),
            ],
        ),
    ],
    ids=["confined", "no sandbox", "another user"],
)
def test_nothing_of_the_run_before_is_left(
    inside: Inside, targets: Path, policy: object, before: object, abi: int
) -> None:
    """A program of a reaper that had another run is what one of a new reaper is, whatever the other did."""
    shutil.copy(ATTEMPTS, targets / "cwd" / "attempts.py")
    python = str(SYSTEM_PYTHON) if before is AS_NOBODY else PYTHON
    found = inside("used_again", place=str(targets), policy=policy, before=before, python=python, abi=abi)
    assert found["before"]
    assert all(state == found["before"][0] for state in (*found["before"], *found["after"]))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make programs of another user")
def test_set_id_programs(inside: Inside, targets: Path) -> None:
    """They gain nothing: the same program runs as its owner without a sandbox."""
    program = targets / "outside" / "whoami"
    shutil.copy("/usr/bin/id", program)
    os.chown(program, 65534, 65534)
    program.chmod(0o6755)
    policy = {**BATTERY, "filesystem": {**BATTERY["filesystem"], "rox": [*BATTERY["filesystem"]["rox"], str(program)]}}
    for confined, ids in ((policy, "0\n0\n"), (None, "65534\n65534\n")):
        script = f"{program} -u; {program} -g"
        result = inside("run", place=str(targets), argv=["/bin/sh", "-c", script], policy=confined)
        assert result["output"] == ids


# What an unrestricted program can do, so that each of these tries is known to be a real one. The others need privileges
# or devices that a machine may lack, or would do harm.
HARMLESS = [
    "read_outside",
    "append_outside",
    "list_outside",
    "read_through_symlink",
    "read_through_directory_symlink",
    "hard_link_in",
    "dot_dot_from_descriptor",
    "dot_dot_from_path_descriptor",
    "reopen_path_descriptor",
    "execute_written",
    "execute_outside",
    "environment_of_server",
    "memory_map_of_server",
    "descriptor_of_server",
    "memory_of_reaper",
    "descriptor_of_reaper",
    "take_descriptor_of_reaper",
    "reach_any_process",
    "signal_server",
    "signal_by_descriptor",
    "tcp_bind",
    "tcp_listen_unbound",
    "netlink",
    "unix_stream",
    "unix_datagram_pair",
]


@pytest.mark.parametrize("name", HARMLESS)
def test_the_tries_are_real(inside: Inside, targets: Path, name: str) -> None:
    """Without a sandbox the same tries succeed."""
    if name == "unix_datagram_pair":
        (targets / "outside" / "socket").unlink()
        (targets / "outside" / "datagrams").rename(targets / "outside" / "socket")
    assert "reached" in attempt(inside, targets, name, None)
