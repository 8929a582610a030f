"""The directory for temporary files of one toolsrv: private, and gone when the server is.

It lies in another one that belongs to the server also where tools run as somebody else, and goes with that at the end.
What a killed server left behind is found by the next one: the outer directory stays locked while its server lives, so
one of ours that nobody holds is garbage.
"""

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

_RANDOM_BYTES = 8
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryDirectory:
    """A new private directory, locked by this process.

    Args:
        where: Where it is made.
        owner: Who tools run as; the user of this process when None.

    Attributes:
        path: The directory, mode 0700.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, where: Path, owner: int | None = None) -> None:
        name = _prefix() + os.urandom(_RANDOM_BYTES).hex()
        self._outer = where / name
        self.path = self._outer / "tmp"
        hidden = where / f".{name}"
        hidden.mkdir(0o700)
        hidden.chmod(0o711)  # whatever the umask
        (hidden / "tmp").mkdir(0o700)
        if owner is not None:
            os.chown(hidden / "tmp", owner, -1)
        self._fd = os.open(hidden, _DIRECTORY)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Under its own name only when locked, or a server that starts now would take it for garbage.
        hidden.rename(self._outer)

    def remove(self) -> None:
        """Delete the directory with everything in it; nothing may run that could write to it."""
        _remove(self._outer)
        os.close(self._fd)


def base() -> Path:
    """Where such directories are made: `$TMPDIR`, else `/tmp`; without links, which are not followed later."""
    return Path(os.environ.get("TMPDIR") or "/tmp").resolve()  # noqa: S108  each is made with a name of its own, private and locked


def sweep(where: Path) -> list[Path]:
    """Remove the directories of servers of this user that were killed; the paths of what was removed."""
    abandoned = [path for path in where.glob(_prefix() + "*") if _is_abandoned(path)]
    for path in abandoned:
        _remove(path)
    return abandoned


def _prefix() -> str:
    return f"ollie-tools.{os.getuid()}."


def _is_abandoned(path: Path) -> bool:
    """True for a directory of ours that no process holds."""
    try:
        fd = _opened(path)
    except OSError:
        return False
    try:
        if os.fstat(fd).st_uid != os.getuid():
            return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def _opened(path: Path) -> int:
    """A descriptor of a directory, also where a tool took the right to read it away."""
    try:
        return os.open(path, _DIRECTORY)
    except PermissionError:
        _made_ours(path)
        return os.open(path, _DIRECTORY)


def _remove(path: Path) -> None:
    """Delete a tree, however deep, also where a tool took the rights to its directories away; what refuses to go stays.

    Tools of a server that was killed may still run: what they put in the place of a directory is not followed. Every
    directory is moved to the top before it is emptied, so that depth takes neither stack nor descriptors.
    """
    try:
        _made_ours(path)
        top = os.open(path, _DIRECTORY)
    except OSError:
        return
    try:
        waiting = _cleared(top, top)
        while waiting:
            name = waiting.pop()
            with suppress(OSError):
                directory = os.open(name, _DIRECTORY, dir_fd=top)
                try:
                    waiting += _cleared(directory, top)
                finally:
                    os.close(directory)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    with suppress(OSError):
        path.rmdir()


def _cleared(directory: int, top: int) -> list[str]:
    """Delete what a directory has, but for its directories, which are moved to the top: their names there."""
    moved = []
    for name in os.listdir(directory):
        with suppress(OSError):
            if _made_ours(name, directory):
                new = os.urandom(_RANDOM_BYTES).hex()
                os.rename(name, new, src_dir_fd=directory, dst_dir_fd=top)
                moved.append(new)
            else:
                os.unlink(name, dir_fd=directory)
    return moved


def _made_ours(path: str | Path, directory: int | None = None) -> bool:
    """Whether there is a directory; all rights to it are taken back then."""
    try:
        found = os.open(path, os.O_PATH | _DIRECTORY, dir_fd=directory)
    except NotADirectoryError:
        return False
    try:
        Path(f"/proc/self/fd/{found}").chmod(stat.S_IRWXU)
    finally:
        os.close(found)
    return True
