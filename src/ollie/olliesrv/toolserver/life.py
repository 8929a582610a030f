"""The process of a tool server: starting one, finding one that lives, ending one.

A tool server gets its secret through a descriptor, never through its arguments or environment. It runs in a session of
its own, so that it outlives this process and no signal of a terminal reaches it.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.process.procfs import Process, process
from ollie.olliesrv.process.secret import SecretError, load
from ollie.protocol.words import reason

_UCRED = struct.Struct("iII")  # pid, uid, gid: unix(7)
_SAID_BYTES = 4096
_KILL_S = 5.0  # how long a machine under load may take to end a process that was killed


def listener(path: str) -> Process | None:
    """The process that listens on a unix socket, None when nobody answers there.

    The kernel notes who called listen(2): SO_PEERCRED of a connection names that process.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except OSError:
            return None
        pid, _, _ = _UCRED.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return process(pid) if pid > 0 else None


def secret(path: str) -> bytes:
    """The secret in a file, which is made when it is missing; a `RefusedError` when it cannot be used."""
    try:
        return load(Path(path))
    except SecretError as error:
        raise RefusedError(str(error)) from None


def forget(path: str) -> None:
    """Remove a secret."""
    Path(path).unlink(missing_ok=True)


def forget_state(state: str) -> None:
    """Remove what a tool server has kept of itself; `state` is how its files begin (`paths.toolsrv_state`)."""
    for suffix in (".pid", ".revision"):
        Path(state + suffix).unlink(missing_ok=True)
    shutil.rmtree(f"{state}.done", ignore_errors=True)


async def start(
    options: Sequence[str], its_secret: bytes, environ: Mapping[str, str], timeout_s: float
) -> asyncio.subprocess.Process:
    """A tool server that answers.

    Args:
        options: of `toolsrv serve`, without the secret.
        its_secret: at most what a pipe holds.
        environ: its environment.
        timeout_s: how long it may take.

    Raises:
        RefusedError: it cannot be started, ended, or did not answer in time, with what it said.
    """
    secret_out, secret_in = os.pipe()
    said = os.memfd_create("toolsrv", os.MFD_CLOEXEC)
    try:
        os.write(secret_in, its_secret)
        os.close(secret_in)
        arguments = ["-P", "-m", "ollie.cli.toolsrv", "serve", *options, "--secret-fd", str(secret_out)]
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=said,
            env=environ,
            pass_fds=(secret_out,),
            start_new_session=True,
        )
        try:
            await _ready(child, timeout_s, said)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
            raise
    except OSError as error:
        raise RefusedError(f"the tool server cannot be started: {reason(error)}") from None
    else:
        return child
    finally:
        os.close(secret_out)
        os.close(said)


async def _ready(child: asyncio.subprocess.Process, timeout_s: float, said: int) -> None:
    """Return when it listens: it says so on its standard output and closes it."""
    assert child.stdout is not None
    try:
        async with asyncio.timeout(timeout_s):
            lines = await child.stdout.read()
    except TimeoutError:
        raise RefusedError(f"the tool server does not answer after {timeout_s:g} s") from None
    if not lines.startswith(b"listening"):
        words = os.pread(said, _SAID_BYTES, 0).decode(errors="replace").strip().splitlines()
        raise RefusedError(f"the tool server does not start: {words[-1] if words else 'it said nothing'}")


def pidfd(server: Process) -> int | None:
    """A descriptor of a process, readable as soon as it has ended; None when it has already."""
    try:
        fd = os.pidfd_open(server.pid)
    except ProcessLookupError:
        return None
    found = process(server.pid)
    if found is not None and found.same(server):
        return fd
    os.close(fd)  # of another process that has its number now
    return None


async def end(server: Process, grace_s: float) -> None:
    """End a tool server, at once after a grace, and return when it has ended. What it ran ends with it."""
    fd = pidfd(server)
    if fd is None:
        return
    try:
        for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_S)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, number)
            if await _ended(fd, wait_s):
                return
    finally:
        os.close(fd)


async def _ended(pidfd: int, timeout_s: float) -> bool:
    """Whether a process ends within a time. A pidfd is readable when its process has ended: pidfd_open(2)."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.add_reader(pidfd, over.cancel)
    try:
        # Not asyncio.timeout: before Python 3.11.4 it does not expire in a task that was cancelled, as this one may be.
        done, _ = await asyncio.wait({over}, timeout=timeout_s)
    finally:
        loop.remove_reader(pidfd)
    return bool(done)
