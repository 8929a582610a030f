"""The openai backend against a real server on loopback that does what servers do."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from ollie.backends import openai
from ollie.backends.http import Http, proxy_of
from ollie.backends.interface import BackendError, ErrorKind, Request, stream
from ollie.engine.messages import (
    Assistant,
    CallDelta,
    End,
    ImageContent,
    ReasoningDelta,
    StreamEvent,
    TextContent,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UsageReport,
    User,
)

KEY = "sk-very-secret"
ASK = Request("m", "be good", (User("hello"),))


@dataclass
class Answer:
    """What the server does with one request: a status, chunks, and then an end, a cut, or silence."""

    chunks: list[bytes] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    then: str = "end"
    content_type: str = "text/event-stream"


class ModelServer:
    """A server of chat completions that gives its answers one after another, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.models: Any = {"data": [{"id": "m"}]}
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.came = asyncio.Event()
        self.gone = asyncio.Event()
        self.url = ""

    async def start(self) -> web.AppRunner:
        """Listen on loopback."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    async def _models(self, _: web.Request) -> web.Response:
        return self.models if isinstance(self.models, web.Response) else web.json_response(self.models)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        self.headers.append(dict(request.headers))
        self.came.set()
        answer = self.answers.pop(0)
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.content_type = answer.content_type
        try:
            if answer.then == "deaf":
                await asyncio.Event().wait()
            await response.prepare(request)
            for chunk in answer.chunks:
                await response.write(chunk)
            if answer.then == "silence":
                await asyncio.Event().wait()
            if answer.then == "cut":
                assert request.transport is not None
                request.transport.close()
        finally:
            self.gone.set()
        return response


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    server = ModelServer()
    runner = await server.start()
    yield server
    await runner.cleanup()


@pytest.fixture
async def backend(server: ModelServer) -> AsyncIterator[openai.OpenAIBackend]:
    backend = openai.create(KEY, server.url)
    yield backend
    await backend.close()


@pytest.fixture
async def impatient(server: ModelServer) -> AsyncIterator[openai.OpenAIBackend]:
    backend = openai.create(KEY, server.url, silence_s=0.2)
    yield backend
    await backend.close()


@pytest.fixture
async def strict(server: ModelServer) -> AsyncIterator[openai.OpenAIBackend]:
    http = Http(server.url, {}, secret=KEY, silence_s=60)
    backend = openai.OpenAIBackend(http, secret=KEY, official=False, usage_s=0.05, event_limit_bytes=1000)
    yield backend
    await backend.close()


def sse(*values: Any) -> bytes:
    return b"".join(b"data: " + (v if isinstance(v, bytes) else json.dumps(v).encode()) + b"\n\n" for v in values)


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(**fields: Any) -> dict[str, Any]:
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return delta(tool_calls=[fields | {"function": function}])


async def ask(backend: openai.OpenAIBackend, request: Request = ASK) -> list[StreamEvent]:
    return [event async for event in stream(backend, request)]


async def failure(backend: openai.OpenAIBackend, request: Request = ASK) -> BackendError:
    with pytest.raises(BackendError) as caught:
        await ask(backend, request)
    assert KEY not in str(caught.value)
    return caught.value


STOP = delta("stop")
DONE = b"[DONE]"


async def test_a_reply(server: ModelServer, backend: openai.OpenAIBackend) -> None:
    """Reasoning, text and usage come as events, the end last."""
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    server.answers = [
        Answer(
            [
                sse(delta(role="assistant", content=""), delta(reasoning_content="hm"), delta(content="hi")),
                b": ping\n\n",
                sse(delta(content=" you"), STOP, {"choices": [], "usage": usage}, DONE),
            ]
        )
    ]
    assert await ask(backend) == [
        ReasoningDelta("hm"),
        TextDelta("hi"),
        TextDelta(" you"),
        UsageReport(Usage(10, 4, 5, 2)),
        End("stop"),
    ]


async def test_what_is_sent(server: ModelServer, backend: openai.OpenAIBackend) -> None:
    """The whole history, tools and sampling keys arrive as the API wants them."""
    server.answers = [Answer([sse(STOP)])]
    history = (
        User("look"),
        Assistant("I look", "hm", (ToolCall("a", "see", '{"n":1}'), ToolCall("b", "see", "{}"))),
        ToolResult("a", "see", (ImageContent("aGk=", "image/png"),)),
        ToolResult("b", "see", (TextContent("no"),), is_error=True),
        User("and?"),
    )
    tool = ToolSpec("see", "See it.", {"type": "object"}, "read")
    await ask(backend, Request("m", "be good", history, (tool,), {"temperature": 0.5, "max_tokens": 9}))
    (asked,) = server.asked
    assert [message["role"] for message in asked.pop("messages")] == [
        *("system", "user", "assistant", "tool", "tool", "user", "user")
    ]
    assert asked == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "see", "description": "See it.", "parameters": {"type": "object"}},
            }
        ],
        "temperature": 0.5,
        "max_tokens": 9,
    }
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


async def test_messages_are_written_for_the_api(server: ModelServer, backend: openai.OpenAIBackend) -> None:
    """Calls, results, errors and images each have the form of the API, images behind the results they belong to."""
    server.answers = [Answer([sse(STOP)])]
    calls = (ToolCall("a", "see", '{"n":1}'), ToolCall("b", "see", "{}"))
    results = (
        ToolResult("a", "see", (ImageContent("aGk=", "image/png"),)),
        ToolResult("b", "see", (TextContent("no"),), is_error=True),
    )
    await ask(backend, Request("m", "", (Assistant(calls=calls), *results)))
    function = {"name": "see", "arguments": '{"n":1}'}
    assistant, first, second, images = server.asked[0]["messages"]
    assert assistant["content"] is None
    assert assistant["tool_calls"][0] == {"id": "a", "type": "function", "function": function}
    assert first == {"role": "tool", "tool_call_id": "a", "content": "(an image, shown below)"}
    assert second == {"role": "tool", "tool_call_id": "b", "content": "error: no"}
    assert images["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


async def test_a_lone_surrogate_can_be_asked(server: ModelServer, backend: openai.OpenAIBackend) -> None:
    """What has no UTF-8 does not keep a request from being sent."""
    server.answers = [Answer([sse(STOP)])]
    await ask(backend, Request("m", "", (User("a\ud83db"),)))
    assert server.asked[0]["messages"] == [{"role": "user", "content": "a?b"}]


CALLS: list[tuple[str, list[dict[str, Any]], list[tuple[int, str, str, str]]]] = [
    (
        "in pieces",
        [
            call(index=0, id="a", name="f", arguments=""),
            call(index=0, arguments='{"x"'),
            call(index=0, arguments=":1}"),
        ],
        [(0, "a", "f", ""), (0, "", "", '{"x"'), (0, "", "", ":1}")],
    ),
    (
        "two, interleaved",
        [call(index=0, id="a", name="f"), call(index=1, id="b", name="g"), call(index=0, arguments="{}")],
        [(0, "a", "f", ""), (1, "b", "g", ""), (0, "", "", "{}")],
    ),
    (
        "no index",
        [call(id="a", name="f", arguments="{}"), call(id="b", name="g"), call(arguments="{}")],
        [(0, "a", "f", "{}"), (1, "b", "g", ""), (1, "", "", "{}")],
    ),
    (
        "one index for all",
        [call(index=0, id="a", name="f", arguments="{}"), call(index=0, id="b", name="g", arguments="{}")],
        [(0, "a", "f", "{}"), (1, "b", "g", "{}")],
    ),
    (
        "neither index nor id",
        [call(name="f", arguments="{}"), call(name="g", arguments="{}")],
        [(0, "", "f", "{}"), (1, "", "g", "{}")],
    ),
    (
        "nulls, and arguments that are an object",
        [call(index=None, id=None, name="f", arguments={"x": 1}), call(index=0, id=None, name=None, arguments=None)],
        [(0, "", "f", '{"x": 1}'), (1, "", "", "")],
    ),
    (
        "id and name repeated",
        [call(index=0, id="a", name="f", arguments="{"), call(index=0, id="a", name="f", arguments="}")],
        [(0, "a", "f", "{"), (0, "a", "f", "}")],
    ),
]


@pytest.mark.parametrize(("chunks", "deltas"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS])
async def test_tool_calls(
    server: ModelServer,
    backend: openai.OpenAIBackend,
    chunks: list[dict[str, Any]],
    deltas: list[tuple[int, str, str, str]],
) -> None:
    """Each call has an index of its own, however the server numbers them."""
    server.answers = [Answer([sse(*chunks, delta("tool_calls"), DONE)])]
    assert await ask(backend) == [*(CallDelta(*one) for one in deltas), End("tool_calls")]


@pytest.mark.parametrize(
    ("chunks", "texts"),
    [
        ([{"choices": None}, {"choices": []}, {"choices": [None]}, {"choices": [{"delta": None}]}], []),
        ([delta(content=None), delta(content={"odd": 1}), delta(content=7)], []),
        ([delta(content=[{"type": "text", "text": "a"}, {"type": "x"}, "b"])], ["ab"]),
        ([delta(content="a", unknown={"x": [1]}, tool_calls=None), delta(tool_calls=[None])], ["a"]),
        ([delta(refusal="I will not")], ["I will not"]),
        ([delta(content="a\ud83d"), delta(content="\ude00b")], ["a", "😀b"]),
        ([delta(content="a\ud83d"), delta(content="b")], ["a", "\ufffdb"]),
        ([b'{"choices":[{"delta":{"content":"a\xff"}}]}'], ["a\ufffd"]),
        ([b'{"choices":[{"delta":{"content":"a\\udc00"}}]}'], ["a\ufffd"]),
    ],
)
async def test_odd_fields_are_understood(
    server: ModelServer, backend: openai.OpenAIBackend, chunks: list[Any], texts: list[str]
) -> None:
    """What real servers write where a text belongs is read as the text that it means."""
    server.answers = [Answer([sse(*chunks, STOP, DONE)])]
    assert await ask(backend) == [*(TextDelta(text) for text in texts), End("stop")]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 3, "prompt_cache_hit_tokens": 4}, Usage(9, 4, 3, 0)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 3,
                "total_tokens": 17,
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            Usage(9, 0, 8, 5),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": None}, Usage(9, 0, 1)),
        ({"prompt_tokens": 9, "completion_tokens": None, "prompt_tokens_details": {"cached_tokens": 99}}, Usage(9, 9)),
    ],
)
async def test_usage_means_the_same_everywhere(
    server: ModelServer, backend: openai.OpenAIBackend, usage: dict[str, Any], expected: Usage
) -> None:
    """Cached tokens are part of the input and reasoning part of the output, however the server counts."""
    server.answers = [Answer([sse(STOP | {"usage": usage | {"cost": 0.5}}, {"usage": {}}, {"usage": None}, DONE)])]
    assert await ask(backend) == [UsageReport(expected, 0.5), End("stop")]


@pytest.mark.parametrize(
    ("reason", "stop"), [("stop", "stop"), ("length", "length"), ("function_call", "tool_calls"), ("eos", "stop")]
)
async def test_stop_reasons(server: ModelServer, backend: openai.OpenAIBackend, reason: str, stop: str) -> None:
    """Each server's reason is one of ours."""
    server.answers = [Answer([sse(delta(reason))])]
    assert await ask(backend) == [End(stop)]  # type: ignore[arg-type]  # one of the three it may be


