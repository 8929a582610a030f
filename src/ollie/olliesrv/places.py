"""Directories that agents work in: which may be one, and where an agent works that names none.

A tool may write in its agent's working directory. So none may hold, or lie in, the directories that Ollie itself
keeps its configuration, data, models or sockets in: an agent could else rewrite its own bounds.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ollie.olliesrv.errors import RefusedError


def working_directory(path: str, private: Sequence[str]) -> str:
    """The directory as an absolute path without symbolic links.

    Args:
        path: absolute, or beginning with `~/`.
        private: Ollie's own directories.

    Raises:
        RefusedError: `cwd is not an absolute path: …`, `cwd does not exist: …`, `cwd is not a directory: …`, or that
            it holds one of Ollie's own directories, with the remedy.
    """
    if not path.startswith(("/", "~")) or "\0" in path:
        raise RefusedError(f"cwd is not an absolute path: {path}")
    try:
        found = Path(path).expanduser().resolve(strict=True)
    except (OSError, RuntimeError):
        raise RefusedError(f"cwd does not exist: {path}") from None
    if not found.is_dir():
        raise RefusedError(f"cwd is not a directory: {path}")
    for name in private:
        own = Path(name).resolve()
        if own.is_relative_to(found):
            raise RefusedError(f"cwd holds ollie's own directory {own}: {path} (choose a directory below it)")
        if found.is_relative_to(own):
            raise RefusedError(f"cwd lies in ollie's own directory {own}: {path} (choose another)")
    return str(found)


def is_within(inner: str, outer: str) -> bool:
    """Whether a directory is another or lies in it; both resolved."""
    return Path(inner).is_relative_to(outer)


def unmoved(path: str) -> bool:
    """Whether a resolved directory still is what it was resolved to: no part of it became a symbolic link."""
    return os.path.realpath(path) == path


class Scratch:
    """A private directory for agents that name none; made when first asked for."""

    def __init__(self) -> None:
        self._path = ""

    def path(self) -> str:
        """The directory, resolved."""
        if not self._path:
            self._path = str(Path(tempfile.mkdtemp(prefix="ollie-work.")).resolve())
        return self._path

    def remove(self) -> None:
        """Delete the directory with everything in it."""
        if self._path:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = ""
