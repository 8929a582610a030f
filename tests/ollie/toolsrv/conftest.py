"""Tool servers for these tests, each in a PID namespace of its own."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from serving import ToolServer, write_tools


@pytest.fixture(scope="session")
def toolsrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolServer]:
    """A tool server that many tests share, each with agents of its own."""
    home = tmp_path_factory.mktemp("toolsrv")
    write_tools(home / "tools")
    server = ToolServer(home)
    assert server.listening == f"listening on {server.address}", server.errors
    yield server
    server.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ToolServer]]:
    """Starts tool servers for one test: `start(*options, home=…, secret=…, environ=…)`."""
    servers: list[ToolServer] = []

    def starter(*options: str, home: Path = tmp_path, **more: str) -> ToolServer:
        write_tools(home / "tools")
        servers.append(ToolServer(home, *options, **more))
        return servers[-1]

    yield starter
    for server in servers:
        server.close()


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> str:
    """An agent of this test's own."""
    return f"agent-{request.node.name}"[:200].replace(" ", "-")
