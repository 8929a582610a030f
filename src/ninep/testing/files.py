"""What a tree has to do as files: the same tree, asked by system calls in a directory and by 9P at its server.

Whoever mounted it, the answers are to agree. Without any file named, nothing is opened but what must be refused, so
that the suite can be run in a tree in use. The process that runs it must not be the one that serves the mount.
"""

import errno
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ninep.blocking import OREAD, Connection
from ninep.blocking import Stat as Record
from ninep.errors import NinepError
from ninep.testing.rule import Check

_CHECKS: "Final[list[tuple[str, Callable[[_Tree], None], str]]]" = []
_DIRECTORIES = 50  # that are looked at, those nearest to the root
_READERS = 20
_END_S = 10  # how long a reader that got a signal may take to end
_SAMPLE = b"0123456789\n" * 30_000  # more than one message holds
_NO_NAME = "no such file here"


@dataclass(frozen=True, slots=True)
class Named:
    """Files that a tree lets somebody play with; a check whose file is not named is left out.

    Args:
        text: stored text; it is written, and has its old content in the end.
        blocked: a file whose read waits.
        renamed: what can be renamed; it has its old name in the end.
        removed: what can be removed; it is gone in the end.
    """

    text: str = ""
    blocked: str = ""
    renamed: str = ""
    removed: str = ""


class _Tree:
    """The directory, the connection, and the files named."""

    def __init__(self, directory: Path, connection: Connection, named: Named) -> None:
        self.directory = directory
        self.connection = connection
        self.text = directory / named.text
        self.blocked = directory / named.blocked
        self.renamed = directory / named.renamed
        self.removed = directory / named.removed

    def record(self, path: Path) -> Record:
        """What the server says of a file."""
        return self.connection.stat(self._name(path))

    def content(self, path: Path) -> bytes:
        """What the server reads."""
        with self.connection.open(self._name(path), OREAD) as file:
            return b"".join(file)

    def _name(self, path: Path) -> str:
        return "" if path == self.directory else path.relative_to(self.directory).as_posix()

    def directories(self) -> Iterator[tuple[Path, list[Record]]]:
        """Those nearest to the root, with the entries that the server lists."""
        waiting = [self.directory]
        for _ in range(_DIRECTORIES):
            if not waiting:
                return
            path = waiting.pop(0)
            entries = self.connection.ls(self._name(path))
            waiting += [path / entry.name for entry in entries if entry.is_directory]
            yield path, entries

    def entries(self) -> Iterator[tuple[Path, Record]]:
        """All in those directories."""
        for path, entries in self.directories():
            for entry in entries:
                yield path / entry.name, entry


def files(directory: str, address: str, named: Named, *, uname: str, aname: str = "") -> list[Check]:
    """Run the checks.

    Args:
        directory: where the tree is mounted.
        address: where it is served, a dial string.
        named: what may be written, renamed and removed.
        uname: who mounted it; must be let in without a secret.
        aname: which tree is mounted.

    Returns:
        The checks that could be made, passed or not, in a fixed order.

    Raises:
        OSError, AddressError, NinepError: the server cannot be asked, or the directory is another one.
    """
    with Connection(address, uname=uname, aname=aname) as connection:
        tree = _Tree(Path(directory), connection, named)
        if set(os.listdir(directory)) != {entry.name for entry in connection.ls("")}:
            raise NinepError(f"{directory} is not where {address} is mounted")
        return [_run(name, check, tree) for name, check, wants in _CHECKS if not wants or getattr(named, wants)]


def _run(name: str, check: Callable[[_Tree], None], tree: _Tree) -> Check:
    try:
        check(tree)
    except (AssertionError, OSError, NinepError, subprocess.TimeoutExpired) as error:
        return Check(name, str(error) or "it does not hold")
    return Check(name, None)


def _check(name: str, wants: str = "") -> Callable[[Callable[[_Tree], None]], Callable[[_Tree], None]]:
    def register(function: Callable[[_Tree], None]) -> Callable[[_Tree], None]:
        _CHECKS.append((name, function, wants))
        return function

    return register


def _is(found: object, expected: object, what: object) -> None:
    assert found == expected, f"{what}: {found!r} instead of {expected!r}"


def _fails(numbers: set[int], call: Callable[..., Any], *args: Any) -> None:
    """The call is refused by one of these errors."""
    wanted = " or ".join(errno.errorcode[number] for number in sorted(numbers))
    shown = f"{call.__name__}{args}"
    try:
        result = call(*args)
    except OSError as error:
        found, number = errno.errorcode.get(error.errno or 0, str(error)), error.errno
    else:
        found, number = repr(result), None
    assert number in numbers, f"{shown}: {found} instead of {wanted}"


@_check("a directory lists what its server lists")
def _listings(tree: _Tree) -> None:
    for path, entries in tree.directories():
        _is(sorted(os.listdir(path)), sorted(entry.name for entry in entries), path)


@_check("type, permissions and length are the server's")
def _attributes(tree: _Tree) -> None:
    for path, entry in tree.entries():
        found = path.lstat()
        _is(stat.S_ISDIR(found.st_mode), entry.is_directory, path)
        _is(stat.S_IMODE(found.st_mode), entry.mode & 0o777, path)
        least, most = entry.length, tree.record(path).length
        assert min(least, most) <= found.st_size <= max(least, most), f"{path}: {found.st_size} bytes, not {most}"


@_check("every entry of a directory has an inode number of its own, and keeps it")
def _inodes(tree: _Tree) -> None:
    for path, _ in tree.directories():
        with os.scandir(path) as found:
            numbers = {entry.name: entry.inode() for entry in found}
        _is(len(set(numbers.values())), len(numbers), path)
        for name, number in numbers.items():
            _is((path / name).lstat().st_ino, number, path / name)


