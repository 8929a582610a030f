"""Attempts to break out, run as `python attempts.py NAME PLACE SERVER_PID` inside the sandbox.

Each function tries one thing. What it raises is printed as the name of its errno (`EACCES`); when it returns,
`reached` with what it returned. Only the standard library, and system calls by number through libc.
"""
# An attempt is as close to the system call as can be, and answers by print.
# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH208, PTH115, PTH211, PLW1510, T201

import ctypes
import errno
import fcntl
import os
import platform
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

X86 = platform.machine() == "x86_64"
NUMBERS = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clone": (56, 220),
    "clone3": (435, 435),
    "file_setattr": (469, 469),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "setns": (308, 268),
    "shmget": (29, 194),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    number = NUMBERS[name][0 if X86 else 1]
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *passed)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


class Here:
    """Where an attempt runs: the paths of the test, and the server's process."""

    def __init__(self, place: str, server: int) -> None:
        self.secret = f"{place}/outside/secret"
        self.outside = f"{place}/outside"
        self.place = place
        self.server = server


# --- files -----------------------------------------------------------------------------------------------------------


def read_outside(here: Here) -> object:
    return Path(here.secret).read_text()


def write_outside(here: Here) -> object:
    Path(here.secret).write_text("changed")


def append_outside(here: Here) -> object:
    os.close(os.open(here.secret, os.O_WRONLY | os.O_APPEND))


def create_outside(here: Here) -> object:
    os.close(os.open(f"{here.outside}/new", os.O_CREAT | os.O_WRONLY))


def mkdir_outside(here: Here) -> object:
    os.mkdir(f"{here.outside}/new")


def symlink_outside(here: Here) -> object:
    os.symlink("/etc", f"{here.outside}/new")


def unlink_outside(here: Here) -> object:
    os.unlink(here.secret)


def truncate_outside(here: Here) -> object:
    os.truncate(here.secret, 0)


def truncate_by_open_outside(here: Here) -> object:
    os.close(os.open(here.secret, os.O_RDONLY | os.O_TRUNC))


def list_outside(here: Here) -> object:
    return os.listdir(here.outside)


def write_etc(_: Here) -> object:
    os.close(os.open("/etc/passwd", os.O_WRONLY | os.O_APPEND))


def read_through_symlink(here: Here) -> object:
    os.symlink(here.secret, "link")
    return Path("link").read_text()


def write_through_symlink(here: Here) -> object:
    os.symlink(here.secret, "link")
    Path("link").write_text("changed")


def read_through_directory_symlink(here: Here) -> object:
    os.symlink(here.outside, "link")
    return Path("link/secret").read_text()


def hard_link_in(here: Here) -> object:
    os.link(here.secret, "link")


def hard_link_out(here: Here) -> object:
    Path("mine").write_text("mine")
    os.link("mine", f"{here.outside}/link")


def rename_in(here: Here) -> object:
    os.rename(here.secret, "mine")


def rename_out(here: Here) -> object:
    Path("mine").write_text("mine")
    os.rename("mine", f"{here.outside}/mine")


def exchange(here: Here) -> object:
    Path("mine").write_text("mine")
    result = LIBC.renameat2(-100, b"mine", -100, here.secret.encode(), 2)
    if result:
        raise OSError(ctypes.get_errno(), "renameat2")


def dot_dot_from_descriptor(_: Here) -> object:
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    return os.open("../outside/secret", os.O_RDONLY, dir_fd=here)


def dot_dot_from_path_descriptor(here: Here) -> object:
    outside = os.open(here.outside, os.O_PATH | os.O_DIRECTORY)
    return os.open("secret", os.O_RDONLY, dir_fd=outside)


def reopen_path_descriptor(here: Here) -> object:
    secret = os.open(here.secret, os.O_PATH)
    return Path(f"/proc/self/fd/{secret}").read_text()


def proc_root_of_server(here: Here) -> object:
    return Path(f"/proc/{here.server}/root{here.secret}").read_text()


