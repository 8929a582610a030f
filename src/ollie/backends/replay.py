"""A backend that plays a script of turns: for tests of prompts, of shell scripts around agents, and of Ollie itself.

Which reply is played depends on the conversation alone: the newest words of the user that some turn fits say which
turn, and the number of replies since then which of its replies. So any number of agents can share one script.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ollie.backends import script as scripts
from ollie.backends.interface import PARAMETERS, Request
from ollie.backends.script import Reply, Script, ScriptedError, ScriptedUsage, ScriptError, filled
from ollie.engine import messages as m
from ollie.engine.messages import BackendError, ErrorKind
from ollie.engine.system import is_reminder
from ollie.protocol.words import reason


class ReplayBackend:
    """Plays a script.

    Args:
        script: what it says.
    """

    name = "replay"
    parameters = frozenset(PARAMETERS)

    def __init__(self, script: Script) -> None:
        self.default_model = script.model
        self._script = script
        self._failures: Counter[int] = Counter()

    async def models(self) -> list[str]:
        """The one model that the script plays."""
        return [self.default_model]

    async def complete(self, request: Request) -> AsyncGenerator[m.StreamEvent, None]:
        """Play the next reply of the conversation; BackendError `bad_request` says what the script lacks."""
        words, reply = self._find(request.messages)
        if reply.activity:
            yield m.Activity(reply.activity)
        error = self._error(reply)
        for number, event in enumerate(_spoken(reply, words)):
            if error and number >= error.after:
                break
            if reply.pace_s:
                await asyncio.sleep(reply.pace_s)
            yield event
        if error:
            raise BackendError(error.kind, error.message, error.retry_after_s)
        for at, call in enumerate(reply.calls):
            arguments = filled(call.arguments, words)
            text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
            yield m.CallDelta(at, call.id or f"call_{at + 1}", call.name, text)
        if reply.usage:
            yield _report(reply.usage)
        if not reply.cut:
            yield m.End(reply.stop or ("tool_calls" if reply.calls else "stop"))

    async def close(self) -> None:
        """There is nothing to give back."""

    def _error(self, reply: Reply) -> ScriptedError | None:
        """The failure that is due now."""
        if reply.error and reply.error.times:
            self._failures[id(reply)] += 1
            return reply.error if self._failures[id(reply)] <= reply.error.times else None
        return reply.error

    def _find(self, history: Sequence[m.Message]) -> tuple[dict[str, str], Reply]:
        """The words that a reply may repeat, and the reply."""
        prompts = [at for at, message in enumerate(history) if isinstance(message, m.User)]
        for at in reversed(prompts):
            prompt = _text(history[at])
            turns = [turn for turn in self._script.turns if turn.fits(prompt)]
            if is_reminder(prompt) or not turns:
                continue
            said_before = sum(_text(history[other]) == prompt for other in prompts if other < at)
            turn = turns[min(said_before, len(turns) - 1)]
            number = sum(isinstance(message, m.Assistant) for message in history[at:])
            if number >= len(turn.replies):
                raise BackendError(ErrorKind.bad_request, f"the script has no reply {number + 1} to: {_short(prompt)}")
            results = [_text(message) for message in history[at:] if isinstance(message, m.ToolResult)]
            return {"prompt": prompt, "result": (results or [""])[-1]}, turn.replies[number]
        newest = _text(history[prompts[-1]]) if prompts else ""
        raise BackendError(ErrorKind.bad_request, f"the script has no turn for: {_short(newest)}")


def create(path: str = "") -> ReplayBackend:
    """The backend that plays the script in a file.

    Raises:
        BackendError: `bad_request`: no file is named, it cannot be read, or it is no script.
    """
    if not path:
        raise BackendError(ErrorKind.bad_request, "the replay backend needs a script: set OLLIE_REPLAY to its path")
    try:
        return ReplayBackend(scripts.parse(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise BackendError(ErrorKind.bad_request, f"cannot read the script {path}: {reason(error)}") from None
    except (ScriptError, UnicodeDecodeError) as error:
        raise BackendError(ErrorKind.bad_request, f"{path}: {error}") from None


def _spoken(reply: Reply, words: dict[str, str]) -> list[m.StreamEvent]:
    events: list[m.StreamEvent] = []
    if reply.reasoning:
        events.append(m.ReasoningDelta(filled(reply.reasoning, words)))
    events.extend(m.TextDelta(filled(piece, words)) for piece in reply.pieces)
    return events


def _report(usage: ScriptedUsage) -> m.UsageReport:
    tokens = m.Usage(
        input_tokens=usage.input_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )
    return m.UsageReport(tokens, usage.cost_usd)


def _text(message: Any) -> str:
    if isinstance(message, m.ToolResult):
        return "".join(part.text for part in message.content if isinstance(part, m.TextContent))
    text: str = message.text
    return text


def _short(text: str) -> str:
    return " ".join(text.split())[:80]
