"""The conversations in `scripts/`, one test each."""

import socket
from pathlib import Path

import pytest

from ninep.server import Server
from ninep.testing import Line, Sample, run_script
from ninep.testing.script import Action

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.9p"))


def actions(sample: Sample, server: Server) -> dict[str, Action]:
    """What `!word …` in a script does."""
    thing = sample.things.__getitem__

    async def add(name: str) -> None:
        sample.add(name)

    async def rename(name: str, new: str) -> None:
        await sample.rename(thing(name), new)

    async def gone(name: str) -> None:
        await sample.remove(thing(name))

    async def change(name: str, *words: str) -> None:
        thing(name).changes.add(" ".join(words).encode() + b"\n")

    async def log(name: str, *words: str) -> None:
        thing(name).log.append(" ".join(words).encode() + b"\n")

    async def logend(name: str) -> None:
        thing(name).log.end()

    async def ready(name: str) -> None:
        thing(name).ready.set()

    async def release(name: str) -> None:
        thing(name).released.set()

    async def put(name: str, *words: str) -> None:
        thing(name).queue.append(" ".join(words).encode())

    async def long(name: str, length: str) -> None:
        thing(name).note.data = b"x" * int(length)

    async def took(name: str, *words: str) -> None:
        assert (
            b"".join(thing(name).messages).split()
            == " ".join(words).replace("world second", "world\nsecond").encode().split()
        )

    async def stopped(name: str, count: str) -> None:
        assert thing(name).closed == int(count)

    async def watchers(name: str, count: str) -> None:
        assert thing(name).changes.watchers == int(count)

    async def errors(path: str, *words: str) -> None:
        await sample.failing.wait()
        assert sample.errors[-1] == ("glenda", path, " ".join(words))

    async def attached(uname: str, aname: str) -> None:
        assert sample.attaches[-1] == (uname, aname)

    return {name: action for name, action in locals().items() if callable(action) and name != "thing"} | {"thing": add}


@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
async def test_script(script: Path, sample: Sample, server: Server) -> None:
    """The conversation goes as the file says."""

    async def connect() -> Line:
        ours, theirs = socket.socketpair()
        await server.adopt(theirs)
        return await Line.adopt(ours)

    await run_script(script.read_text(), connect, actions(sample, server))