def proc_cwd_of_server(here: Here) -> object:
    return os.listdir(f"/proc/{here.server}/cwd")


def open_by_handle(here: Here) -> object:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    call("name_to_handle_at", -100, here.secret.encode(), handle, ctypes.create_string_buffer(8), 0)
    root = os.open("/", os.O_PATH)
    return call("open_by_handle_at", root, handle, os.O_RDONLY)


def make_device(_: Here) -> object:
    os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))


def make_disk(_: Here) -> object:
    os.mknod("disk", stat.S_IFBLK | 0o666, os.makedev(7, 0))


def read_raw_disk(_: Here) -> object:
    disk = next(f"/dev/{name}" for name in os.listdir("/sys/class/block"))
    return os.open(disk, os.O_RDONLY)


def open_kernel_memory(_: Here) -> object:
    return os.open("/dev/kmsg", os.O_RDONLY)


def write_cgroup(_: Here) -> object:
    return os.open("/sys/fs/cgroup/cgroup.procs", os.O_WRONLY | os.O_CREAT)


def execute_written(_: Here) -> object:
    Path("program").write_bytes(Path("/bin/true").read_bytes())
    os.chmod("program", 0o755)
    return subprocess.run(["./program"]).returncode


def execute_outside(here: Here) -> object:
    return subprocess.run([f"{here.outside}/program"]).returncode


# --- other processes -------------------------------------------------------------------------------------------------


def environment_of_server(here: Here) -> object:
    return Path(f"/proc/{here.server}/environ").read_bytes()


def environment_of_parent(_: Here) -> object:
    return Path(f"/proc/{os.getppid()}/environ").read_bytes()


def memory_of_server(here: Here) -> object:
    return os.open(f"/proc/{here.server}/mem", os.O_RDONLY)


def memory_of_reaper(_: Here) -> object:
    return os.open(f"/proc/{os.getppid()}/mem", os.O_RDWR)


def descriptor_of_reaper(_: Here) -> object:
    return os.readlink(f"/proc/{os.getppid()}/fd/4")


def take_descriptor_of_reaper(_: Here) -> object:
    call("pidfd_getfd", os.pidfd_open(os.getppid()), 4, 0)


def limit_reaper(_: Here) -> object:
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3))


def reach_any_process(_: Here) -> object:
    """Signal, or open memory or descriptors of, whatever is to be seen: the launcher, reapers, what stands by."""
    others = [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]
    reached = [pid for pid in others for reach in (_signal, _open_memory, _follow_descriptor) if _reaches(reach, pid)]
    if not reached and len(others) > 3:
        raise PermissionError(errno.EPERM, "nothing")
    return reached


def _reaches(reach: Callable[[int], object], pid: int) -> bool:
    try:
        reach(pid)
    except (PermissionError, ProcessLookupError, FileNotFoundError):  # refused, or it has ended meanwhile
        return False
    return True


def _signal(pid: int) -> None:
    os.kill(pid, 0)


def _open_memory(pid: int) -> None:
    os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))


def _follow_descriptor(pid: int) -> None:
    os.readlink(f"/proc/{pid}/fd/0")


def memory_map_of_server(here: Here) -> object:
    return Path(f"/proc/{here.server}/maps").read_text()


def descriptor_of_server(here: Here) -> object:
    return os.open(f"/proc/{here.server}/fd/1", os.O_WRONLY)


def ptrace_server(here: Here) -> object:
    call("ptrace", 16, here.server, 0, 0)


def ptrace_reaper(_: Here) -> object:
    call("ptrace", 16, os.getppid(), 0, 0)


def read_memory_of_server(here: Here) -> object:
    buffer = ctypes.create_string_buffer(8)
    vector = struct.pack("PN", ctypes.addressof(buffer), 8)
    call("process_vm_readv", here.server, vector, 1, vector, 1, 0)


def take_descriptor_of_server(here: Here) -> object:
    call("pidfd_getfd", os.pidfd_open(here.server), 0, 0)