async def test_a_server_that_does_not_stream(server: ModelServer, backend: openai.OpenAIBackend) -> None:
    """One JSON object instead of a stream is a reply, too."""
    message = {"content": "hi", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
    server.answers = [Answer([body[:20], body[20:]], content_type="application/json")]
    assert await ask(backend) == [TextDelta("hi"), CallDelta(0, "a", "f", "{}"), End("tool_calls")]


async def test_a_server_that_forgets_to_hang_up(server: ModelServer, strict: openai.OpenAIBackend) -> None:
    """Behind the stop reason no silence, cut or missing end marker makes a complete reply fail."""
    for then in ("silence", "cut", "end"):
        server.answers = [Answer([sse(delta(content="hi"), STOP)], then=then)]
        assert await ask(strict) == [TextDelta("hi"), End("stop")]


def error(message: str, **fields: Any) -> bytes:
    return json.dumps({"error": {"message": message} | fields}).encode()


@pytest.mark.parametrize(
    "case",
    [
        (400, error("bad value"), "bad_request", "bad value (HTTP 400)"),
        (400, error("too long", code="context_length_exceeded"), "context_overflow", "too long (HTTP 400)"),
        (400, error("exceeds the available context size"), "context_overflow", None),
        (400, error("no", code="content_policy_violation"), "refused", None),
        (400, b'{"detail":[{"loc":1}]}', "bad_request", "the server answered HTTP 400"),
        (400, b"[]", "bad_request", "the server answered HTTP 400"),
        (400, b'[{"error":7}]', "bad_request", "the server answered HTTP 400"),
        (400, b'[{"error":{"message":"in a list"}}]', "bad_request", "in a list (HTTP 400)"),
        (400, b'{"message":"plain"}', "bad_request", "plain (HTTP 400)"),
        (401, error(f"bad key {KEY}"), "auth", "bad key [key] (HTTP 401)"),
        (403, error("not you"), "auth", None),
        (404, error("no such model"), "not_found", None),
        (413, b"", "context_overflow", "the server answered HTTP 413"),
        (422, b'{"detail":"odd"}', "bad_request", "odd (HTTP 422)"),
        (429, error("slow down", type="rate_limit_error"), "rate_limited", None),
        (429, error("pay", type="x", code="insufficient_quota"), "refused", None),
        (500, error("oops"), "unavailable", None),
        (502, b"<html>bad gateway</html>", "unavailable", "the server answered HTTP 502"),
        (503, b"loading", "overloaded", "loading (HTTP 503)"),
        (529, b'{"error":"busy"}', "overloaded", "busy (HTTP 529)"),
        (302, b"", "unavailable", None),
        (204, b"", "unavailable", None),
    ],
)
async def test_statuses(server: ModelServer, backend: openai.OpenAIBackend, case: tuple[int, bytes, str, Any]) -> None:
    """Each status and error body is one kind of error, told in one line without the key."""
    status, body, kind, text = case
    server.answers = [Answer([body] if body else [], status=status, content_type="application/json")]
    caught = await failure(backend)
    assert caught.kind == kind
    assert text is None or caught.message == text


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"Retry-After": "7"}, 7, 7),
        ({"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}, 1e6, 1e10),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0, 0),
        ({"Retry-After": "-3"}, 0, 0),
        ({"retry-after-ms": "1500", "Retry-After": "2"}, 1.5, 1.5),
    ],
)
async def test_retry_after(
    server: ModelServer, backend: openai.OpenAIBackend, headers: dict[str, str], least: float, most: float
) -> None:
    """The wait that a server asks for is understood in seconds, milliseconds and as a date."""
    server.answers = [Answer(status=429, headers=headers)]
    caught = await failure(backend)
    assert caught.retry_after_s is not None
    assert least <= caught.retry_after_s <= most