@_check("what the permission bits give to nobody is EACCES")
def _permissions(tree: _Tree) -> None:
    for path, entry in tree.entries():
        if not entry.is_directory:
            if not entry.mode & 0o444:
                _fails({errno.EACCES}, os.open, path, os.O_RDONLY)
            if not entry.mode & 0o222:
                _fails({errno.EACCES}, os.open, path, os.O_WRONLY)


@_check("a name that is not there is ENOENT, whatever is done with it")
def _missing(tree: _Tree) -> None:
    path = tree.directory / _NO_NAME
    for call in (os.stat, os.listdir, os.unlink, os.rmdir):
        _fails({errno.ENOENT}, call, path)
    _fails({errno.ENOENT}, os.open, path, os.O_RDONLY)
    _fails({errno.ENOENT}, os.open, path, os.O_WRONLY | os.O_TRUNC)
    _fails({errno.ENOENT}, os.rename, path, tree.directory / f"{_NO_NAME} either")


@_check("a file is no directory, a directory is no file, and neither is made again")
def _kinds(tree: _Tree) -> None:
    for path, entry in tree.entries():
        _fails({errno.EEXIST}, os.mkdir, path)
        _fails({errno.EEXIST}, os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        if entry.is_directory:
            _fails({errno.EISDIR}, os.open, path, os.O_WRONLY)
            _fails({errno.EISDIR}, os.unlink, path)
        else:
            _fails({errno.ENOTDIR}, os.listdir, path)
            _fails({errno.ENOTDIR}, os.stat, path / _NO_NAME)
            _fails({errno.ENOTDIR}, os.rmdir, path)


@_check("the file system can be asked for its size")
def _statfs(tree: _Tree) -> None:
    found = os.statvfs(tree.directory)
    assert found.f_bsize > 0, found
    assert found.f_namemax >= 255, found


@_check("text is replaced, appended to, and cut", "text")
def _text(tree: _Tree) -> None:
    old = tree.text.read_bytes()
    try:
        tree.text.write_bytes(_SAMPLE)
        _is(tree.text.stat().st_size, len(_SAMPLE), "length")
        assert tree.content(tree.text) == _SAMPLE, "the server has other text than was written"
        tree.text.write_bytes(b"one\n")
        with tree.text.open("ab", buffering=0) as first, tree.text.open("ab", buffering=0) as second:
            second.write(b"two\n")
            first.write(b"three\n")
        _is(tree.text.read_bytes(), b"one\ntwo\nthree\n", "after two that append")
        os.truncate(tree.text, 0)
        _is(tree.text.stat().st_size, 0, "length after truncate")
        _is(tree.content(tree.text), b"", "after truncate")
    finally:
        tree.text.write_bytes(old)
    _is(tree.content(tree.text), old, "in the end")


@_check("text is read and written at offsets", "text")
def _offsets(tree: _Tree) -> None:
    old = tree.text.read_bytes()
    size = len(_SAMPLE)
    try:
        tree.text.write_bytes(_SAMPLE)
        with tree.text.open("r+b", buffering=0) as file:
            for offset, count in ((0, 5), (7, 11), (100_001, 4000), (size - 3, 10), (size, 10), (size + 9, 10)):
                _is(os.pread(file.fileno(), count, offset), _SAMPLE[offset : offset + count], f"{count} at {offset}")
            _is(os.pwrite(file.fileno(), b"abc", 200_000), 3, "bytes written")
        expected = _SAMPLE[:200_000] + b"abc" + _SAMPLE[200_003:]
        assert tree.content(tree.text) == expected, "what was written in the middle is not there alone"
    finally:
        tree.text.write_bytes(old)


@_check(f"{_READERS} blocked reads hold up nothing, and a signal ends each", "blocked")
def _blocked(tree: _Tree) -> None:
    command = ("sh", "-c", 'exec < "$0"; echo; exec cat', str(tree.blocked))
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(_READERS)]  # noqa: S603  ours
    try:
        for reader in readers:
            assert reader.stdout is not None
            _is(reader.stdout.readline(), "\n", f"opening {tree.blocked}")
        _listings(tree)
        for number, reader in enumerate(readers):
            how = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[number % 3]
            reader.send_signal(how)
            _is(reader.wait(_END_S), -how, f"the end of a reader of {tree.blocked}")
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()


@_check("a rename keeps the inode and leaves no old name", "renamed")
def _rename(tree: _Tree) -> None:
    old = tree.renamed
    new = old.with_name(f"{old.name}-renamed")
    number = old.stat().st_ino
    for before, after in ((old, new), (new, old)):
        before.rename(after)
        _is(after.stat().st_ino, number, after)
        _fails({errno.ENOENT}, os.stat, before)
        assert after.name in os.listdir(after.parent), f"{after} is not listed"
        _is(tree.record(after).name, after.name, after)
    if old.parent != tree.directory:
        _fails({errno.EPERM, errno.EXDEV}, os.rename, old, tree.directory / new.name)
        _is(old.stat().st_ino, number, old)


@_check("what is removed is gone", "removed")
def _remove(tree: _Tree) -> None:
    if tree.removed.is_dir():
        tree.removed.rmdir()
    else:
        tree.removed.unlink()
    _fails({errno.ENOENT}, os.stat, tree.removed)
    assert tree.removed.name not in os.listdir(tree.removed.parent), f"{tree.removed} is still listed"
    _listings(tree)
