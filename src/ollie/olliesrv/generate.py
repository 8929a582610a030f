"""One question to a model and its answer, without an agent, history or tools: the root file `generate`."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from ollie.backends.interface import PARAMETERS, Backend, stream
from ollie.engine import retry
from ollie.engine.limits import Limits
from ollie.engine.messages import BackendError, Request, TextDelta, User
from ollie.olliesrv.errors import RefusedError, unknown
from ollie.olliesrv.settings import choice
from ollie.olliesrv.settings.services import Services
from ollie.olliesrv.turns import prompts

_KEYS = ("prompt", "system", "model", "backend", *PARAMETERS)


async def generate(services: Services, data: bytes) -> AsyncGenerator[bytes, None]:
    """The answer to a question, piece by piece as it comes.

    Args:
        services: what the server has.
        data: the prompt as text; or a JSON object with `prompt`, and if need be `system`, `model`, `backend` and
            sampling keys.

    Raises:
        RefusedError: the request cannot be read, there is no such backend, or the model fails.
    """
    fields = parse(data, services.config.max_prompt_bytes)
    name = fields.pop("backend", "") or services.backends.default
    backend = choice.backend(services.backends, name)
    request = _request(backend, choice.model(services.backends, name, fields.pop("model", "")), fields)
    ended_in_newline = True
    async with contextlib.aclosing(_texts(backend, request, services.config)) as texts:
        async for piece in texts:
            ended_in_newline = piece.endswith("\n")
            yield piece.encode(errors="replace")
    if not ended_in_newline:
        yield b"\n"


def parse(data: bytes, limit_bytes: int) -> dict[str, Any]:
    """The fields of a request. A text between `{` and `}` is a JSON object, any other is the prompt itself."""
    text = prompts.read(data, limit_bytes)
    fields: dict[str, Any] = {"prompt": text}
    if text.strip().startswith("{") and text.strip().endswith("}"):
        try:
            fields = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise RefusedError(f"request is not valid JSON: {str(error).lower()}") from None
    for key, value in fields.items():
        if key not in _KEYS:
            raise unknown("key", key, _KEYS)
        try:
            msgspec.convert(value, PARAMETERS.get(key, str))
        except msgspec.ValidationError as error:
            raise RefusedError(f"{key}: {str(error).lower()}") from None
    prompts.check_words(fields.setdefault("prompt", ""))
    return dict(fields)


def _request(backend: Backend, model: str, fields: dict[str, Any]) -> Request:
    prompt, system = fields.pop("prompt"), fields.pop("system", "")
    choice.check(backend, fields)
    return Request(model, system, (User(prompt),), (), fields)


async def _texts(backend: Backend, request: Request, limits: Limits) -> AsyncGenerator[str, None]:
    """The texts of a reply; what fails before the first one is repeated by the engine's rule."""
    attempt = 0
    while True:
        silent = True
        try:
            async with contextlib.aclosing(stream(backend, request)) as events:
                async for event in events:
                    if isinstance(event, TextDelta) and event.text:
                        silent = False
                        yield event.text
        except BackendError as error:
            jitter = random.random()  # noqa: S311  spreads repeated requests, protects nothing
            delay_s = retry.delay(limits, error.kind, attempt, error.retry_after_s, jitter) if silent else None
            if delay_s is None:
                raise RefusedError(error.message) from None
        else:
            return
        attempt += 1
        await asyncio.sleep(delay_s)
