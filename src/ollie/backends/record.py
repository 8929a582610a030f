"""Recording: any backend, and a script of what it said, which the replay backend plays."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ollie.backends import script as scripts
from ollie.backends.interface import Backend, Request, stream
from ollie.backends.script import Reply, Script, ScriptedCall, ScriptedError, ScriptedUsage, Turn
from ollie.engine import messages as m
from ollie.engine.history import parse_arguments
from ollie.engine.messages import BackendError
from ollie.engine.partial import Partial, joined
from ollie.engine.system import is_reminder


class _Place(Struct, frozen=True):
    """Where a reply belongs: the words of the user, which time they were said, how many replies came since."""

    prompt: str
    time: int
    number: int


class Recorder:
    """A backend that is recorded.

    The file is written anew after each reply, whole or not at all. A request that failed is a part of the reply that
    came when it was repeated.

    Args:
        backend: what is recorded.
        path: the script, replaced if it exists.
    """

    def __init__(self, backend: Backend, path: str) -> None:
        self.name = backend.name
        self.default_model = backend.default_model
        self.parameters = backend.parameters
        self._backend = backend
        self._path = Path(path)
        self._replies: dict[_Place, Reply] = {}
        self._writing = asyncio.Lock()

    async def models(self) -> list[str]:
        """The models of the backend."""
        return await self._backend.models()

    async def complete(self, request: Request) -> AsyncGenerator[m.StreamEvent, None]:
        """The reply of the backend."""
        partial = Partial()
        place = _place(request)
        try:
            async with contextlib.aclosing(stream(self._backend, request)) as events:
                async for event in events:
                    partial = _heard(partial, event)
                    if isinstance(event, m.End):
                        await self._keep(place, _reply(partial, event.stop, self._replies.get(place)))
                    yield event
        except BackendError as error:
            before = self._replies.get(place)
            times = before.error.times if before and before.error else 0
            failed = ScriptedError(error.kind, error.message, error.retry_after_s, times + 1)
            await self._keep(place, Reply(error=failed))
            raise

    async def close(self) -> None:
        """Close the backend."""
        await self._backend.close()

    async def _keep(self, place: _Place, reply: Reply) -> None:
        self._replies[place] = reply
        async with self._writing:
            await asyncio.to_thread(self._write, scripts.dump(self._script()))

    def _script(self) -> Script:
        turns: dict[tuple[str, int], list[Reply]] = {}
        for place, reply in sorted(self._replies.items(), key=lambda item: item[0].number):
            turns.setdefault((place.prompt, place.time), []).append(reply)
        in_order = sorted(turns.items(), key=lambda item: item[0][1])
        return Script([Turn(replies, prompt) for (prompt, _), replies in in_order], self.default_model or "replay")

    def _write(self, text: str) -> None:
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, self._path)  # noqa: PTH105  # atomic


def _place(request: Request) -> _Place:
    prompts = [
        (at, message.text)
        for at, message in enumerate(request.messages)
        if isinstance(message, m.User) and not is_reminder(message.text)
    ]
    at, prompt = prompts[-1] if prompts else (0, "")
    time = sum(text == prompt for _, text in prompts)
    return _Place(prompt, time, sum(isinstance(message, m.Assistant) for message in request.messages[at:]))


def _heard(partial: Partial, event: m.StreamEvent) -> Partial:
    match event:
        case m.TextDelta(text):
            return replace(partial, texts=joined(partial.texts, text))
        case m.ReasoningDelta(text):
            return replace(partial, reasonings=joined(partial.reasonings, text))
        case m.CallDelta():
            return partial.with_call(event)
        case m.UsageReport():
            return replace(partial, report=event)
        case _:
            return partial


def _reply(partial: Partial, stop: m.StopReason, before: Reply | None) -> Reply:
    calls = [ScriptedCall(call.name, _arguments(call.arguments), call.id) for call in partial.calls]
    report = partial.report
    usage = ScriptedUsage(**msgspec.structs.asdict(report.usage), cost_usd=report.cost_usd) if report else None
    by_itself = "tool_calls" if calls else "stop"
    return Reply(
        text=partial.text,
        reasoning=partial.reasoning,
        calls=calls,
        stop=None if stop == by_itself else stop,
        usage=usage,
        error=before.error if before else None,
    )


def _arguments(text: str) -> dict[str, Any] | str:
    arguments = parse_arguments(text)
    return text if arguments is None or not text else arguments
