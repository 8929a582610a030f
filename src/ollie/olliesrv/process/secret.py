"""A secret of the TCP listeners or of a tool server: a file that only its owner can read, made when it is missing.

A tool cannot read it: it lies in the configuration or the data directory, which no sandbox policy of ours opens.
"""

import contextlib
import hmac
import os
import stat
from pathlib import Path

from ollie.protocol.paths import made, secret_file
from ollie.protocol.words import reason

_BYTES = 32
_LIMIT_BYTES = 4096


class SecretError(Exception):
    """A secret file that cannot be used; the text is one line that says why and what to do."""


def load(path: Path | None = None) -> bytes:
    """The secret in the file, without a newline at its end; the file is made, mode 0600, when it is missing.

    Args:
        path: the file; the one of the environment when not given.

    Raises:
        SecretError: the file is not ours, others may read it, it is empty or too long, or it cannot be made or read.
    """
    path = path or Path(secret_file())
    try:
        if not os.path.lexists(path):
            _make(path)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _check(path, os.fstat(fd))
            secret = os.read(fd, _LIMIT_BYTES + 2).removesuffix(b"\n")
        finally:
            os.close(fd)
    except OSError as error:
        raise SecretError(f"cannot use the secret file {path}: {reason(error)}") from None
    if not secret or len(secret) > _LIMIT_BYTES:
        raise SecretError(f"{path} holds no secret of 1 to {_LIMIT_BYTES} bytes; remove it and a new one is made")
    return secret


def same(secret: bytes, offered: bytes) -> bool:
    """Whether a client offered the secret, with or without a newline; takes as long wherever the two differ."""
    return hmac.compare_digest(secret, offered.removesuffix(b"\n"))


def _make(path: Path) -> None:
    """Write a new secret beside the file and link it there, so that a reader finds all of it or nothing."""
    made(str(path.parent))  # others may enter it when it is there: the file is what is checked
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(os.urandom(_BYTES).hex().encode() + b"\n")
        # Unlike a rename this never replaces: of two servers that make one at once, the first counts.
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(beside)
    finally:
        beside.unlink()


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SecretError(f"{path} is not a regular file; remove it and a new one is made")
    if found.st_uid != os.geteuid():
        raise SecretError(f"{path} belongs to the user {found.st_uid}; remove it and a new one is made")
    if found.st_mode & 0o077:
        raise SecretError(f"{path} can be read by others; run: chmod 600 {path}")
