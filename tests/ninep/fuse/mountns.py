"""A place to mount in: a mount and a PID namespace of their own, in which programs run on a real mount.

Everything in it is gone when the test ends, whatever the test did.
"""

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import NamedTuple, Self

import pytest

_MOUNTED = Path(__file__).parent / "mounted.py"


def missing() -> str:
    """Why nothing can be mounted here, empty when it can."""
    if not Path("/dev/fuse").exists():
        return "/dev/fuse is missing"
    if os.geteuid() != 0:
        return "only root can make a mount namespace for a test"
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        return "util-linux is not installed"
    return ""


needs_mount = pytest.mark.skipif(bool(missing()), reason=missing())


class Done(NamedTuple):
    """How a program ended; `code` is negative for a signal."""

    code: int
    out: str
    err: str


class House:
    """The namespaces, and the directory that is mounted on.

    Args:
        directory: of the test; `m` in it is mounted on.

    Attributes:
        mount: that directory.
        init: the first process in the namespaces.
    """

    def __init__(self, directory: Path) -> None:
        self.mount = directory / "m"
        self.mount.mkdir()
        self._holder: Process
        self.init = 0
        self._running: list[Process] = []

    async def __aenter__(self) -> Self:
        """Make the namespaces; they last as long as the standard input of their first process."""
        self._holder = await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", "echo; read _"),
            stdin=PIPE,
            stdout=PIPE,
        )
        assert self._holder.stdout
        await self._holder.stdout.readline()
        self.init = _child(self._holder.pid)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._holder.stdin
        self._holder.stdin.close()
        await self._holder.wait()
        for process in self._running:
            await process.communicate()

    async def start(self, *command: str | Path) -> Process:
        """Start a program."""
        process = await asyncio.create_subprocess_exec(
            *("nsenter", f"--target={self.init}", "--mount", "--pid", "--", *map(str, command)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**os.environ, "LC_ALL": "C", "HERE": str(self.mount)},
            start_new_session=True,
        )
        self._running.append(process)
        return process

    async def shell(self, script: str) -> Done:
        """Run a script in the mount, to its end."""
        return await ended(await self.start("bash", "-c", f'cd "$HERE"; {script}'))

    async def blocked(self, command: str) -> "Program":
        """Start a program in the mount that is going to wait."""
        process = await self.start("bash", "-c", f'cd "$HERE"; echo $$; exec {command}')
        assert process.stdout
        return Program(self, process, int(await process.stdout.readline()))

    async def serve(self, address: str, *options: str, prefix: tuple[str, ...] = ()) -> "Program":
        """Mount; the program that serves the mount."""
        process = await self.start(*prefix, sys.executable, _MOUNTED, address, self.mount, *options)
        assert process.stdout
        assert process.stderr
        line = await process.stdout.readline()
        assert line, (await process.stderr.read()).decode()
        return Program(self, process, int(line))


class Program(NamedTuple):
    """A program that runs; `pid` as in the namespace."""

    house: House
    process: Process
    pid: int

    async def signal(self, number: signal.Signals) -> Done:
        """Send it a signal, and wait for its end."""
        await ended(await self.house.start("kill", f"-{number.value}", str(self.pid)))
        return await ended(self.process)


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


async def ended(process: Process) -> Done:
    """Wait for a program's end."""
    out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, (out or b"").decode(), (err or b"").decode())
