"""What a job is, held fast: a hash of its program, arguments, input, environment and directory, and of the files of it.

Its files are those that its words name. A word is looked up as a shell does it: below the working directory, and below
each directory that other words name (`cd build && cd bin && ./run`), with `~` and variables replaced, and one without a
slash on PATH as well. What a program reads by itself is not seen here: a script that a script calls, a `Makefile`, a
module that is imported. Neither is a name that is put together while it runs, such as one from a pattern, nor what a
path through `/proc` of a process leads to (`/proc/$PPID/cwd`, `/dev/fd/3`); but `/proc/self/cwd` is taken for the
directory of the call.
"""

import errno
import hashlib
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from ollie.toolsrv.prepare import Job, RefusedError

FILE_BYTES = 64 * 1024 * 1024
"""How much of a file is hashed; a longer one, and all beyond `TOTAL_BYTES`, is known by its times as well."""
TOTAL_BYTES = 256 * 1024 * 1024
TEXT_BYTES = 256 * 1024
"""The longest text of which an approval can be asked."""

_PIECE_BYTES = 1024 * 1024
_KERNELS = ("/proc/", "/sys/")  # what the kernel makes up as it is read
_QUOTED = 3  # how deep quotes are looked into: a tool quotes its script, which quotes
_LOOKUPS = 200_000  # of words in directories, at most
_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})  # the errors that say so
_WORD = re.compile(r"[^\s;&|<>()`'\"\\]+")
_QUOTES = re.compile(r"\\\n|['\"\\]")  # what a shell takes away, so that a word may be in pieces
_WITHIN = re.compile(r"[=:,{}]")  # what a path may stand behind in a word, as in `--file=path`
_OWN_CWD = re.compile(r"^/proc/(?:self|thread-self|\$\$)/cwd(?=/|$)")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")

Identity = tuple[object, ...]


@dataclass(frozen=True)
class Fingerprint:
    """What was asked about.

    Args:
        hash: over all of it.
        files: the files and directories of it, each with what tells that it is the same.
    """

    hash: str
    files: dict[str, Identity]

    def changed(self, now: "Fingerprint") -> str:
        """What is not as it was, in words; empty where all is."""
        if now.hash == self.hash:
            return ""
        paths = sorted(self.files.keys() | now.files.keys())
        return next((path for path in paths if self.files.get(path) != now.files.get(path)), "it")


def fingerprint(job: Job) -> Fingerprint:
    """That of a job as it is now. It reads files, so it takes its time.

    Raises:
        RefusedError: there is too much text for anybody to approve.
    """
    if sum(map(len, _texts(job))) > TEXT_BYTES:
        raise RefusedError("not run: nobody can approve so much text; put it into a file and run that")
    budget = _Budget(TOTAL_BYTES)
    files = {path: found for path in sorted(_named(job)) if (found := _identity(path, budget))}
    what = [job.argv, job.function, job.stdin.hex(), job.cwd, sorted(job.environment.items()), sorted(files.items())]
    return Fingerprint(hashlib.sha256(json.dumps(what).encode()).hexdigest(), files)


@dataclass
class _Budget:
    """How many bytes may still be hashed."""

    left: int


def _texts(job: Job) -> list[str]:
    """Where words are looked for; the command is there for what is quoted once more in `argv`."""
    return [*job.argv, job.task.command, job.stdin.decode(errors="surrogateescape")]


def _named(job: Job) -> set[str]:
    """The paths that the job may mean, as far as there is something.

    Raises:
        RefusedError: there are too many.
    """
    words = dict.fromkeys(word for word in _words(job) if word and "\0" not in word)
    named = {job.cwd, *filter(None, (_program(word, job) for word in words if "/" not in word))}
    directories = [job.cwd]
    known: set[tuple[int, int]] = set()
    for directory in directories:  # the list grows: a directory may be named from within another one
        if len(directories) * len(words) > _LOOKUPS:
            raise RefusedError("not run: it names too many files and directories to hold them; ask for less at a time")
        for word in words:
            path = os.path.join(directory, word)  # noqa: PTH118  for each of many words
            try:
                found = os.stat(path)  # noqa: PTH116
            except OSError as error:
                if error.errno not in _NOTHING:
                    named.add(path)
                continue
            except ValueError:  # a surrogate that no file name has
                continue
            named.add(path)
            identity = (found.st_dev, found.st_ino)
            if stat.S_ISDIR(found.st_mode) and identity not in known:
                known.add(identity)
                directories.append(path)
    return named


def _words(job: Job) -> Iterator[str]:
    """What could be a path: each argument, and the words of each text, whole and behind `=` and the like."""
    yield from job.argv
    for text in _texts(job):
        for word in _split(text):
            for form in dict.fromkeys((word, _replaced(word, job))):
                yield form
                yield from _WITHIN.split(form)


def _split(text: str, depth: int = _QUOTED) -> Iterator[str]:
    """The words of a text, those that quotes hold together, and the words of these."""
    yield from _WORD.findall(text)
    yield from _WORD.findall(_QUOTES.sub("", text))
    for word in _unquoted(text):
        yield word
        if depth and word != text and any(sign in word for sign in " \n'\"\\"):
            yield from _split(word, depth - 1)


def _unquoted(text: str) -> list[str]:
    """Words as a shell reads them; line by line where a quote is left open, as in what a script has for an input."""
    try:
        return shlex.split(text)
    except ValueError:
        lines = text.split("\n")
        return [word for line in lines for word in _unquoted(line)] if len(lines) > 1 else []


def _replaced(word: str, job: Job) -> str:
    """A word with home directories, the working directory and variables in their places."""
    first, slash, rest = word.partition("/")
    if first.startswith("~") and "\0" not in first:
        own = {"~": job.environment.get("HOME", ""), "~+": job.cwd}
        word = f"{own.get(first) or os.path.expanduser(first)}{slash}{rest}"  # noqa: PTH111  as it is written
    word = _OWN_CWD.sub(lambda _: job.cwd, word)
    values = {**job.environment, "PWD": job.cwd}
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], ""), word)


def _program(word: str, job: Job) -> str | None:
    """What a shell starts by that word."""
    for directory in job.environment.get("PATH", "").split(":"):
        path = os.path.join(job.cwd, directory, word)  # noqa: PTH118  as above
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return path
    return None


def _identity(path: str, budget: _Budget) -> Identity:
    """What tells that a path leads to the same thing with the same content; empty where it leads to neither kind."""
    try:
        found = os.stat(path)  # noqa: PTH116
        if stat.S_ISDIR(found.st_mode):
            return "directory", found.st_dev, found.st_ino
        if not stat.S_ISREG(found.st_mode) or os.path.realpath(path).startswith(_KERNELS):
            return ()
        read, digest = _hashed(path, min(FILE_BYTES, budget.left))
    except OSError as error:
        # What cannot be read is told from what is not there: it may become readable.
        return () if error.errno in _NOTHING else ("unreadable", error.errno)
    budget.left -= read
    whole = read == found.st_size
    times = () if whole else (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return ("file", found.st_mode, digest, *times)


def _hashed(path: str, limit: int) -> tuple[int, str]:
    """How much of a file was read, and the hash of that."""
    digest = hashlib.sha256()
    read = 0
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        while read < limit and (piece := os.read(fd, min(_PIECE_BYTES, limit - read))):
            digest.update(piece)
            read += len(piece)
    finally:
        os.close(fd)
    return read, digest.hexdigest()
