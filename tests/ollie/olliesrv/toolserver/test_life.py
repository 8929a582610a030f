"""Finding and ending the process behind a socket, and its secret."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from ninep.errors import NinepError
from ollie.olliesrv.process.procfs import Process, process
from ollie.olliesrv.toolserver import life, places


def test_a_secret_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    """And gone when it is forgotten."""
    path = tmp_path / "deep" / "x.secret"
    secret = places.secret(str(path))
    assert len(secret) == 64
    assert places.secret(str(path)) == secret
    assert path.stat().st_mode & 0o777 == 0o600
    places.forget_secret(str(path))
    places.forget_secret(str(path))
    assert places.secret(str(path)) != secret
    path.chmod(0o644)
    with pytest.raises(NinepError, match="can be read by others"):
        places.secret(str(path))


def test_a_listener_is_known_by_its_socket(tmp_path: Path) -> None:
    """Nobody is where nobody listens."""
    path = str(tmp_path / "s")
    assert life.listener(path) is None
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        assert life.listener(path) is None
        server.listen()
        found = life.listener(path)
        assert found is not None
        assert found.pid == os.getpid()
    assert life.listener(path) is None


async def child(code: str) -> tuple[asyncio.subprocess.Process, Process]:
    started = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert started.stdout is not None
    await started.stdout.readline()
    found = process(started.pid)
    assert found is not None
    return started, found


async def test_a_process_is_ended_gently_first() -> None:
    """And with SIGKILL when it does not listen; whoever asks again finds nothing to do."""
    gentle, found = await child("import signal; print(flush=True); signal.pause()")
    await life.end(found, 30)
    assert await gentle.wait() == -signal.SIGTERM
    await life.end(found, 30)
    deaf, found = await child("import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()")
    await life.end(found, 0.05)
    assert await deaf.wait() == -signal.SIGKILL


async def test_another_process_with_the_same_id_is_left_alone() -> None:
    """An id without its start time means nothing."""
    running, found = await child("import signal; print(flush=True); signal.pause()")
    await life.end(Process(found.pid, found.start + 1, found.parent), 0.05)
    assert process(found.pid) is not None
    running.kill()
    await running.wait()