@pytest.mark.parametrize("value", ["soon", "nan", "inf", ""])
async def test_a_retry_after_that_says_nothing(server: ModelServer, backend: openai.OpenAIBackend, value: str) -> None:
    """A Retry-After that is no time is none."""
    server.answers = [Answer(status=429, headers={"Retry-After": value})]
    assert (await failure(backend)).retry_after_s is None


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (Answer([sse(delta(content="a"))]), "stream_cut", "the reply ended without a stop reason"),
        (Answer([sse(delta(content="a"), DONE)]), "stream_cut", "the reply ended without a stop reason"),
        (
            Answer([sse(delta(content="a"))], then="cut"),
            "stream_cut",
            "the connection was lost in the middle of the reply",
        ),
        (Answer([sse(delta(content="a"), b'{"choi')]), "stream_cut", "the reply has a corrupt line"),
        (Answer([sse(delta(content="a"), b"[1]")]), "stream_cut", "the reply has a corrupt line"),
        (Answer([sse({"error": {"message": "busy", "type": "overloaded_error"}})]), "overloaded", "busy"),
        (Answer([sse({"error": {"message": "wait", "code": 429}})]), "rate_limited", "wait"),
        (Answer([sse({"error": "it broke"})]), "unavailable", "it broke"),
        (Answer([b'event: error\ndata: {"message":"gone"}\n\n']), "unavailable", "gone"),
        (Answer([sse({"object": "error", "message": f"key {KEY}", "code": 400})]), "bad_request", "key [key]"),
        (Answer([sse(delta("error"))]), "unavailable", "the provider ended the reply with an error"),
        (Answer([sse(delta("content_filter"))]), "refused", "the provider's content filter ended the reply"),
    ],
)
async def test_streams_that_fail(
    server: ModelServer, backend: openai.OpenAIBackend, answer: Answer, kind: str, text: str | None
) -> None:
    """A cut, a silence, a corrupt line and an error within a stream are told apart."""
    server.answers = [answer]
    caught = await failure(backend)
    assert caught.kind == kind
    assert text is None or caught.message == text


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (Answer([sse(delta(content="a"))], then="silence"), "stream_cut", "the reply fell silent for 0.2 s"),
        (Answer(then="deaf"), "unavailable", "gave no answer for 0.2 s"),
    ],
)
async def test_servers_that_fall_silent(
    server: ModelServer, impatient: openai.OpenAIBackend, answer: Answer, kind: str, text: str
) -> None:
    """A server that says nothing more ends the request, within a reply or before it."""
    server.answers = [answer]
    caught = await failure(impatient)
    assert caught.kind == kind
    assert caught.message.endswith(text)


