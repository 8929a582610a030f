"""Programs outside the system's directories: which paths a tool needs to run what PATH names, and their libraries.

For `advanced.add_exec`: interpreters of pyenv, nvm, cargo and their kind lie in the home directory, which a tool may
not read. What is added is the directories of PATH, the installations that they and their links belong to, and the
version managers known below; never the home directory, and nothing that a tool could have put there itself: a directory
of PATH that the policy lets it write is left out.
"""

import os
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import ninep
from ollie.protocol.policy import Policy
from ollie.protocol.within import covers, grants, rights_at

# Directories of programs, and what lies beside one in the installation that it belongs to. Not `share` and `etc`: below
# ~/.local those hold everything else.
_OF_PROGRAMS = frozenset({"bin", "sbin", "shims", "libexec"})
_BESIDE = ("bin", "sbin", "lib", "lib64", "libexec", "include", "pyvenv.cfg")

# Ollie's own packages, so that `ollie-9p` runs in a tool also where they are installed outside the virtual environment.
OURS = (str(Path(ninep.__file__).parent), str(Path(__file__).parents[1]))

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
    home = os.path.realpath(home)
    found = dict.fromkeys(OURS)
    for directory in directories:
        if not writable(policy, directory):
            found.update(dict.fromkeys(_of_directory(os.path.realpath(directory), home)))
    return _with_rox(policy, [path for path in found if not writable(policy, path)])


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns  # noqa: PTH116  for each run
    except OSError:
        return 0


def with_libraries(policy: Policy, libraries: Iterable[str]) -> Policy:
    """The policy with the shared libraries of a program, as `rox`."""
    return _with_rox(policy, [os.path.realpath(path) for path in libraries])


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
    """The dynamic loader that a program names (PT_INTERP of a 64 bit ELF file), None for a script or a static one."""
    try:
        with Path(program).open("rb") as file:
            head = file.read(4096)
    except OSError:
        return None
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


def _of_directory(directory: str, home: str) -> tuple[str, ...]:
    """What a directory of PATH leads to."""
    if covers(directory, home):
        return ()
    found = _installation(directory, home)
    for manager, places in _MANAGERS.items():
        if directory == f"{home}/{manager}":
            found += [f"{home}/{place}" for place in places]
    try:
        with os.scandir(directory) as entries:
            targets = {os.path.realpath(entry.path) for entry in entries if entry.is_symlink()}
    except OSError:
        targets = set()
    for target in targets:
        parent = Path(target).parent
        found += _installation(str(parent), home) if parent.name in _OF_PROGRAMS else [target]
    return tuple(path for path in dict.fromkeys(found) if not covers(path, home) and Path(path).exists())


def _installation(directory: str, home: str) -> list[str]:
    """A directory of programs, with what lies beside it when both belong to one installation."""
    prefix = str(Path(directory).parent)
    if Path(directory).name not in _OF_PROGRAMS or covers(prefix, home):
        return [directory]
    return [directory, *(f"{prefix}/{name}" for name in _BESIDE)]


def _with_rox(policy: Policy, paths: Iterable[str]) -> Policy:
    files = policy.filesystem
    added = [path for path in paths if not rights_at(files, path) >= {"r", "x"}]
    return replace(policy, filesystem=replace(files, rox=tuple(dict.fromkeys((*files.rox, *added)))))
