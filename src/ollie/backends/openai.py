"""The backend `openai`: chat completions, of OpenAI and of every server that is compatible with it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any, Final

from ollie.backends.chat_reply import DONE, Reply
from ollie.backends.chat_request import Requests
from ollie.backends.http import BODY_BYTES, Http
from ollie.backends.interface import PARAMETERS, Request
from ollie.backends.sse import EVENT_LIMIT_BYTES, Decoder, Event, SseError
from ollie.engine import messages as m
from ollie.engine.messages import BackendError, ErrorKind

_OFFICIAL_URL: Final = "https://api.openai.com/v1"
_OFFICIAL_MODEL: Final = "gpt-5-mini"
_SILENCE_S: Final = 300.0
_USAGE_S: Final = 5.0


class OpenAIBackend:
    """A server of chat completions.

    Args:
        http: connections to it.
        secret: its key, kept out of messages.
        official: it is OpenAI itself, with its own names for some keys.
        usage_s: how long to wait for the usage of a reply that is complete.
        event_limit_bytes: the most bytes that one event of a reply may have.
    """

    name = "openai"
    parameters = frozenset(PARAMETERS)

    def __init__(
        self,
        http: Http,
        *,
        secret: str,
        official: bool,
        usage_s: float = _USAGE_S,
        event_limit_bytes: int = EVENT_LIMIT_BYTES,
    ) -> None:
        self.default_model = _OFFICIAL_MODEL if official else ""
        self._http = http
        self._secret = secret
        self._usage_s = usage_s
        self._event_limit_bytes = event_limit_bytes
        self._requests = Requests({"max_tokens": "max_completion_tokens"} if official else None)

    async def models(self) -> list[str]:
        """The names of its models, sorted; raises `BackendError`."""
        answer = await self._http.get("models")
        found = answer.get("data") or answer.get("models") if isinstance(answer, dict) else answer
        models = [_model(one) for one in found] if isinstance(found, list) else []
        return sorted({name for name in models if name})

    async def complete(self, request: Request) -> AsyncGenerator[m.StreamEvent, None]:
        """Stream one reply; see `Backend.complete`."""
        body = self._requests.encode(request, request.model or await self._only_model())
        reply = Reply(self._secret)
        async with (
            contextlib.aclosing(self._http.post("chat/completions", body)) as chunks,
            contextlib.aclosing(_until_complete(chunks, reply, self._usage_s)) as pieces,
            contextlib.aclosing(_events(pieces, Decoder(self._event_limit_bytes))) as answer,
        ):
            async for event in answer:
                if event.data.strip() == DONE:
                    break
                for part in reply.read(event):
                    yield part
        for part in reply.finish():
            yield part

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _only_model(self) -> str:
        """The model of a request that names none: the only one that the server has."""
        models = await self.models()
        if len(models) == 1:
            return models[0]
        few = " ".join(models[:10]) or "none"
        raise BackendError(
            ErrorKind.not_found, f"no model is chosen: set OLLIE_MODEL or the model of the agent ({few})"
        )


def create(api_key: str = "", base_url: str = "", silence_s: float = _SILENCE_S) -> OpenAIBackend:
    """The backend, not connected yet.

    Args:
        api_key: sent as a bearer token; servers of one's own often need none.
        base_url: up to and without `/chat/completions`; OpenAI's own when empty.
        silence_s: how long the server may say nothing.

    Raises:
        BackendError: `auth` without a key for OpenAI itself; `bad_request` for arguments that cannot be.
    """
    if not isinstance(silence_s, int | float) or silence_s <= 0:
        raise BackendError(ErrorKind.bad_request, "backends.openai.silence_s is not a number of seconds")
    key = str(api_key).strip()
    url = str(base_url).strip() or _OFFICIAL_URL
    official = url.rstrip("/") == _OFFICIAL_URL
    if official and not key:
        raise BackendError(ErrorKind.auth, "the openai backend needs a key: set OPENAI_API_KEY, or OPENAI_BASE_URL")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return OpenAIBackend(Http(url, headers, secret=key, silence_s=silence_s), secret=key, official=official)


async def _events(chunks: AsyncGenerator[bytes, None], decoder: Decoder) -> AsyncGenerator[Event, None]:
    """The events of an answer: a stream, or one JSON object of a server that does not stream."""
    whole = bytearray()
    streams: bool | None = None
    async for chunk in chunks:
        if streams is None:
            streams = not chunk.lstrip().startswith(b"{")
        if not streams:
            whole += chunk
            if len(whole) > BODY_BYTES:
                raise BackendError(ErrorKind.stream_cut, f"the reply has more than {BODY_BYTES} bytes")
            continue
        try:
            events = decoder.feed(chunk)
        except SseError as error:
            raise BackendError(ErrorKind.stream_cut, str(error)) from None
        for event in events:
            yield event
    if whole:
        yield Event(bytes(whole))


async def _until_complete(
    chunks: AsyncGenerator[bytes, None], reply: Reply, usage_s: float
) -> AsyncGenerator[bytes, None]:
    """The chunks. Behind the stop reason comes only the usage, for which not long is waited and no failure counts."""
    async for chunk in chunks:
        yield chunk
        if reply.stop is not None:
            break
    until = asyncio.get_running_loop().time() + usage_s
    while chunk := await _before(until, chunks):
        yield chunk


async def _before(until: float, chunks: AsyncGenerator[bytes, None]) -> bytes:
    """The next chunk; empty when there is none by that time."""
    try:
        async with asyncio.timeout_at(until):
            return await anext(chunks, b"")
    except (TimeoutError, BackendError):
        return b""


def _model(entry: Any) -> str:
    if isinstance(entry, dict):
        entry = entry.get("id") or entry.get("name")
    return entry if isinstance(entry, str) else ""
