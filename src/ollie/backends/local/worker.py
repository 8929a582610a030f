"""The process that holds the model: `python -m ollie.backends.local.worker SETTINGS PARENT`.

It speaks JSON lines: requests on standard input, events on standard output. It is the only place that imports the
engine (xllamacpp), so its memory is not the server's and its end is not the server's end. It exits when its standard
input ends, and when its parent dies (PR_SET_PDEATHSIG).

    in:  {"run": BODY, "fixed": N}   a chat completion in the form of the engine's HTTP interface, whose first N
                                     messages are the same in many others (`prefix.py`); one at a time
         {"cancel": true}            end the current one
    out: {"ready": true}             the model is loaded
         {"chunk": CHUNK}            a chunk of the stream, as the engine gives it
         {"end": null}               the completion has ended, also after a cancel; or, when it failed,
         {"end": {"type": …, "message": …, …}}

The engine also opens a port on the loopback interface, which cannot be turned off: it is guarded by a random key that
never leaves this process.
"""

import contextlib
import ctypes
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ollie.backends.local.prefix import Prefixes
from ollie.protocol.paths import private_directory

_PR_SET_PDEATHSIG = 1
_QUIET = 1  # errors only
_BATCH = 64  # tokens read between two looks at a cancel: about two seconds on one core
_CACHE_MIB = 512  # for the prompts of other conversations, 18,000 tokens


class Settings(NamedTuple):
    """What the engine is started with.

    Args:
        model: a GGUF file.
        threads: for writing, where each token is a dozen meetings of all of them: one that waits for its processor
            holds up the rest.
        reading_threads: for reading a prompt, 64 tokens at a time, where a wait weighs less.
        context: in tokens.
        states: a directory for what `prefix.py` keeps.
    """

    model: str
    threads: int
    reading_threads: int
    context: int
    states: str


class Generation:
    """Runs completions one after the other in a thread of its own, while the main thread listens."""

    def __init__(self, server: Any, prefixes: Prefixes, out: TextIO) -> None:
        self._server = server
        self._prefixes = prefixes
        self._out = out
        self._cancelled = threading.Event()
        self._writing = threading.Lock()

    def say(self, **event: Any) -> None:
        """Write one event."""
        with self._writing:
            self._out.write(json.dumps(event) + "\n")
            self._out.flush()

    def start(self, body: dict[str, Any], fixed: int) -> None:
        """Begin a completion; the one before has ended."""
        self._cancelled = threading.Event()
        threading.Thread(target=self._run, args=(body, fixed, self._cancelled), daemon=True).start()

    def cancel(self) -> None:
        """End the current completion at its next token or batch."""
        self._cancelled.set()

    def _run(self, body: dict[str, Any], fixed: int, cancelled: threading.Event) -> None:
        failure: dict[str, Any] | None = None

        def take(chunk: dict[str, Any]) -> bool:
            nonlocal failure
            if "error" in chunk:
                failure = chunk["error"]
            elif chunk and not cancelled.is_set():
                self.say(chunk=chunk)
            return cancelled.is_set()

        try:
            self._prefixes.prepare(body["messages"][:fixed], take)
            if not cancelled.is_set():
                self._server.handle_chat_completions(body, take)
        except Exception as error:  # noqa: BLE001  whatever the engine raises is the failure of this completion
            failure = {"type": "exception", "message": str(error)}
        self.say(end=failure)


def load(settings: Settings) -> tuple[Any, Prefixes]:
    """The engine with its model, and what it knows of prompts; takes seconds."""
    import xllamacpp  # noqa: PLC0415  100 MB, for this process only

    key = secrets.token_urlsafe(32)
    states = Path(private_directory(settings.states))
    params = xllamacpp.CommonParams()
    params.model.path = settings.model
    params.n_ctx = settings.context
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.reading_threads
    params.n_batch = params.n_ubatch = _BATCH
    params.n_parallel = 1
    params.cache_ram_mib = _CACHE_MIB
    params.ctx_shift = False
    params.fit_params = False
    params.warmup = False
    params.verbosity = _QUIET
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_threads_http = 1
    params.api_keys = [key]
    params.ui = False
    params.endpoint_slots = False
    params.slot_save_path = f"{states}/"
    server = xllamacpp.Server(params)
    model = Path(settings.model).stat()
    identity = f"{xllamacpp.__version__} {settings.model} {model.st_size} {model.st_mtime_ns}"
    return server, Prefixes(server, key, states, identity)


def die_with(parent: int) -> None:
    """Be killed when the parent dies, and be the first that the kernel kills when memory runs out."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123  no path is computed
        file.write("500")


def _private_stdout() -> TextIO:
    """Standard output for events alone: what a library prints goes to standard error."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def _commands() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    """Load the model, then serve until standard input ends."""
    settings = Settings(**json.loads(sys.argv[1]))
    die_with(int(sys.argv[2]))
    out = _private_stdout()
    os.umask(0o077)
    generation = Generation(*load(settings), out)
    generation.say(ready=True)
    for command in _commands():
        if "run" in command:
            generation.start(command["run"], command["fixed"])
        else:
            generation.cancel()
    os._exit(0)  # without waiting for a generation, or for the engine's threads


if __name__ == "__main__":
    main()