def compare_with_server(here: Here) -> object:
    call("kcmp", os.getpid(), here.server, 0, 0, 0)


def signal_server(here: Here) -> object:
    os.kill(here.server, 0)


def signal_reaper(_: Here) -> object:
    os.kill(os.getppid(), signal.SIGSTOP)


def signal_by_descriptor(here: Here) -> object:
    signal.pidfd_send_signal(os.pidfd_open(here.server), 0)


def limit_server(here: Here) -> object:
    resource.prlimit(here.server, resource.RLIMIT_NOFILE, (3, 3))


def renice_server(here: Here) -> object:
    os.setpriority(os.PRIO_PROCESS, here.server, 19)


def renice_user(_: Here) -> object:
    os.setpriority(os.PRIO_USER, os.getuid(), 19)


def pin_server(here: Here) -> object:
    os.sched_setaffinity(here.server, {0})


def schedule_server(here: Here) -> object:
    os.sched_setscheduler(here.server, os.SCHED_BATCH, os.sched_param(0))


def enter_namespace_of_server(here: Here) -> object:
    call("setns", os.open(f"/proc/{here.server}/ns/mnt", os.O_RDONLY), 0)


def enter_namespace_by_pidfd(here: Here) -> object:
    call("setns", os.pidfd_open(here.server), 0x20000)


def shared_memory(_: Here) -> object:
    call("shmget", 0, 4096, 0o1600)


def remove_queue(_: Here) -> object:
    """A POSIX message queue of the user, whether there is one or not."""
    call("mq_unlink", b"ollie-test-queue")


def make_queue(_: Here) -> object:
    call("mq_open", b"ollie-test-mine", os.O_CREAT | os.O_RDWR, 0o600, None)


def attributes_outside(here: Here) -> object:
    """Those that chattr(1) sets, by path."""
    call("file_setattr", -100, here.secret.encode(), bytes(24), 24, 0)


# --- network ---------------------------------------------------------------------------------------------------------


def tcp_connect(_: Here) -> object:
    socket.create_connection(("127.0.0.1", 9))


def tcp_bind(_: Here) -> object:
    socket.socket(socket.AF_INET).bind(("127.0.0.1", 0))


def tcp_listen_unbound(_: Here) -> object:
    socket.socket(socket.AF_INET).listen()


def tcp_ipv6(_: Here) -> object:
    socket.socket(socket.AF_INET6)


def tcp_fast_open(_: Here) -> object:
    socket.socket(socket.AF_INET).sendto(b"x", 0x20000000, ("127.0.0.1", 9))


def mptcp(_: Here) -> object:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)


def udp(_: Here) -> object:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))


def raw(_: Here) -> object:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


def packet(_: Here) -> object:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)


def netlink(_: Here) -> object:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)


def netlink_audit(_: Here) -> object:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)


def vsock(_: Here) -> object:
    socket.socket(socket.AF_VSOCK)


def crypto(_: Here) -> object:
    socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)


def unix_stream(here: Here) -> object:
    socket.socket(socket.AF_UNIX).connect(f"{here.outside}/socket")


def unix_datagram(here: Here) -> object:
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", f"{here.outside}/socket")


def unix_abstract(here: Here) -> object:
    socket.socket(socket.AF_UNIX).connect(f"\0ollie-{here.server}")


def unix_datagram_pair(here: Here) -> object:
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.sendto(b"x", f"{here.outside}/socket")


# --- privileges and the kernel ---------------------------------------------------------------------------------------


def user_namespace(_: Here) -> object:
    call("unshare", 0x10000000)


def user_namespace_by_clone(_: Here) -> object:
    if call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


