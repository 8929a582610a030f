"""Programs outside the system's directories: which paths a tool needs to run what PATH names, and their libraries.

For `advanced.add_exec`: interpreters of pyenv, nvm, cargo and their kind lie in the home directory, which a tool may
not read. What is added is the directories of PATH, the installations that they belong to, and the version managers
known below; never the home directory, and no directory of PATH that the policy lets a tool write.

A directory of PATH may be one that the tools of another agent write to (a virtual environment in a project), so a link
there says nothing about what its maker may read. It is followed for what it leads to, whoever made it: to a program,
which is then added alone, as a file; and to the installation of an interpreter, known by its program and its standard
library, of which the directories of programs and libraries are added. What an agent can place is then worth nothing to
it: what it makes up itself it could read before, and outside of its reach a link finds executables, and interpreters
with their libraries, and no keys, documents or sources. What was found has no links, and none is followed when a run is
confined (`Policy.real`): what is put in its place later is left out.
"""

import itertools
import os
import re
import stat
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

import ninep
from ollie.protocol.policy import Policy
from ollie.protocol.within import covers, grants, rights_at

# Directories of programs, and what lies beside one in the installation that it belongs to. Not `share` and `etc`: below
# ~/.local those hold everything else.
_OF_PROGRAMS = frozenset({"bin", "sbin", "shims", "libexec"})
_BESIDE = ("bin", "sbin", "lib", "lib64", "libexec", "include", "pyvenv.cfg", "Cellar")

# Ollie's own packages, so that `ollie-9p` runs in a tool also where they are installed outside the virtual environment.
OURS = (str(Path(ninep.__file__).parent), str(Path(__file__).parents[1]))

# Interpreters, by the name of the program, and a file of the standard library that each installation of it has.
_INTERPRETERS = (
    (re.compile(r"(?:python|pypy)[0-9.]*"), "lib/py*[0-9]/os.py"),
    (re.compile(r"node"), "include/node/node.h"),
    (re.compile(r"ruby"), "lib/ruby/[0-9]*/set.rb"),
    (re.compile(r"java|javac"), "lib/modules"),
)
_MOST_ENTRIES = 10_000  # that are looked at in one directory
_MOST_LINKS = 40  # as the kernel

# Version managers, by the place of their programs in the home directory: what these read and run elsewhere.
_MANAGERS: dict[str, tuple[str, ...]] = {
    ".pyenv/shims": (".pyenv/versions", ".pyenv/version", ".pyenv/plugins", ".pyenv/pyenv.d"),
    ".pyenv/bin": (".pyenv/versions", ".pyenv/version", ".pyenv/plugins", ".pyenv/pyenv.d"),
    ".rbenv/shims": (".rbenv/versions", ".rbenv/version", ".rbenv/plugins"),
    ".cargo/bin": (".rustup/toolchains", ".rustup/settings.toml", ".rustup/update-hashes"),
    ".asdf/shims": (".asdf/installs", ".asdf/plugins", ".tool-versions"),
    ".local/share/mise/shims": (".local/share/mise/installs", ".config/mise"),
    ".volta/bin": (".volta/tools",),
    ".local/bin": (".local/share/uv/python", ".local/share/uv/tools", ".local/share/pipx", ".local/pipx/venvs"),
}
_LOADERS = ("/usr", "/lib", "/lib64", "/nix/store", "/gnu/store")
_ADDRESS = re.compile(r"\s\(0x[0-9a-f]+\)$")


def complete(policy: Policy, env: Mapping[str, str]) -> Policy:
    """The policy with what `add_exec` finds from PATH and HOME, which no tool may have chosen, as `rox`."""
    if not policy.advanced.add_exec:
        return policy
    directories = tuple(entry for entry in env.get("PATH", "").split(":") if entry.startswith("/"))
    found = _complete(policy, directories, env.get("HOME") or "/nonexistent", tuple(map(_changed, directories)))
    return found.called(policy.name)


@lru_cache(maxsize=64)
def _complete(policy: Policy, directories: tuple[str, ...], home: str, changed: tuple[int, ...]) -> Policy:  # noqa: ARG001  for the cache
    """As `complete`; again only when a directory of PATH has changed."""
    real_home = os.path.realpath(home)
    found = dict.fromkeys(OURS)
    for directory in directories:
        if not writable(policy, directory):
            # The home directory may be a link, which is none of a tool's.
            path = real_home + directory[len(home) :] if covers(home, directory) else directory
            found.update(dict.fromkeys(_of_directory(os.path.normpath(path), real_home, policy)))
    return _with_rox(policy, [path for path in found if not writable(policy, path)])


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns  # noqa: PTH116  for each run
    except OSError:
        return 0


def with_libraries(policy: Policy, libraries: Iterable[str]) -> Policy:
    """The policy with the shared libraries of a program, as `rox`."""
    found = [os.path.realpath(path) for path in libraries]
    return _with_rox(policy, [path for path in found if _begins(path, b"\x7fELF")])


def writable(policy: Policy, path: str) -> bool:
    """Whether the policy lets a tool change the path, or something below it."""
    places = {path, os.path.realpath(path)}
    return any(
        "w" in rights and (covers(there, place) or covers(place, there))
        for there, rights in grants(policy.filesystem)
        for place in places
    )


