"""Getting a descriptor of `/dev/fuse` mounted on a directory, and unmounting it.

Root calls mount(2). An ordinary user has `fusermount3` do it, of Debian's package fuse3, which checks that the
directory is theirs and hands the descriptor over through a socket. Everything here may block.
"""

import ctypes
import errno
import os
import shutil
import socket
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

FS_TYPE = "fuse.9p"

_DEVICE = "/dev/fuse"
_FUSERMOUNT = "fusermount3"
_LOAD = "load the module: modprobe fuse"
_OPEN = f"have root run: chmod 666 {_DEVICE}; a container has to be started with --device {_DEVICE}"
_CONTAINER = f"give the container what mounts need: --device {_DEVICE} --cap-add SYS_ADMIN"
_MS_NOSUID, _MS_NODEV = 2, 4
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8


class MountError(Exception):
    """It cannot be mounted or unmounted; the text says why, a second line what to do."""


class _Mounted(NamedTuple):
    """A line of /proc/self/mountinfo."""

    place: str
    fs_type: str
    source: str
    device: str


def prepare(directory: str) -> str:
    """Make sure that something can be mounted on a directory, and give its absolute path.

    What a mount left behind whose process was killed is unmounted.

    Raises:
        MountError: it is missing, no directory, not empty, or something is mounted there.
    """
    place = resolve(directory)
    if any(mounted.fs_type == FS_TYPE for mounted in _mounts(place)) and _is_dead(place):
        unmount(place, lazy=True)
    if _mounts(place):
        raise MountError(f"{directory} is a mount point already\nunmount it: ollie-9p umount {directory}")
    try:
        mode = os.stat(place).st_mode
    except OSError as error:
        remedy = f"\nmake it: mkdir -p {directory}" if error.errno == errno.ENOENT else ""
        raise MountError(f"{directory}: {_words(error)}{remedy}") from None
    if not stat.S_ISDIR(mode):
        raise MountError(f"{directory} is not a directory")
    try:
        with os.scandir(place) as entries:
            if any(entries):
                raise MountError(f"{directory} is not empty\nmount on an empty directory")
    except OSError as error:
        raise MountError(f"{directory}: {_words(error)}") from None
    return place


def resolve(directory: str) -> str:
    """The absolute path, without a look at the directory itself, which may be a mount that does not answer."""
    path = os.path.abspath(directory)  # without `..`, which Path would keep
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def mount(place: str, source: str) -> tuple[int, str]:
    """Mount on a directory that `prepare` gave.

    Args:
        place: an absolute path.
        source: what is shown as the device, the server's address usually.

    Returns:
        The descriptor, and the number of the device, `0:39`, by which a file system is known as long as it exists.

    Raises:
        MountError: the system refuses.
    """
    fd = _mount_directly(place, source) if os.geteuid() == 0 else _mount_by_helper(place, source)
    try:
        return fd, "".join(mounted.device for mounted in _mounts(place)[-1:])
    except BaseException:
        abandon(place, fd)
        raise


def abandon(place: str, fd: int) -> None:
    """Take back what was mounted and nobody serves: whoever looks at it would wait for as long as it is open."""
    os.close(fd)
    with suppress(MountError, OSError):
        unmount(place, lazy=True)


def _mount_directly(place: str, source: str) -> int:
    try:
        fd = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        remedy = _LOAD if error.errno in {errno.ENOENT, errno.ENODEV} else _CONTAINER
        raise MountError(f"{_DEVICE}: {_words(error)}\n{remedy}") from None
    options = f"fd={fd},rootmode={stat.S_IFDIR:o},user_id={os.getuid()},group_id={os.getgid()}"
    libc = ctypes.CDLL(None, use_errno=True)
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV)
    if libc.mount(source.encode(), os.fsencode(place), FS_TYPE.encode(), flags, options.encode()) != 0:
        os.close(fd)
        remedy = f"\n{_CONTAINER}" if ctypes.get_errno() == errno.EPERM else ""
        raise MountError(f"cannot mount on {place}: {_errno_words(ctypes.get_errno())}{remedy}")
    return fd


