"""The embedded model: a real agent without a key or an account.

`prompt` and `grammar` show the model a request, `reply` and `chunks` read what it says, `backend` lines requests up
for `process`, which runs `worker`, where the engine is, with `prefix`. `weights` and `fetch` bring the model.
"""

import importlib.util
import os

from ollie.backends.interface import BackendError, ErrorKind
from ollie.backends.local.backend import LocalBackend
from ollie.backends.local.weights import QWEN, WeightsError, cached, configured, locate
from ollie.backends.local.worker import Settings

__all__ = ["LocalBackend", "create"]

_MOST_READING_THREADS = 8  # the rest of a large machine is for others
_CONTEXT = 16384  # tokens; each takes 28 KiB of memory once it is used


def create(model_path: str | None = None, threads: int | None = None, context: int | None = None) -> LocalBackend:
    """The backend, with nothing loaded yet.

    Args:
        model_path: a GGUF file; else `$OLLIE_MODEL_PATH`, else the one in our cache.
        threads: of the engine, from 1; else half of the processors that this process may use for writing, where one
            busy process beside as many threads as processors makes it ten times slower, and all of them for reading.
        context: in tokens; else 16384. More takes more memory.

    Raises:
        BackendError: `unavailable`, with what to do: there is no model file, or no engine to run it.
    """
    try:
        file = locate(model_path)
        named = configured(model_path)
    except WeightsError as error:
        raise BackendError(ErrorKind.unavailable, str(error)) from None
    if importlib.util.find_spec("xllamacpp") is None:
        raise BackendError(
            ErrorKind.unavailable, "the embedded model needs the package xllamacpp: pip install 'ollie[local]'"
        )
    processors = len(os.sched_getaffinity(0))
    settings = Settings(
        model=str(file),
        threads=threads or max(1, processors // 2),
        reading_threads=threads or min(processors, _MOST_READING_THREADS),
        context=context or _CONTEXT,
        states=str(cached().parent / "states"),
    )
    return LocalBackend(settings, QWEN.model if named is None else named.stem)
