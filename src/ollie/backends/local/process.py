"""The engine's process seen from the server: started, asked for one completion at a time, ended.

A process that dies ends what ran on it with a `BackendError`; nothing is retried here.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from ollie.backends.interface import BackendError, ErrorKind
from ollie.backends.local.worker import Settings

_LINE_LIMIT = 1 << 20
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH")
_KEPT_LINES = 5

PATIENCE_S = 15.0
"""A busy machine needs seconds for a batch of a prompt, and a new process has nothing in its cache."""


class Run:
    """One completion: its chunks as they come, and a way to end it."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._inbox: asyncio.Queue[dict[str, Any] | BackendError | None] = asyncio.Queue()
        self._on_end: list[Callable[[], None]] = []
        self.ended = False

    def put(self, chunk: dict[str, Any]) -> None:
        """A chunk that the engine gave."""
        self._inbox.put_nowait(chunk)

    def end(self, failure: BackendError | None) -> None:
        """The engine has ended it, or is no more."""
        self.ended = True
        self._inbox.put_nowait(failure)
        for callback in self._on_end:
            callback()

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the engine is free again; at once if it is."""
        if self.ended:
            callback()
        else:
            self._on_end.append(callback)

    async def next(self) -> dict[str, Any] | None:
        """The next chunk, None at the end; raises the failure."""
        item = await self._inbox.get()
        if isinstance(item, BackendError):
            raise item
        return item

    def cancel(self) -> None:
        """Ask the engine to end it; returns at once."""
        if not self.ended:
            self._cancel()


class Engine:
    """A running engine; made by `start`.

    Args:
        process: its process.
        patience_s: how long after a cancel, or after its standard input was closed, that is killed.
    """

    def __init__(self, process: asyncio.subprocess.Process, patience_s: float) -> None:
        self._process = process
        self._patience_s = patience_s
        self._run: Run | None = None
        self._last_words: deque[str] = deque(maxlen=_KEPT_LINES)
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drained = asyncio.create_task(self._drain())
        self._heard = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, settings: Settings, patience_s: float = PATIENCE_S) -> "Engine":
        """Start it and wait until the model is loaded; raises `BackendError`. A cancel ends the process."""
        # -P: the working directory of whoever started the server is no place to import from.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "ollie.backends.local.worker"),
            *(json.dumps(settings._asdict()), str(os.getpid())),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            cwd="/",
            limit=_LINE_LIMIT,
            start_new_session=True,  # an interrupt typed at the server's terminal is the server's to handle
        )
        engine = cls(process, patience_s)
        try:
            await asyncio.shield(engine._ready)
        except BaseException:
            engine._kill()  # while it loads the model it hears nothing
            await engine.close()
            engine._ready.exception()  # that it did not become ready is known
            raise
        return engine

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """It can take a completion."""
        return not self._heard.done()

    def run(self, body: dict[str, Any], fixed: int) -> Run:
        """Begin a completion, of whose messages the first `fixed` are the same in many; the one before has ended."""
        assert self._run is None or self._run.ended
        self._run = Run(self._cancel)
        self._send({"run": body, "fixed": fixed})
        return self._run

    async def close(self) -> None:
        """End the process, by force if it does not go; a completion that runs fails."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        killing = asyncio.get_running_loop().call_later(self._patience_s, self._kill)
        try:
            await asyncio.shield(asyncio.gather(self._heard, self._drained))
        except asyncio.CancelledError:
            self._kill()
            raise
        finally:
            killing.cancel()

    def _send(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    def _cancel(self) -> None:
        self._send({"cancel": True})
        killing = asyncio.get_running_loop().call_later(self._patience_s, self._kill)
        if self._run is not None:
            self._run.on_end(killing.cancel)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _listen(self) -> None:
        """Hand out what the process says, until it ends."""
        try:
            await self._hear()
        except ValueError:  # no line of ours: whatever it is, it is not to be talked to
            self._kill()
        failure = await self._epitaph()
        if not self._ready.done():
            self._ready.set_exception(failure)
        if self._run is not None and not self._run.ended:
            self._run.end(failure)

    async def _hear(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            match json.loads(line):
                case {"ready": _}:
                    self._ready.set_result(None)
                case {"chunk": chunk} if self._run is not None:
                    self._run.put(chunk)
                case {"end": failure} if self._run is not None:
                    self._run.end(None if failure is None else _failure(failure))

    async def _drain(self) -> None:
        """Read standard error, of which the last lines may explain an end."""
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self._last_words.append(line.decode(errors="replace").strip())

    async def _epitaph(self) -> BackendError:
        status = await self._process.wait()
        await asyncio.wait([self._drained])
        how = f"exit status {status}"
        if status < 0:
            how = signal.Signals(-status).name
        if status == -signal.SIGILL:
            how += ": it needs a processor with AVX2"
        elif self._last_words:
            how += ": " + self._last_words[-1]
        return BackendError(ErrorKind.unavailable, f"the engine of the embedded model ended ({how})")


def _failure(error: dict[str, Any]) -> BackendError:
    """What the engine said of a completion, as a failure of the interface."""
    if error.get("type") == "exceed_context_size_error":
        asked, limit = error.get("n_prompt_tokens", 0), error.get("n_ctx", 0)
        return BackendError(
            ErrorKind.context_overflow, f"the conversation has {asked} tokens, the embedded model takes {limit}"
        )
    message = str(error.get("message", "no reason given"))
    kind = ErrorKind.bad_request if error.get("code") == 400 else ErrorKind.unavailable
    return BackendError(kind, f"the engine of the embedded model refused: {message}")
