"""glob: find files by name.

The rules are the shell's with globstar: `*` `?` `[…]` within a name, `**` for any directories, `{a,b}` for either. A
name that begins with a dot is found by a pattern that does. `**` does not follow symbolic links to directories.
"""

import fnmatch
import os
import re
import sys
from collections.abc import Callable, Iterator

from ollie.tools import files, program
from ollie.tools.program import Arguments, ToolError

LIMIT = 1000
_MAGIC = re.compile(r"[*?[]")


def main() -> int:
    """Run the tool."""
    return program.run(find)


def find(arguments: Arguments) -> str:
    """The files that match `pattern` below the directory `path`, sorted, at most 1000; directories end in a slash."""
    pattern = arguments["pattern"]
    if not pattern or "\0" in pattern:
        raise ToolError("pattern is empty, or contains a NUL")
    top = files.located(arguments.get("path", "."))
    if pattern.startswith(("~/", "/")):
        pattern = files.located(pattern).lstrip("/")
        top = "/"
    if not os.path.isdir(top):
        raise ToolError(f"{top}: no such directory")
    search = _Search()
    found: set[str] = set()
    for one in files.alternatives("pattern", pattern):
        found.update(search.match("" if top == "." else top.rstrip("/") + "/", one))
    return _listed(sorted(found), search.refused)


def _listed(found: list[str], refused: list[str]) -> str:
    lines = found[:LIMIT]
    if not found:
        lines.append("[nothing matches]")
    elif len(found) > LIMIT:
        lines.append(f"[{LIMIT} of {len(found)} shown; use a narrower pattern]")
    if refused:
        lines.append(f"[not searched, permission denied: {', '.join(refused[:5])}{' …' if len(refused) > 5 else ''}]")
    text = "\n".join(lines) + "\n"
    return text.encode(errors="surrogateescape").decode(errors="replace")


class _Search:
    """One search; `refused` collects the directories that could not be read."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self._listings: dict[str, list[tuple[str, bool, bool]]] = {}

    def match(self, base: str, pattern: str) -> Iterator[str]:
        """The paths below `base` (empty, or ending in a slash) that match; directories end in a slash."""
        names = [name for name in pattern.split("/") if name not in {"", "."}]
        # Two in a row mean what one does, and take exponentially long.
        names = [name for at, name in enumerate(names) if name != "**" or names[at - 1 : at] != ["**"]]
        found = self._match(base, names) if names else iter([base or "./"])
        return (path for path in found if path.endswith("/")) if pattern.endswith("/") else found

    def _match(self, base: str, names: list[str]) -> Iterator[str]:
        name, rest = names[0], names[1:]
        if name == "**":
            yield from self._match_anywhere(base, names)
            return
        for entry, is_directory in self._entries(base, name):
            if not rest:
                yield base + entry + "/" * is_directory
            elif is_directory:
                yield from self._match(f"{base}{entry}/", rest)

    def _match_anywhere(self, base: str, names: list[str]) -> Iterator[str]:
        """What the names behind a `**` match here and in every directory below; without any, all that is below."""
        rest = names[1:]
        waiting = [base]
        while waiting:
            here = waiting.pop()
            if rest:
                yield from self._match(here, rest)
            for entry, is_directory, is_link in self._list(here):
                if entry.startswith("."):
                    continue
                if not rest:
                    yield here + entry + "/" * is_directory
                if is_directory and not is_link:
                    waiting.append(f"{here}{entry}/")

    def _entries(self, base: str, name: str) -> Iterator[tuple[str, bool]]:
        """The entries of a directory that one name of a pattern matches, and whether they are directories."""
        if not _MAGIC.search(name):
            path = base + name
            if os.path.lexists(path):
                yield name, os.path.isdir(path)
            return
        matches = _matcher(name)
        for entry, is_directory, _ in self._list(base):
            if matches(entry) and (name.startswith(".") or not entry.startswith(".")):
                yield entry, is_directory

    def _list(self, base: str) -> list[tuple[str, bool, bool]]:
        """Name, whether it is a directory, whether it is a link, of what a directory has."""
        known = self._listings.get(base)
        if known is not None:
            return known
        try:
            with os.scandir(base or ".") as entries:
                listing = [(entry.name, _is_directory(entry), entry.is_symlink()) for entry in entries]
        except PermissionError:
            self.refused.append(base)
            listing = []
        except OSError:  # gone since it was listed, or a path too long or with too many links
            listing = []
        self._listings[base] = listing
        return listing


def _is_directory(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads nowhere, or in a circle
        return False


def _matcher(name: str) -> Callable[[str], object]:
    return re.compile(fnmatch.translate(name)).match


if __name__ == "__main__":
    sys.exit(main())