async def test_an_endless_event_is_cut(server: ModelServer, strict: openai.OpenAIBackend) -> None:
    """A server cannot fill the memory with one event."""
    server.answers = [Answer([b"data: " + b"x" * 2000])]
    assert (await failure(strict)).message == "an event has more than 1000 bytes"


async def test_nobody_listens(unused_tcp_port: int) -> None:
    """A server that is not there is named."""
    backend = openai.create("", f"http://127.0.0.1:{unused_tcp_port}/v1")
    caught = await failure(backend)
    assert caught.kind is ErrorKind.unavailable
    assert caught.message == f"cannot connect to 127.0.0.1:{unused_tcp_port}: Connection refused"
    await backend.close()


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-what\r\n"])
async def test_what_is_no_http_server(reply: bytes) -> None:
    """A server that hangs up, or speaks something else, is unavailable."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as other:
        backend = openai.create("", f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/v1")
        caught = await failure(backend)
        assert caught.kind is ErrorKind.unavailable
        await backend.close()


async def test_closing_ends_the_request(server: ModelServer, backend: openai.OpenAIBackend) -> None:
    """When the generator is closed in the middle of a reply the server notices."""
    server.answers = [Answer([sse(delta(content="a"))], then="silence")]
    async with contextlib.aclosing(stream(backend, ASK)) as events:
        assert await anext(events) == TextDelta("a")
    await server.gone.wait()


async def test_cancelling_ends_the_request(server: ModelServer, backend: openai.OpenAIBackend) -> None:
    """When the task that waits is cancelled it ends, and so does the request."""
    server.answers = [Answer([], then="silence")]
    task = asyncio.create_task(ask(backend))
    await server.came.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.gone.wait()


async def test_many_requests_at_once(server: ModelServer, backend: openai.OpenAIBackend) -> None:
    """Requests do not wait for one another."""
    server.answers = [Answer([sse(delta(content="hi"), STOP, DONE)]) for _ in range(150)]
    replies = await asyncio.gather(*(ask(backend) for _ in range(150)))
    assert all(reply == [TextDelta("hi"), End("stop")] for reply in replies)


@pytest.mark.parametrize(
    ("answer", "models"),
    [
        ({"data": [{"id": "b"}, {"id": "a"}, {"id": "a"}, {}, None]}, ["a", "b"]),
        ({"models": [{"name": "x"}], "data": None}, ["x"]),
        (["y"], ["y"]),
        ({}, []),
        (None, []),
    ],
)
async def test_models(server: ModelServer, backend: openai.OpenAIBackend, answer: Any, models: list[str]) -> None:
    """The models are listed whatever the server calls its list."""
    server.models = answer
    assert await backend.models() == models


async def test_models_that_cannot_be_had(server: ModelServer, backend: openai.OpenAIBackend) -> None:
    """A list that is no JSON, or behind a status, is an error."""
    server.models = web.Response(body=b"no json")
    with pytest.raises(BackendError, match="/v1/models is not JSON"):
        await backend.models()
    server.models = web.Response(status=401, body=error("who are you"))
    with pytest.raises(BackendError, match="who are you") as caught:
        await backend.models()
    assert caught.value.kind is ErrorKind.auth


async def test_the_only_model_is_the_default(server: ModelServer, backend: openai.OpenAIBackend) -> None:
    """A request that names no model gets the one that the server has, or is told which there are."""
    server.answers = [Answer([sse(STOP)])]
    server.models = {"data": [{"id": "only"}]}
    await ask(backend, Request(""))
    assert server.asked[0]["model"] == "only"
    server.models = {"data": [{"id": "a"}, {"id": "b"}]}
    caught = await failure(backend, Request(""))
    assert (caught.kind, caught.message.endswith("(a b)")) == (ErrorKind.not_found, True)


def test_official_names() -> None:
    """OpenAI itself needs a key and has a default model; its name for max_tokens is another."""
    backend = openai.create(KEY)
    assert backend.default_model
    assert b'"max_completion_tokens":5' in backend._requests.encode(Request("m", parameters={"max_tokens": 5}), "m")
    assert KEY not in repr(backend) + repr(backend._http)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({}, "auth"),
        ({"api_key": f"{KEY}\n{KEY}", "base_url": "http://h"}, "auth"),
        ({"base_url": "ftp://h:21"}, "bad_request"),
        ({"base_url": "no url"}, "bad_request"),
        ({"base_url": "http://[bad"}, "bad_request"),
        ({"base_url": "http://h:port"}, "bad_request"),
        ({"base_url": "http://h", "silence_s": "long"}, "bad_request"),
    ],
)
def test_arguments_that_cannot_be(arguments: dict[str, Any], kind: str) -> None:
    """Bad arguments are an error when the backend is made, without the key."""
    with pytest.raises(BackendError) as caught:
        openai.create(**arguments)
    assert caught.value.kind == kind
    assert KEY not in str(caught.value)


def test_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy is used for other machines, and not for this one or where `no_proxy` says so."""
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    assert proxy_of("http", "far.example", 80) == "http://proxy:1"
    assert proxy_of("https", "far.example", 443) is None
    assert proxy_of("http", "127.0.0.1", 80) is None
    assert proxy_of("http", "::1", 80) is None
    assert proxy_of("http", "localhost", 80) is None
    monkeypatch.setenv("no_proxy", "far.example")
    assert proxy_of("http", "far.example", 80) is None
