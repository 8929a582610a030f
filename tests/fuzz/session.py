"""Bytes to a whole server, guided by coverage: python tests/fuzz/session.py [-runs=N and other options] [CORPUS].

The first byte of an input says how the rest is cut into segments. They go to a connection of the sample tree, whose
files wait, stream and refuse; then the connection is lost. Whatever came: nothing but 9P2000 is answered, no callback
fails, and no fid, request or task is left. Inputs begin as the conversations of tests/ninep/scripts. An input that
breaks a rule is kept beside the corpus, which is build/fuzz/session when none is named.
"""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["ninep"]):
    from ninep import _wire
    from ninep.messages import Tattach, Tversion, encode
    from ninep.server.connection import Connection
    from ninep.testing import Sample, sample_server
    from ninep.testing.direct import messages_of
    from ninep.text import parse_message

REPOSITORY = Path(__file__).parents[2]
BEGIN = encode(Tversion(_wire.NOTAG, 8192, "9P2000")) + encode(Tattach(0, 0, _wire.NOFID, "glenda", ""))
CUT_AT_ONCE = 255  # a first byte that leaves the rest in one piece


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """All of it at once."""
        self.written += data

    def is_closing(self) -> bool:
        """Whether `close` or `abort` was called."""
        return self._closing

    def close(self) -> None:
        """The target tells the connection."""
        self._closing = True

    abort = close

    def pause_reading(self) -> None:
        """Nothing is read by itself."""

    resume_reading = pause_reading


class Failures(logging.Handler):
    """Keeps errors, tracebacks among them; a malformed message is a warning."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.records.append(self.format(record))


FAILURES = Failures()


async def converse(data: bytes) -> None:
    """One connection, from beginning to end."""
    sample = Sample()
    thing = sample.add("a")
    server = sample_server(sample)
    server.loop = asyncio.get_running_loop()
    connection, transport = Connection(server, None), Transport()
    connection.connection_made(transport)
    step = data[0] if data and data[0] not in {0, CUT_AT_ONCE} else len(data) or 1
    segments = [BEGIN, *(data[at : at + step] for at in range(1, len(data), step))]
    for segment in segments:
        if transport.is_closing():
            break
        connection.get_buffer(-1)[: len(segment)] = segment
        connection.buffer_updated(len(segment))
        await asyncio.sleep(0)
    thing.log.append(b"line\n")
    thing.changes.add(b"change\n")
    thing.ready.set()
    for _ in range(3):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await server.until(lambda now: now.connections == 0)
    messages_of(bytes(transport.written))
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left
    assert not FAILURES.records, FAILURES.records


def seeds(directory: Path) -> None:
    """The conversations that are tests, as inputs."""
    directory.mkdir(parents=True, exist_ok=True)
    for script in (REPOSITORY / "tests/ninep/scripts").glob("*.9p"):
        sent = bytearray((CUT_AT_ONCE,))
        for line in script.read_text().splitlines():
            if line.startswith("-> "):
                sent += encode(parse_message(line[3:]))
            elif line.startswith("=> "):
                sent += bytes.fromhex(line[3:])
        (directory / script.stem).write_bytes(sent)


def main() -> None:
    """Never returns."""
    named = [Path(arg) for arg in sys.argv[1:] if not arg.startswith("-")]
    corpus = named[0] if named else REPOSITORY / "build/fuzz/session"
    seeds(corpus)
    options = [
        f"-artifact_prefix={corpus.parent}/",
        "-timeout=20",
        *(arg for arg in sys.argv[1:] if arg.startswith("-")),
    ]
    logger = logging.getLogger("ninep")
    logger.addHandler(FAILURES)
    logger.propagate = False
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, context: FAILURES.records.append(str(context)))

    def target(data: bytes) -> Any:
        loop.run_until_complete(converse(data))

    atheris.Setup([sys.argv[0], *options, str(corpus)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
