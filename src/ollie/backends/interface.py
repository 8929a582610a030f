"""The one interface of every model provider.

A backend turns a `Request` into a stream of events and maps every failure to a `BackendError`. Retries, budgets and
history belong to the engine. Sampling keys are the same at all of them; each says which it takes.
"""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any, Protocol

import msgspec

from ollie.engine.messages import BackendError, End, ErrorKind, Request, StreamEvent

__all__ = ["PARAMETERS", "Backend", "BackendError", "ErrorKind", "Request", "parse_parameter", "stream"]

PARAMETERS: dict[str, Any] = {
    "temperature": float,
    "top_p": float,
    "max_tokens": int,
    "seed": int,
    "stop": list[str],
    "frequency_penalty": float,
    "presence_penalty": float,
    "reasoning_effort": str,
}
"""Every sampling key with the type of its value; a backend takes a subset."""


class Backend(Protocol):
    """A provider of models, configured and ready."""

    name: str
    """Its name in `backends` and in `cfg`."""

    default_model: str
    """The model of an agent that names none; empty where there is none."""

    parameters: frozenset[str]
    """The keys of `PARAMETERS` that it takes."""

    async def models(self) -> list[str]:
        """The names of its models, sorted; raises `BackendError`."""

    def complete(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply; `End` comes last. Raises `BackendError`.

        Closing the generator, or cancelling the task that waits for it, ends the request at the provider.
        """

    async def close(self) -> None:
        """Give back connections; the backend is not used afterwards."""


async def stream(backend: Backend, request: Request) -> AsyncGenerator[StreamEvent, None]:
    """`backend.complete(request)`, held to the interface: after `End` nothing, and without it `stream_cut`.

    Closing it closes the backend's generator.
    """
    async with contextlib.aclosing(backend.complete(request)) as events:
        async for event in events:
            yield event
            if isinstance(event, End):
                return
    raise BackendError(ErrorKind.stream_cut, "the reply ended without a stop reason")


def parse_parameter(name: str, text: str) -> Any:
    """The value of a sampling key as `cfg` takes it: a number, a JSON list, or bare text.

    A ValueError says what is wrong.
    """
    kind = PARAMETERS[name]
    with contextlib.suppress(msgspec.MsgspecError):
        if kind is str:
            return text
        return msgspec.json.decode(text, type=kind)
    if kind == list[str] and not text.startswith("["):
        return [text]
    wanted = {float: "a number", int: "a whole number"}.get(kind, "a JSON list of texts")
    raise ValueError(f"{name} must be {wanted}: {text}")