def user_namespace_by_clone3(_: Here) -> object:
    arguments = struct.pack("11Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    if call("clone3", arguments, len(arguments)) == 0:
        os._exit(0)


def mount(_: Here) -> object:
    call("mount", b"none", b"/tmp", b"tmpfs", 0, None)


def chroot(_: Here) -> object:
    os.chroot(".")


def load_bpf(_: Here) -> object:
    call("bpf", 0, bytes(128), 128)


def keyring(_: Here) -> object:
    call("add_key", b"user", b"name", b"x", 1, -3)


def perf(_: Here) -> object:
    call("perf_event_open", bytes(128), 0, -1, -1, 0)


def page_faults(_: Here) -> object:
    call("userfaultfd", 1)


def io_uring(_: Here) -> object:
    call("io_uring_setup", 1, bytes(120))


def type_into_terminal(_: Here) -> object:
    fcntl.ioctl(0, 0x5412, b"x")


def paste_into_terminal(_: Here) -> object:
    fcntl.ioctl(0, 0x541C, b"\x03")


def old_system_call_table(_: Here) -> object:
    """Getpid of x32."""
    if not X86:
        raise OSError(errno.ENOSYS, "only x86_64 has x32")
    if LIBC.syscall(ctypes.c_long(0x40000000 | 39)) == -1:
        raise OSError(ctypes.get_errno(), "x32")


def set_the_clock(_: Here) -> object:
    import time

    time.clock_settime(time.CLOCK_REALTIME, time.time())


def change_user(_: Here) -> object:
    os.setuid(65534 if os.getuid() == 0 else 0)


def chown(_: Here) -> object:
    Path("mine").write_text("mine")
    os.chown("mine", 65534 if os.getuid() == 0 else 0, -1)


def raise_limit(_: Here) -> object:
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))


# --- what is left of the server --------------------------------------------------------------------------------------


def state(_: Here) -> object:
    """Descriptors, environment and privileges, for the test to judge."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    descriptors = [number for number in range(3, 1024) if _is_open(number)]
    return {
        "descriptors": descriptors,
        "environment": sorted(os.environ),
        "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
        "no_new_privs": status["NoNewPrivs"],
        "seccomp": status["Seccomp"],
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "signals": [status[name] for name in ("SigBlk", "SigIgn")],
        "session": os.getsid(0) == os.getpid(),
        "group": os.getpgid(0) == os.getpid(),
        "ids": [status["Uid"], status["Gid"], status["Groups"]],
        "mask": status.get("Umask"),
        "limits": [resource.getrlimit(number) for number in range(16)],
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": [os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))],
        "oom": Path("/proc/self/oom_score_adj").read_text(),
        "personality": LIBC.personality(0xFFFFFFFF),
        "dumpable": LIBC.prctl(3, 0, 0, 0, 0),
        "subreaper": _subreaper(),
        "parent dies": _parent_death_signal(),
        "directory": str(Path.cwd()),
        "others": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
    }


def spoil(_: Here) -> object:
    """Change all that a program may change of itself, and leave processes behind that do the same."""
    first = os.getpid()
    for _each in range(2):
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.umask(0o777)
        os.nice(5)
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for number in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
            resource.setrlimit(number, (60, 60))
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        LIBC.personality(0x0040000)
        LIBC.prctl(4, 0, 0, 0, 0)
        LIBC.prctl(36, 1, 0, 0, 0)
        LIBC.prctl(1, signal.SIGUSR1, 0, 0, 0)
        os.chdir("/")
    while os.getpid() != first:
        signal.pause()
    return "changed"


def _subreaper() -> int:
    value = ctypes.c_int()
    LIBC.prctl(37, ctypes.byref(value), 0, 0, 0)
    return value.value


def _parent_death_signal() -> int:
    value = ctypes.c_int()
    LIBC.prctl(2, ctypes.byref(value), 0, 0, 0)
    return value.value


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def main() -> None:
    import json

    name, place, server = sys.argv[1:]
    try:
        found = globals()[name](Here(place, int(server)))
    except OSError as error:
        print(json.dumps(errno.errorcode.get(error.errno, str(error))))
    else:
        print(json.dumps({"reached": found if not isinstance(found, bytes) else found.decode(errors="replace")}))


main()
