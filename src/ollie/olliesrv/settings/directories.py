"""Directories that agents work in: which may be one, and where an agent works that names none.

A tool may write in its agent's working directory. So none may hold, or lie in, the directories that Ollie itself
keeps its configuration, data, models or sockets in: an agent could else rewrite its own bounds. Nor the directories of
temporary files: an agent could else read those of another session, and put links in their place.
"""

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from ollie.olliesrv.errors import RefusedError
from ollie.protocol import paths
from ollie.protocol.within import covers

# Those of tool servers, and what holds the scratch directories of a server.
_TEMPORARY = re.compile(r"\.?ollie-tools\.|ollie-work\.[^/]*$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def working_directory(path: str, private: Sequence[str]) -> str:
    """The directory as an absolute path without symbolic links.

    Args:
        path: absolute, or beginning with `~/`.
        private: Ollie's own directories.

    Raises:
        RefusedError: `cwd is not an absolute path: …`, `cwd has a control character: …`, `cwd does not exist: …`,
            `cwd is not a directory: …`, or that it holds one of Ollie's own directories, with the remedy.
    """
    if not path.startswith(("/", "~")):
        raise RefusedError(f"cwd is not an absolute path: {path}")
    _check_characters(path)
    try:
        found = Path(path).expanduser().resolve(strict=True)
    except (OSError, RuntimeError):
        raise RefusedError(f"cwd does not exist: {path}") from None
    if not found.is_dir():
        raise RefusedError(f"cwd is not a directory: {path}")
    _check_characters(str(found))
    for name in private:
        own = os.path.realpath(name)
        if covers(str(found), own):
            raise RefusedError(f"cwd holds ollie's own directory {own}: {path} (choose a directory below it)")
        if covers(own, str(found)):
            raise RefusedError(f"cwd lies in ollie's own directory {own}: {path} (choose another)")
    _check_temporary(str(found), path)
    return str(found)


def _check_temporary(found: str, path: str) -> None:
    """In the directories of temporary files nobody works but in a scratch directory, and nobody works above them."""
    for base in {os.path.realpath(base) for base in (tempfile.gettempdir(), os.environ.get("TMPDIR") or "/tmp")}:  # noqa: S108  as tool servers
        if covers(found, base):
            raise RefusedError(f"cwd holds ollie's own directories in {base}: {path} (choose a directory below it)")
        if covers(base, found) and _TEMPORARY.match(found[len(base) :].lstrip("/")):
            raise RefusedError(f"cwd lies in ollie's own directories in {base}: {path} (choose another)")


def _check_characters(path: str) -> None:
    """A list of agents has their directories in lines and columns, which a tab or a newline would break."""
    if _CONTROL.search(path):
        raise RefusedError(f"cwd has a control character: {path!r}")


def check_unmoved(path: str) -> None:
    """Refuse a resolved directory that is another one by now: a part of it has become a symbolic link."""
    if os.path.realpath(path) != path:
        raise RefusedError(f"cwd is not what it was any more: {path} (set it again)")


class Scratch:
    """A private directory for the agents of one session that name none; made when first asked for.

    It lasts as long as its session: a later server finds it under the same name.

    Args:
        base: the directory of all of them, see `scratch_base`.
        session: the id of the session.
    """

    def __init__(self, base: str, session: str) -> None:
        self._path = Path(base) / _scratch_name(session)

    def is_at(self, path: str) -> bool:
        """Whether this is where it is, or would be."""
        return path == str(self._path)

    def path(self) -> str:
        """The directory, resolved; a `RefusedError` when it cannot be made."""
        try:
            paths.private_directory(str(self._path.parent))
            return paths.private_directory(str(self._path))
        except paths.PathError as error:
            raise RefusedError(str(error)) from None

    def release(self) -> None:
        """The server ends: nothing stays of a directory that is empty."""
        for path in (self._path, self._path.parent):
            with contextlib.suppress(OSError):
                path.rmdir()

    def remove(self) -> None:
        """Delete the directory with everything in it."""
        shutil.rmtree(self._path, ignore_errors=True)
        self.release()


def scratch_base(address: str) -> str:
    """The directory of the scratch directories of the server at an address, resolved; not made yet."""
    name = f"ollie-work.{os.getuid()}.{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    return str(Path(tempfile.gettempdir()).resolve() / name)


def sweep_scratch(base: str, sessions: Iterable[str]) -> None:
    """Delete the scratch directories of all sessions but these, by id."""
    kept = {_scratch_name(session) for session in sessions}
    with contextlib.suppress(OSError):
        for path in Path(base).iterdir():
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)
        Path(base).rmdir()


def _scratch_name(session: str) -> str:
    return session[-12:]
