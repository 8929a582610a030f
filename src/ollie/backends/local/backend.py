"""The embedded model as a backend: one engine, one reply at a time, in the order of asking."""

import uuid
from collections.abc import AsyncGenerator
from typing import Any

from ollie.backends.interface import BackendError, ErrorKind
from ollie.backends.local.chunks import Chunks
from ollie.backends.local.line import Line
from ollie.backends.local.process import PATIENCE_S, Engine
from ollie.backends.local.prompt import prompt
from ollie.backends.local.reply import Reply
from ollie.backends.local.worker import Settings
from ollie.engine.messages import Activity, Request, StreamEvent

_DEFAULTS = {"temperature": 0.0, "seed": 0, "max_tokens": 2048}


class LocalBackend:
    """The embedded model. The engine starts with the first request and stays until `close`.

    Args:
        settings: what the engine is started with.
        model: what the model is called.
        patience_s: how long an engine that was told to stop may go on before it is killed.
    """

    def __init__(self, settings: Settings, model: str, patience_s: float = PATIENCE_S) -> None:
        self.name = "local"
        self.default_model = model
        self.parameters = frozenset(
            ("temperature", "top_p", "max_tokens", "seed", "frequency_penalty", "presence_penalty")
        )
        self._settings = settings
        self._patience_s = patience_s
        self._engine: Engine | None = None
        self._line = Line()

    @property
    def engine_pid(self) -> int | None:
        """The process of the engine, None when it does not run."""
        return self._engine.pid if self._engine is not None and self._engine.alive else None

    @property
    def waiting(self) -> int:
        """How many requests run or wait."""
        return len(self._line)

    async def models(self) -> list[str]:
        """The one model."""
        return [self.default_model]

    async def complete(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply; see `Backend`. The place in the line and how far the model is are told as activity.

        A cancel returns at once; the engine then stops within a token, or a batch of the prompt, and takes the next
        request after that.
        """
        if request.model not in ("", self.default_model):
            raise BackendError(ErrorKind.not_found, f"no such model: {request.model} (local has {self.default_model})")
        body, fixed = self._body(request)
        chunks = Chunks(Reply(f"call_{uuid.uuid4().hex[:12]}", plain=not request.tools))
        place = self._line.join()
        try:
            while ahead := place.ahead:
                yield Activity(f"queued, {ahead} ahead")
                await place.move()
            if self._engine is None or not self._engine.alive:
                yield Activity("loading the model")
                self._engine = await Engine.start(self._settings, self._patience_s)
            run = self._engine.run(body, fixed)
        except BaseException:
            place.leave()
            raise
        run.on_end(place.leave)
        try:
            while (chunk := await run.next()) is not None:
                for event in chunks.feed(chunk):
                    yield event
            for event in chunks.finish():
                yield event
        finally:
            run.cancel()

    async def close(self) -> None:
        """End the engine; a reply that is being generated fails."""
        if self._engine is not None:
            await self._engine.close()

    def _body(self, request: Request) -> tuple[dict[str, Any], int]:
        """A completion for the engine, and how many of its messages are fixed."""
        shown = prompt(request, self._settings.context)
        taken = {key: value for key, value in request.parameters.items() if key in self.parameters}
        body = {
            **_DEFAULTS,
            **taken,
            "messages": shown.messages,
            "logit_bias": list(shown.bias.items()),
            "cache_prompt": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
        }
        return body if shown.grammar is None else {**body, "grammar": shown.grammar}, shown.fixed
