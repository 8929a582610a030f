"""A server's objects without name space and listeners, on the replay backend, in directories of their own."""

import asyncio
import itertools
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ollie.backends.registry import Backends
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions import subagents
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.settings.config import Config
from ollie.olliesrv.settings.profiles import Profile, Profiles
from ollie.protocol import paths

sys.path.append(str(Path(__file__).parent))

SCRIPT = """
turns:
  - match: ^slow
    replies: [{text: [I begin, " and never end"], pace_s: 1000}]
  - match: .
    replies: [{text: "you said: {prompt}", usage: {input_tokens: 10, output_tokens: 5}}]
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short directory that holds everything Ollie and its agents write; a socket's path has at most 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="ollie-")).resolve()
    for name, below in {
        "HOME": "home",
        "OLLIE_CFG_PATH": "cfg",
        "OLLIE_DATA_PATH": "data",
        "OLLIE_CACHE_PATH": "cache",
        "NAMESPACE": "ns",
        "TMPDIR": "tmp",
    }.items():
        monkeypatch.setenv(name, str(path / below))
    for name in ("OLLIE_MODEL", "OLLIE_TOOLS_PATH", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLIE_RECORD"):
        monkeypatch.delenv(name, raising=False)
    for below in ("home", "tmp", "project"):
        (path / below).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def servers() -> list[Ollie]:
    """Those that `serve` has made."""
    return []


@pytest.fixture
async def serve(place: Path, servers: list[Ollie]) -> AsyncIterator[Callable[..., Any]]:
    """Makes servers; each is closed at the end, and leaves no task behind."""
    before = asyncio.all_tasks()

    async def make(
        script: str = SCRIPT, *, tools: tuple[str, ...] = (), profiles: tuple[Profile, ...] = (), **config: Any
    ) -> Ollie:
        path = place / "script.yaml"
        path.write_text(script)
        settings = Config(**{"backend": "replay", "backends": {"replay": {"path": str(path)}}, **config})
        server = await Ollie.open(
            settings,
            address=f"unix!{place}/ns/ollie",
            backends=Backends({}, settings),
            profiles=Profiles(Profile(name="default", tools=tools), *profiles),
        )
        servers.append(server)
        server.resume()
        return server

    yield make
    for server in servers:
        await server.close()
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()


@pytest.fixture
def crash(place: Path, servers: list[Ollie], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Has the next server find what is on disk now, as after a SIGKILL of the one that runs; that goes on unnoticed."""
    copies = itertools.count()

    async def kill() -> None:
        store = servers[-1].store
        await store.stored(store._writer.changed)
        copy = place / f"data{next(copies)}"
        shutil.copytree(paths.data_dir(), copy)
        monkeypatch.setenv("OLLIE_DATA_PATH", str(copy))

    return kill


@pytest.fixture
async def ollie(serve: Callable[..., Any]) -> Ollie:
    """A server whose agents have no tools."""
    server: Ollie = await serve()
    return server


@pytest.fixture
async def agent(ollie: Ollie, place: Path) -> Agent:
    """An agent of that server."""
    session = await ollie.sessions.create(name="myproj", by=None)
    return await subagents.start(session, {"name": "coding", "cwd": str(place / "project")}, by=None)