def find(name: str, env: Mapping[str, str], cwd: str) -> str | None:
    """The file that running `name` would execute."""
    if "/" in name:
        return str(Path(cwd, name))
    candidates = (f"{directory}/{name}" for directory in env.get("PATH", "").split(":") if directory)
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def loader(program: str) -> str | None:
    """The dynamic loader that a program names, None for a script or a static one, and for a loader of somebody's own.

    To ask a loader is to run it, where it may read everything; so it is one of the system's.
    """
    named = _interpreter(program)
    known = named is not None and any(covers(place, os.path.realpath(named)) for place in _LOADERS)
    return named if known else None


def _interpreter(program: str) -> str | None:
    """PT_INTERP of a 64 bit ELF file."""
    head = _beginning(program, 4096)
    if len(head) < 64 or head[:5] != b"\x7fELF\x02":
        return None
    start, size, count = struct.unpack_from("<32xQ14xHH", head)
    for index in range(count):
        at = start + index * size
        if at + 56 > len(head):
            break
        kind, offset, length = struct.unpack_from("<I4xQ16xQ", head, at)
        if kind == 3 and offset + length <= len(head):
            return head[offset : offset + length].rstrip(b"\0").decode(errors="surrogateescape")
    return None


def libraries(listing: str) -> tuple[str, ...]:
    """The paths in the output of `ld.so --list program`: `libc.so.6 => /lib/libc.so.6 (0x…)`, `/lib/ld.so (0x…)`."""
    paths = (_ADDRESS.sub("", line).rpartition("=>")[2].strip() for line in listing.splitlines() if "(0x" in line)
    return tuple(path for path in paths if path.startswith("/"))


def _of_directory(directory: str, home: str, policy: Policy) -> list[str]:
    """What a directory of PATH leads to, without links."""
    real = os.path.realpath(directory)
    if covers(real, home):
        return []
    if real != directory:
        return _of_programs(_entries(real), home, policy)
    found = _installation(directory, home)
    for manager, places in _MANAGERS.items():
        if directory == f"{home}/{manager}":
            found += [f"{home}/{place}" for place in places]
    found = [path for path in found if _is_plain(path)]
    return found + _of_programs([entry for entry in _entries(directory) if entry.is_symlink()], home, policy)


def _of_programs(entries: Iterable["os.DirEntry[str]"], home: str, policy: Policy) -> list[str]:
    """What these lead to, as far as they are programs that the policy does not give already."""
    # A directory of programs has thousands of links, into few directories.
    real = cache(os.path.realpath)
    given = cache(lambda path: rights_at(policy.filesystem, path) >= {"r", "x"})
    targets = {_target(entry.path, real) for entry in entries}
    missing = [target for target in targets if not given(os.path.dirname(target)) and not given(target)]  # noqa: PTH120  so many
    return list(itertools.chain.from_iterable(_of_program(target, home) for target in missing))


def _target(path: str, real: Callable[[str], str]) -> str:
    """What a path leads to, by what resolves its directories; a link when it leads to too many others."""
    for _ in range(_MOST_LINKS):
        directory, name = os.path.split(path)
        path = f"{real(directory)}/{name}"
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))  # noqa: PTH115, PTH118, PTH120  so many
        except OSError:  # no link, or nothing there
            break
    return path


def _entries(directory: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as entries:
            return list(itertools.islice(entries, _MOST_ENTRIES))
    except OSError:
        return []


def _of_program(path: str, home: str) -> list[str]:
    """A file that a link leads to, with its installation when it is an interpreter; nothing unless it is a program."""
    if not is_program(path):
        return []
    directory, prefix = Path(path).parent, Path(path).parents[1]
    if directory.name == "bin" and not covers(str(prefix), home):
        for name, library in _INTERPRETERS:
            if name.fullmatch(Path(path).name) and any(prefix.glob(library)):
                return [path, *(place for place in _installation(str(directory), home) if _is_plain(place))]
    return [path]


def _is_plain(path: str) -> bool:
    """Whether something is there, without links."""
    return os.path.realpath(path) == path and Path(path).exists()


def is_program(path: str) -> bool:
    """Whether it is a file that can be executed, by its mode and by how it begins."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return bool(mode & 0o111) and _begins(path, b"#!", b"\x7fELF")


def _begins(path: str, *how: bytes) -> bool:
    """Whether it is a regular file that begins so; no link."""
    return _beginning(path, 4, os.O_NOFOLLOW).startswith(how)


def _beginning(path: str, size_bytes: int, flags: int = 0) -> bytes:
    """The first bytes of a regular file, none of anything else; a fifo or a lease of a tool's is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError:
        return b""
    try:
        return os.read(descriptor, size_bytes) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)


def _installation(directory: str, home: str) -> list[str]:
    """A directory of programs, with what lies beside it when both belong to one installation."""
    prefix = Path(directory).parent
    if Path(directory).name not in _OF_PROGRAMS or covers(str(prefix), home):
        return [directory]
    return [directory, *(str(prefix / name) for name in _BESIDE)]


def _with_rox(policy: Policy, paths: Iterable[str]) -> Policy:
    """The policy with more paths, which have no links."""
    files = policy.filesystem
    added = [path for path in paths if not rights_at(files, path) >= {"r", "x"}]
    rox = tuple(dict.fromkeys((*files.rox, *added)))
    return replace(policy, filesystem=replace(files, rox=rox), real=(*policy.real, *added))
