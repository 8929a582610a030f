"""Which tools a host offers: a catalog of the tools directories.

A tool is `<name>.yaml`, alone or with an executable `<name>` or `<name>.*` beside it, or a script with a block of
metadata. Directories are looked at in order and the first of a name wins; a tool that is broken stays listed with its
error, and hides others of its name as a whole one would.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ollie.protocol import paths
from ollie.protocol.metadata import Host, MetadataError, ToolInfo, block, parse
from ollie.protocol.words import reason

_METADATA = {".yaml", ".yml"}
_BLOCK_CHARACTERS = 64 * 1024
_NO_TEXT = "metadata is not UTF-8"
_Stamp = tuple[int, int, int, int, int]
_SURROGATE = re.compile("[\udc80-\udcff]")  # a byte that is none


@dataclass(frozen=True, slots=True)
class Broken:
    """A tool that cannot be used; `error` says why."""

    name: str
    path: str
    error: str


@dataclass(frozen=True, slots=True)
class _Source:
    """The files of one tool, with what tells that they have changed."""

    name: str
    metadata: str | None
    others: tuple[tuple[str, bool], ...]  # path, and whether it is executable
    stamps: tuple[_Stamp, ...]


class Catalog:
    """The tools of some directories.

    Args:
        directories: in order; those that do not exist count as empty.
        shipped: the one whose tools may run in the launcher's restricted child.
        host: what the tools are chosen for.
    """

    def __init__(self, directories: Sequence[str], shipped: str, host: Host | None = None) -> None:
        self._directories = directories
        self._shipped = os.path.realpath(shipped)
        self._host = host or Host.current()
        self._known: dict[_Source, ToolInfo | Broken | None] = {}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "Catalog":
        """The catalog of `OLLIE_TOOLS_PATH`, or of the user's directory, and of what ships."""
        return cls(paths.search_path("tools", environ), paths.shipped("tools"), Host.current(environ))

    def tools(self) -> dict[str, ToolInfo | Broken]:
        """Every tool by its name, in order of names; directories are read again, files only when they have changed."""
        found: dict[str, ToolInfo | Broken] = {}
        known: dict[_Source, ToolInfo | Broken | None] = {}
        for directory in self._directories:
            trusted = os.path.realpath(directory) == self._shipped
            for source in _sources(directory):
                if source not in self._known:
                    self._known[source] = _read(source, self._host, trusted=trusted)
                tool = known[source] = self._known[source]
                if tool is not None:
                    found.setdefault(source.name, tool)
        self._known = known
        return dict(sorted(found.items()))

    def invalidate(self) -> None:
        """Read every file again at the next call, and look for programs again."""
        self._known.clear()


def _sources(directory: str) -> Iterator[_Source]:
    files: dict[str, list[tuple[str, _Stamp]]] = {}
    try:
        with os.scandir(directory) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                hidden = entry.name.startswith((".", "_")) or entry.name.endswith("~")
                if not hidden and (stamp := _stamp(entry)):
                    files.setdefault(os.path.splitext(entry.name)[0], []).append((entry.path, stamp))
    except OSError:
        return
    for name, group in files.items():
        metadata = next((path for path, _ in group if os.path.splitext(path)[1] in _METADATA), None)
        others = [(path, bool(stamp[0] & 0o111)) for path, stamp in group if path != metadata]
        # Of several files of one name the executable one is the tool.
        others.sort(key=lambda other: not other[1])
        yield _Source(name, metadata, tuple(others), tuple(stamp for _, stamp in group))


def _stamp(entry: "os.DirEntry[str]") -> _Stamp | None:
    """What tells that a file has changed, its mode first; None for what is none. One that cannot be looked at has 0."""
    try:
        found = entry.stat()
    except FileNotFoundError:  # it has just gone, or is a link to nothing
        return None
    except OSError:
        return 0, 0, 0, 0, 0
    regular = stat.S_ISREG(found.st_mode)
    return (found.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) if regular else None


def _read(source: _Source, host: Host, *, trusted: bool) -> ToolInfo | Broken | None:
    path = source.metadata or source.others[0][0]
    try:
        if source.metadata is not None:
            program = next((other for other, executable in source.others if executable), None)
            return parse(_text(path), path, source.name, host, trusted=trusted, executable=program)
        for path, executable in source.others:
            text = block(_beginning(path))
            if text is not None and not executable:
                raise MetadataError("not executable: chmod +x it")
            if text is not None and _SURROGATE.search(text):
                raise MetadataError(_NO_TEXT)
            if text is not None:
                return parse(text, path, source.name, host, trusted=trusted, executable=path)
            if executable:
                raise MetadataError(f"no metadata: add a block to its leading comment, or {source.name}.yaml")
    except MetadataError as error:
        return Broken(source.name, path, str(error))
    return None


def _text(path: str) -> str:
    """The whole of a file of metadata."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise MetadataError(f"cannot be read: {reason(error)}") from None
    except UnicodeDecodeError:
        raise MetadataError(_NO_TEXT) from None


def _beginning(path: str) -> str:
    """The beginning of what may be a script, and may be anything else; its lines of metadata are text."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_BLOCK_CHARACTERS)
    except OSError as error:
        raise MetadataError(f"cannot be read: {reason(error)}") from None
