"""The conversations in `scripts/`, one test each."""

import socket
from pathlib import Path

import pytest

from ninep.server import Server
from ninep.testing import Line, Sample, Thing, run_script

SCRIPTS = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "scripts").glob("*.9p"))}


class Actions:
    """What `!word …` in a script does; the first word that follows names the thing, mostly."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def _thing(self, name: str) -> Thing:
        return self._sample.things[name]

    async def thing(self, name: str) -> None:
        """A new thing."""
        self._sample.add(name)

    async def rename(self, name: str, new: str) -> None:
        """A thing gets another name."""
        await self._sample.rename(self._thing(name), new)

    async def gone(self, name: str) -> None:
        """A thing is removed."""
        await self._sample.remove(self._thing(name))

    async def change(self, name: str, *words: str) -> None:
        """A change of its watch."""
        self._thing(name).changes.add(" ".join(words).encode() + b"\n")

    async def log(self, name: str, *words: str) -> None:
        """A line of its log."""
        self._thing(name).log.append(" ".join(words).encode() + b"\n")

    async def logend(self, name: str) -> None:
        """No more of its log."""
        self._thing(name).log.end()

    async def ready(self, name: str) -> None:
        """Its level holds."""
        self._thing(name).ready.set()

    async def release(self, name: str) -> None:
        """Its answers end."""
        self._thing(name).released.set()

    async def put(self, name: str, *words: str) -> None:
        """An entry of its queue."""
        self._thing(name).queue.append(" ".join(words).encode())

    async def long(self, name: str, length: str) -> None:
        """Its note has so many bytes."""
        self._thing(name).note.data = bytearray(b"x" * int(length))

    async def took(self, name: str, *words: str) -> None:
        """All messages so far, each with its blanks removed."""
        assert [b"".join(message.split()).decode() for message in self._thing(name).messages] == list(words)

    async def stopped(self, name: str, count: str) -> None:
        """So many answers were closed before their end."""
        assert self._thing(name).closed == int(count)

    async def watchers(self, name: str, count: str) -> None:
        """So many fids watch it."""
        assert self._thing(name).changes.watchers == int(count)

    async def errors(self, path: str, *words: str) -> None:
        """The last error that was kept."""
        await self._sample.failing.wait()
        assert self._sample.errors[-1] == ("glenda", path, " ".join(words))

    async def attached(self, uname: str, aname: str) -> None:
        """The last attach."""
        assert self._sample.attaches[-1] == (uname, aname)


@pytest.mark.parametrize("name", SCRIPTS)
async def test_script(name: str, sample: Sample, server: Server) -> None:
    """The conversation goes as the file says."""

    async def connect() -> Line:
        ours, theirs = socket.socketpair()
        await server.adopt(theirs)
        return await Line.adopt(ours)

    actions = Actions(sample)
    words = {word: getattr(actions, word) for word in dir(actions) if not word.startswith("_")}
    await run_script(SCRIPTS[name], connect, words)