def _mount_by_helper(place: str, source: str) -> int:
    """As the helper wants it: the number of a socket in its environment, on which it sends the descriptor."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        name = source.replace("\\", "\\\\").replace(",", "\\,")
        options = f"nosuid,nodev,subtype={FS_TYPE.partition('.')[2]},fsname={name}"
        refusal = _help(["-o", options, "--", place], theirs.fileno())
        if refusal:
            remedy = f"\n{_OPEN}" if _DEVICE in refusal else ""
            raise MountError(f"cannot mount on {place}: {refusal}{remedy}")
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    if not fds:
        raise MountError(f"cannot mount on {place}: {_FUSERMOUNT} gave no descriptor")
    os.set_inheritable(fds[0], False)
    return fds[0]


def source_of(place: str) -> str:
    """The source of what this module mounted there and is served, empty when there is nothing."""
    mounts = _mounts(place)
    if not mounts or mounts[-1].fs_type != FS_TYPE or _is_dead(place):
        return ""
    return mounts[-1].source


def unmount(place: str, *, lazy: bool = False, device: str = "") -> None:
    """Unmount what this module mounted.

    Args:
        place: an absolute path, as `resolve` gives it.
        lazy: take it from the directory at once; those who use it may go on until they close it.
        device: of the file system, as `mount` gives it; any one when empty.

    Raises:
        MountError: nothing of ours is mounted there, or it is in use.
    """
    mounts = _mounts(place)
    if not mounts or mounts[-1].fs_type != FS_TYPE or device not in {"", mounts[-1].device}:
        raise MountError(f"{place} is not mounted by ollie-9p")
    if os.geteuid() != 0:
        refusal = _help(["-u", *(["-z"] if lazy else []), "--", place])
    else:
        refusal = _unmount_directly(place, _UMOUNT_NOFOLLOW | (_MNT_DETACH if lazy else 0))
    if refusal:
        busy = f"\na program has a file or its working directory there; all the same: ollie-9p umount -l {place}"
        raise MountError(f"cannot unmount {place}: {refusal}{busy if 'busy' in refusal else ''}")


def _unmount_directly(place: str, flags: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    return "" if libc.umount2(os.fsencode(place), flags) == 0 else _errno_words(ctypes.get_errno())


def _help(arguments: list[str], descriptor: int | None = None) -> str:
    """Run the helper, with a descriptor for it to answer on; what it refuses, empty for nothing."""
    program = shutil.which(_FUSERMOUNT)
    if program is None:
        raise MountError(
            f"{_FUSERMOUNT} is missing, which an ordinary user needs to mount\ninstall it: apt-get install fuse3"
        )
    environ, passed = dict(os.environ), []
    if descriptor is not None:
        environ["_FUSE_COMMFD"] = str(descriptor)
        passed = [descriptor]
    done = subprocess.run(  # noqa: S603  the helper of the system, without a shell
        [program, *arguments], env=environ, pass_fds=passed, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if not done.returncode:
        return ""
    words = done.stderr.decode(errors="replace").strip().splitlines()
    return words[0].rpartition(f"{_FUSERMOUNT}: ")[2] if words else f"{_FUSERMOUNT} failed"


def _mounts(place: str) -> list[_Mounted]:
    """What is mounted exactly there, the topmost last."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    return [mounted for mounted in map(_parse, lines) if mounted.place == place]


def _parse(line: bytes) -> _Mounted:
    """See proc(5): device and mount point are the third and fifth field, type and source the first after the dash."""
    before, _, after = line.partition(b" - ")
    device, place = before.split()[2], before.split()[4]
    fs_type, source = after.split()[:2]
    return _Mounted(_unescaped(place), fs_type.decode(), _unescaped(source), device.decode())


def _unescaped(field: bytes) -> str:
    """Without its octal escapes, which stand for blanks."""
    return os.fsdecode(field.decode("unicode_escape").encode("latin-1"))


def _is_dead(place: str) -> bool:
    """Whether the process behind a mount has gone. A bridge answers this by itself: its server may be away."""
    try:
        os.statvfs(place)
    except OSError as error:
        return error.errno in {errno.ENOTCONN, errno.ECONNABORTED}
    return False


def _words(error: OSError) -> str:
    return _errno_words(error.errno or 0)


def _errno_words(number: int) -> str:
    text = os.strerror(number)
    return text[:1].lower() + text[1:]
