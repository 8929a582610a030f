"""Files as the file tools see them: paths, what can be read as text, and replacing a file in one step."""

import os
import re
import stat
from contextlib import suppress
from itertools import count

from ollie.tools.program import ToolError

_NUL_WITHIN_BYTES = 8192
_NAMES_LOOKED_AT = 1000
_ALTERNATIVES = 100
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_ACL = "system.posix_acl_access"


def located(path: str) -> str:
    """`path` with `~/` replaced by the home directory.

    Raises:
        ToolError: for a path that no file can have.
    """
    if not path:
        raise ToolError("path is empty")
    if "\0" in path:
        raise ToolError("path contains a NUL")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ToolError("path is not unicode") from None
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path


def encoded(name: str, text: str) -> bytes:
    """`text` in UTF-8.

    Raises:
        ToolError: for text that has no such form; `name` is the argument's.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError(f"{name} is not unicode") from None


def alternatives(name: str, pattern: str) -> list[str]:
    """The patterns that one with braces, `{a,b}`, stands for.

    Raises:
        ToolError: for more than 100 of them; `name` is the argument's.
    """
    done: list[str] = []
    open_patterns = [pattern]
    while open_patterns:
        one = open_patterns.pop()
        braces = _BRACES.search(one)
        if braces is None:
            done.append(one)
        else:
            open_patterns += [one[: braces.start()] + word + one[braces.end() :] for word in braces[1].split(",")]
        if len(done) + len(open_patterns) > _ALTERNATIVES:
            raise ToolError(f"{name} stands for more than {_ALTERNATIVES} patterns; use fewer braces")
    return done


def status(path: str) -> os.stat_result:
    """The status of a regular file.

    Raises:
        ToolError: `…: no such file`, with the nearest name there is; `…: is a link to …, which does not
            exist`; `…: is a directory`; `…: not a regular file`.
    """
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(path):
            raise ToolError(f"{path}: is a link to {os.readlink(path)}, which does not exist") from None
        raise ToolError(f"{path}: no such file{_nearest(path)}") from None
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{path}: is a directory; list it with glob")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{path}: not a regular file")
    return found


def is_binary(start: bytes) -> bool:
    """Whether a file that begins like this is no text."""
    return b"\0" in start[:_NUL_WITHIN_BYTES]


def has_returns(data: bytes) -> bool:
    r"""Whether every line of a text ends in `\r\n`."""
    returns = data.count(b"\r\n")
    return returns > 0 and returns == data.count(b"\n")


def returned(text: bytes) -> bytes:
    r"""A text whose lines end in `\r\n`."""
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def replace(path: str, data: bytes) -> None:
    """Make `data` the content of a file in one step: whoever reads it sees the old or the new, never a part.

    A symbolic link stays, and the file that it leads to is replaced. Mode, owner and attributes stay. Where no second
    file can be made beside it or given to its owner, or it has other names (hard links) that must go on naming it, it
    is written in place.

    Raises:
        ToolError: the file is read-only, which being replaced would ignore.
    """
    path = os.path.realpath(path)
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not os.access(path, os.W_OK):
        raise ToolError(f"{path}: is read-only; to change it all the same make it writable first: chmod u+w")
    if old is None or old.st_nlink == 1:
        try:
            if _replaced(path, data, old):
                return
        except PermissionError:
            if old is None:
                raise
    _write_in_place(path, data)


def _replaced(path: str, data: bytes, old: os.stat_result | None) -> bool:
    """Put a new file in the place of one; False when it cannot be given to the owner of the old one."""
    try:
        descriptor, beside = _create_beside(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if old is not None and not _take_over(descriptor, path, old):
                os.unlink(beside)
                return False
            os.fsync(descriptor)
        os.rename(beside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    return True


def _create_beside(path: str) -> tuple[int, str]:
    directory = os.path.dirname(path)
    for number in count():
        beside = f"{directory}/.ollie-{os.getpid()}-{number}"
        try:
            return os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), beside
        except FileExistsError:
            continue
    raise AssertionError("count() ends")


def _take_over(descriptor: int, path: str, old: os.stat_result) -> bool:
    """Give the new file owner, mode and attributes of the old one; False when the owner cannot be given."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            return False
    # After the owner: a change of that takes set-id bits away.
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
    with suppress(OSError):  # a file system may have none
        for name in os.listxattr(path):
            if name.startswith("user.") or name == _ACL:
                os.setxattr(descriptor, name, os.getxattr(path, name))
    return True


def _write_in_place(path: str, data: bytes) -> None:
    with open(path, "r+b") as file:
        if data:  # on a full disk it fails here, before anything is lost
            os.posix_fallocate(file.fileno(), 0, len(data))
        file.write(data)
        file.truncate()


def _nearest(path: str) -> str:
    """A hint at what was meant, empty when there is nothing like it."""
    import difflib  # noqa: PLC0415  slow to import, and needed for errors only

    directory, name = os.path.split(path)
    try:
        with os.scandir(directory or ".") as entries:
            names = [entry.name for entry, _ in zip(entries, range(_NAMES_LOOKED_AT), strict=False)]
    except OSError:
        return f"; nor is there a directory {directory}" if directory else ""
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {os.path.join(directory, near[0])}?" if near else ""
