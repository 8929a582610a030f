"""Connections that there is no room for, and ones that never attach."""

import contextlib
import fcntl
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ninep import _wire, dial
from ninep.messages import Rstat, Rversion, Tstat, Tversion
from ninep.server import Limits
from ninep.testing import Line, Sample, sample_server


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Whatever wants more is refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_tcp_has_so_many_connections_and_the_socket_has_others(
    sample: Sample, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One too many is ended at once, which the log says once; an end makes room."""
    server = sample_server(sample, limits=Limits(tcp_connections=2))
    where = [await server.listen("tcp!127.0.0.1!0"), await server.listen("tcp!127.0.0.1!0")]
    own = await server.listen(f"unix!{tmp_path}/socket")
    lines = [await Line.dial(address) for address in where]
    for line in lines:
        await line.begin()
    for address in where:
        refused = await Line.dial(address)
        assert await refused.closed()
        await refused.close()
    assert [record.getMessage() for record in caplog.records] == [
        "closed a connection by TCP: 2 are the most there may be"
    ]
    for _ in range(3):
        lines.append(await Line.dial(own))
        await lines[-1].begin()
    await lines.pop(0).close()
    await server.until(lambda now: now.connections == 4)
    lines.append(await Line.dial(where[1]))
    await lines[-1].begin()
    for line in lines:
        await line.close()
    await server.close()


async def test_tcp_gets_half_of_the_descriptors(sample: Sample, caplog: pytest.LogCaptureFixture) -> None:
    """However many connections it may have."""
    server = sample_server(sample, limits=Limits(tcp_connections=1_000_000))
    where = dial.parse(await server.listen("tcp!127.0.0.1!0"))
    assert isinstance(where, dial.Tcp)
    clients = [_beyond(socket.socket(), 600) for _ in range(200)]
    for client in clients:
        client.connect((where.host, where.port))
    await server.until(lambda now: now.connections == len(clients))
    one_more = socket.socket()
    with descriptors_left(2):
        one_more.connect((where.host, where.port))
        line = await Line.adopt(one_more)
        assert await line.closed()
    assert "closed a connection by TCP" in caplog.text
    await line.close()
    for client in clients:
        client.close()
    await server.close()


def _beyond(sock: socket.socket, lowest: int) -> socket.socket:
    """The same socket, its descriptor being at least this."""
    with sock:
        return socket.socket(fileno=fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, lowest))


async def test_without_a_descriptor_connections_are_ended(
    sample: Sample, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Their clients know at once, the log says it once, and afterwards all is as before."""
    server = sample_server(sample)
    where = await server.listen(f"unix!{tmp_path}/socket")
    sockets = [socket.socket(socket.AF_UNIX) for _ in range(5)]
    lines = []
    with descriptors_left(0):
        for sock in sockets:
            sock.connect(f"{tmp_path}/socket")
            lines.append(await Line.adopt(sock))
            assert await lines[-1].closed()
    for line in lines:
        await line.close()
    assert [record.getMessage() for record in caplog.records] == ["connections cannot be accepted: Too many open files"]
    line = await Line.dial(where)
    await line.begin()
    await line.close()
    await server.close()


async def test_strangers_do_not_fill_the_log(sample: Sample, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is no 9P2000 is told once, and each time of who has attached."""
    server = sample_server(sample)
    where = await server.listen(f"unix!{tmp_path}/socket")
    for attached in (False, False, True, True):
        line = await Line.dial(where)
        if attached:
            await line.begin()
        await line.send(bytes(7))
        assert await line.closed()
        await line.close()
    assert [record.getMessage() for record in caplog.records] == [
        "closed a connection: message of 0 bytes is shorter than its header"
    ] * 3
    await server.close()


@pytest.mark.parametrize("greeted", [False, True])
async def test_a_connection_that_does_not_attach_is_ended(
    greeted: bool, sample: Sample, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that has attached may be idle for ever."""
    server = sample_server(sample, limits=Limits(attach_s=0.5))
    where = await server.listen(f"unix!{tmp_path}/socket")
    idle = await Line.dial(where)
    await idle.begin()
    silent = [await Line.dial(where) for _ in range(3)]
    for line in silent:
        if greeted:
            assert isinstance(await line.rpc(Tversion(_wire.NOTAG, 8192, "9P2000")), Rversion)
    for line in silent:
        assert await line.closed()
        await line.close()
    assert isinstance(await idle.rpc(Tstat(1, 0)), Rstat)
    assert [record.getMessage() for record in caplog.records] == ["closed a connection: it did not attach within 0.5 s"]
    await idle.close()
    await server.close()
