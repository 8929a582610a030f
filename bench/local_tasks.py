"""Everyday tasks for the embedded model, with real commands: python bench/local_tasks.py [NUMBER …].

Prints each call and answer, what passed, and how many tokens were read and written. A task passes when its check holds,
on the answer or on the directory afterwards, and when a tool ran if one is needed. The tools are those that ship; they
run without a sandbox, in a temporary directory. OLLIE_MODEL_PATH or the cache says which model.
"""

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ollie.backends.local import create
from ollie.engine import own, system
from ollie.engine.messages import (
    Assistant,
    BackendError,
    CallDelta,
    Message,
    ReasoningDelta,
    Request,
    TextContent,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UsageReport,
    User,
)
from ollie.protocol.discovery import Catalog
from ollie.protocol.metadata import ToolInfo
from ollie.protocol.paths import shipped

MAX_STEPS = 8


CATALOG = {
    name: tool
    for name, tool in Catalog([shipped("tools")], shipped("tools")).tools().items()
    if isinstance(tool, ToolInfo)
}
TOOLS = (*(msgspec.convert(tool.public(), ToolSpec) for tool in CATALOG.values()), *own.SPECS.values())


class Task(NamedTuple):
    """A prompt, whether it needs a tool, and a check of answer and directory."""

    prompt: str
    needs_tool: bool
    check: Callable[[str, Path], bool]


def _has(*words: str) -> Callable[[str, Path], bool]:
    return lambda answer, _: all(word.lower() in answer.lower() for word in words)


def _file(name: str, *words: str) -> Callable[[str, Path], bool]:
    return lambda _, where: (where / name).is_file() and all(word in (where / name).read_text() for word in words)


TASKS = (
    Task("which of these files is the largest, and how many lines has it?", True, _has("measurements.csv", "301")),
    Task("list the files here", True, _has("notes.txt", "measurements.csv", "server.py", "plan.md", "errors.log")),
    Task("how many files are here?", True, _has("5")),
    Task("what does notes.txt contain?", True, _has("milk")),
    Task("create a file hello.txt with the text Hello, Ollie!", True, _file("hello.txt", "Hello, Ollie!")),
    Task(
        "in plan.md, replace the word Monday by Tuesday",
        True,
        lambda _, where: (
            "Tuesday" in (text := (where / "plan.md").read_text()) and "Monday" not in text and "ship" in text
        ),
    ),
    Task("find the line with TODO", True, _has("server.py", "10")),
    Task("use python to compute 2**40 - 17", True, _has("1099511627759")),
    Task("say hello in French", False, _has("bonjour")),
    Task("what is in this directory?", True, _has("notes.txt", "server.py")),
)

EXTRA = (
    Task("how many lines have all files together?", True, _has("320")),
    Task("which file has the most words?", True, _has("measurements.csv")),
    Task("add the line 'feed the cat' at the end of notes.txt", True, _file("notes.txt", "buy milk", "feed the cat")),
    Task(
        "delete errors.log", True, lambda _, where: not (where / "errors.log").exists() and (where / "plan.md").exists()
    ),
    Task("what is the highest value in measurements.csv?", True, _has("30.98")),
    Task("how many errors are in errors.log, and what is the last one?", True, _has("2", "retry failed")),
    Task("explain what server.py does", True, _has("hello")),
    Task(
        "write a python script primes.py that prints the primes below 20, and run it", True, _file("primes.py", "print")
    ),
    Task("what is the capital of Italy?", False, _has("Rome")),
    Task(
        "make a directory old and move errors.log into it", True, lambda _, where: (where / "old/errors.log").is_file()
    ),
)


SERVER = """import socket


def serve(port):
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        peer, _ = listener.accept()
        peer.sendall(b"hello")

        # TODO: close the socket
"""


def make_directory(where: Path) -> None:
    """The sample: five files of different sizes."""
    values = random.Random(7)
    rows = [f"{n},{values.gauss(20, 4):.2f}" for n in range(300)]
    (where / "measurements.csv").write_text("n,celsius\n" + "\n".join(rows) + "\n")
    (where / "notes.txt").write_text("buy milk\ncall Ada about the pump\n")
    (where / "plan.md").write_text("# Plan\n\nMonday: write the tests.\nFriday: ship it.\n")
    (where / "server.py").write_text(SERVER)
    (where / "errors.log").write_text("10:00 start\n10:02 error: pump 3 does not answer\n10:05 error: retry failed\n")


