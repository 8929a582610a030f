"""grep: lines of files that match a regular expression, where the host has no ripgrep.

It finds what `rg --hidden --no-ignore` finds, in the same order: every file of text below a directory, those that git
ignores too, with the exception of `.git`. Links are not followed.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator

from ollie.tools import files, program
from ollie.tools.program import Arguments, ToolError

LIMIT_CHARACTERS = 1024 * 1024
LINE_CHARACTERS = 500
_BLOCK_BYTES = 8 * 1024 * 1024
_FIRST_BYTES = 64 * 1024  # with a NUL in them a file is binary, as ripgrep has it; the other tools look at less
_SKIPPED = ".git"
_MAGIC = re.compile(r"\*\*/|\*\*|\*|\?|\[[!^]?[^]]+\]|.", re.DOTALL)
_CLASSES = {
    "[:alnum:]": "a-zA-Z0-9",
    "[:alpha:]": "a-zA-Z",
    "[:blank:]": " \\t",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:punct:]": "!-/:-@\\[-`{-~",
    "[:space:]": "\\s",
    "[:upper:]": "A-Z",
    "[:word:]": "\\w",
    "[:xdigit:]": "0-9a-fA-F",
}


def main() -> int:
    """Run the tool."""
    return program.run(search)


def search(arguments: Arguments) -> str:
    """A line `path:number:line` for each that matches `pattern`, below `path`, in files whose names match `glob`."""
    expression = _compiled(arguments["pattern"], ignore_case=arguments.get("ignore_case", False))
    top = files.located(arguments.get("path", "."))
    wanted = _filter(arguments.get("glob", ""))
    found = _Found(expression)
    if os.path.isdir(top):
        for path in found.below(top.rstrip("/") or "/"):
            if wanted(path):
                found.try_to_look(path)
            if found.full:
                break
    else:
        files.status(top)
        found.look(top)
    return found.text()


class _Found:
    """What was found so far."""

    def __init__(self, expression: re.Pattern[str]) -> None:
        self._expression = expression
        self._lines: list[str] = []
        self._characters = 0
        self._refused: list[str] = []

    @property
    def full(self) -> bool:
        """Whether it is more than anybody reads."""
        return self._characters > LIMIT_CHARACTERS

    def below(self, directory: str) -> Iterator[str]:
        """The files below a directory that can be listed, in the order of their paths."""
        above = [iter(_sorted(directory))]
        while above:
            entry = next(above[-1], None)
            if entry is None:
                above.pop()
            elif entry.is_dir(follow_symlinks=False):
                if entry.name != _SKIPPED:
                    try:
                        above.append(iter(_sorted(entry.path)))
                    except OSError as error:
                        self._refused.append(f"{entry.path}: {error.strerror}")
            elif entry.is_file(follow_symlinks=False):
                yield entry.path

    def try_to_look(self, path: str) -> None:
        """Search a file, or note that it cannot be read."""
        try:
            self.look(path)
        except OSError as error:
            self._refused.append(f"{path}: {error.strerror}")

    def look(self, path: str) -> None:
        """Search a file; one that is binary has nothing, or nothing from where it is."""
        with open(path, "rb") as file:
            number = 1
            for block in _blocks(file.read):
                number = self._take(path, number, block)
                if self.full:
                    break

    def _take(self, path: str, first: int, block: bytes) -> int:
        """Search some whole lines, the first of which has a number; the number of the line behind them."""
        lines = [
            line.removesuffix("\r") for line in block.removesuffix(b"\n").decode(errors="surrogateescape").split("\n")
        ]
        for number, line in enumerate(lines, first):
            if self._expression.search(line):
                said = f"{path}:{number}:{_short(line)}"
                self._lines.append(said)
                self._characters += len(said)
        return first + len(lines)

    def text(self) -> str:
        """All of it, and what is to be said about it."""
        notes = [f"[not searched: {one}]" for one in self._refused[:5]]
        if len(self._refused) > len(notes):
            notes.append(f"[not searched: {len(self._refused) - len(notes)} more]")
        if not self._lines:
            notes.insert(0, "[nothing matches]")
        if self.full:
            notes.append("[too much matches: the rest was not searched; give a path, or a narrower pattern]")
        text = "\n".join([*self._lines, *notes]) + "\n"
        return text.encode(errors="surrogateescape").decode(errors="replace")


def _sorted(directory: str) -> "list[os.DirEntry[str]]":
    """What a directory has, in the order of the names."""
    with os.scandir(directory) as listing:
        return sorted(listing, key=lambda entry: os.fsencode(entry.name))


def _blocks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """A file in blocks of whole lines, up to its first NUL; nothing of one that has it near its beginning."""
    rest, first = b"", True
    while data := read(_BLOCK_BYTES):
        text, nul, _ = data.partition(b"\0")
        if nul and first and len(text) < _FIRST_BYTES:
            return
        end = text.rfind(b"\n") + 1
        if end:
            yield rest + text[:end]
            rest = text[end:]
        else:
            rest += text
        if nul:
            return
        first = False
    if rest:
        yield rest


def _short(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else f"{line[:LINE_CHARACTERS]} [… {len(line) - LINE_CHARACTERS} more]"


def _compiled(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    if "\n" in pattern:
        raise ToolError("pattern has a newline, and one line at a time is searched; use (a|b) for either")
    for name, characters in _CLASSES.items():
        pattern = pattern.replace(name, characters)
    return _expression("pattern is no regular expression", pattern, re.IGNORECASE if ignore_case else 0)


def _expression(trouble: str, pattern: str, flags: int = 0) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # at what may mean something else one day
            return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(f"{trouble}: {error}") from None


def _filter(glob: str) -> Callable[[str], bool]:
    """Whether a path is wanted: by its name, or by the path when the glob has a slash; with `!` what does not match."""
    if not glob:
        return lambda _: True
    excluded = glob.startswith("!")
    expressions = [
        _expression("glob is none", _of_glob(one)) for one in files.alternatives("glob", glob.removeprefix("!"))
    ]
    of_path, here = "/" in glob, os.getcwd() + "/"

    def wanted(path: str) -> bool:
        name = path.removeprefix("./").removeprefix(here).lstrip("/") if of_path else os.path.basename(path)
        return any(expression.fullmatch(name) for expression in expressions) is not excluded

    return wanted


def _of_glob(glob: str) -> str:
    """The regular expression of a glob: `*` and `?` stand for anything within a name, `**` also for directories."""
    return _MAGIC.sub(_meant, glob.removeprefix("./").lstrip("/"))


def _meant(part: "re.Match[str]") -> str:
    match part[0]:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case one if len(one) > 1:
            negated, characters = ("^", one[2:-1]) if one[1] in "!^" else ("", one[1:-1])
            return "[" + negated + re.sub(r"([\\^\[])", r"\\\1", characters) + "]"
        case one:
            return re.escape(one)


if __name__ == "__main__":
    sys.exit(main())