def run_tool(name: str, arguments: str, where: Path) -> tuple[str, bool]:
    """What a call gives: text, and whether it is an error."""
    if name in own.ANSWERED:
        answer = own.answer(name, json.loads(arguments), "")
        return answer.text, answer.is_error
    tool = CATALOG[name]
    invocation = tool.invocation(tool.arguments(json.loads(arguments), {}))
    done = subprocess.run(
        invocation.argv,
        cwd=where,
        input=invocation.stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=20,
        check=False,
    )
    text = done.stdout.decode(errors="replace")
    return (f"{text}exit status {done.returncode}", True) if done.returncode else (text, False)


class Meter:
    """Tokens over all requests."""

    def __init__(self) -> None:
        self.read = self.cached = self.written = 0

    def add(self, usage: Usage) -> None:
        """Count one request."""
        self.read += usage.input_tokens - usage.cached_input_tokens
        self.cached += usage.cached_input_tokens
        self.written += usage.output_tokens

    def __str__(self) -> str:
        return f"read {self.read} tokens, {self.cached} more from the cache, wrote {self.written}"


async def turn(backend: Any, where: Path, prompt: str, meter: Meter, depth: int = 0) -> tuple[str, int]:
    """The answer to one prompt, and how many tools ran. Sub-agents have turns of their own, one level deep."""
    history: list[Message] = [User(prompt)]
    ran = 0
    for _ in range(MAX_STEPS):
        answer = await reply(backend, where, history, meter)
        history.append(answer)
        if not answer.calls:
            return answer.text, ran
        for call in answer.calls:
            try:
                if call.name == own.AGENT_SPAWN:
                    output, is_error = await spawned(backend, where, call.arguments, meter, depth)
                else:
                    output, is_error = run_tool(call.name, call.arguments, where)
                ran += 1
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                output, is_error = str(error), True
            print(f"    ({answer.reasoning}) {call.name} {call.arguments}\n      -> {output[:200]!r}")
            history.append(ToolResult(call.id, call.name, (TextContent(output),), is_error))
    return "(gave up)", ran


async def spawned(backend: Any, where: Path, arguments: str, meter: Meter, depth: int) -> tuple[str, bool]:
    """What a sub-agent replies, and whether it is an error."""
    if depth:
        return "a sub-agent cannot make another one", True
    prompt = own.spawn(json.loads(arguments))["prompt"]
    return (await turn(backend, where, prompt, meter, depth + 1))[0], False


async def reply(backend: Any, where: Path, history: list[Message], meter: Meter) -> Assistant:
    """One reply of the model."""
    text, reasoning, calls = "", "", []
    request = Request("", system.assemble(system.DEFAULT, str(where)), tuple(history), TOOLS)
    async with contextlib.aclosing(backend.complete(request)) as events:
        async for event in events:
            match event:
                case TextDelta(piece):
                    text += piece
                case ReasoningDelta(piece):
                    reasoning += piece
                case CallDelta(_, call_id, name, arguments):
                    calls.append(ToolCall(call_id, name, arguments))
                case UsageReport(usage):
                    meter.add(usage)
    return Assistant(text, reasoning, tuple(calls))


async def main() -> int:
    """Run the tasks; the number of those that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", type=int, help="numbers of tasks, 1 to 20; 1 to 10 when none is given")
    wanted = parser.parse_args().tasks or range(1, 11)
    backend = create()
    meter = Meter()
    began = time.monotonic()
    passed = 0
    for number in wanted:
        task = (TASKS + EXTRA)[number - 1]
        print(f"{number}. {task.prompt}", flush=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory(dir="/tmp") as name:
            where = Path(name)
            make_directory(where)
            try:
                answer, ran = await turn(backend, where, task.prompt, meter)
            except BackendError as error:
                answer, ran = error.message, 0
            ok = task.check(answer, where) and (ran > 0) == task.needs_tool
        passed += ok
        print(f"    {answer}\n    {'passed' if ok else 'FAILED'} in {time.monotonic() - start:.0f} s", flush=True)
    await backend.close()
    print(f"{passed} of {len(wanted)} passed in {time.monotonic() - began:.0f} s; {meter}")
    return len(wanted) - passed


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
