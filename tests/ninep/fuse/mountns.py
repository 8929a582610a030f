"""A place to mount in: a mount and a PID namespace of their own, in which programs run on a real mount.

Everything in it is gone when the test ends, whatever the test did.
"""

import asyncio
import os
import pty
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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

    @asynccontextmanager
    async def terminal(self) -> AsyncIterator["Terminal"]:
        """An interactive shell in the mount, in the foreground of a terminal of its own."""
        ours, theirs = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *("nsenter", f"--target={self.init}", "--mount", "--pid", "--"),
            *("setsid", "--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "LC_ALL": "C", "PS1": Terminal.PROMPT, "HISTFILE": ""},
            cwd=self.mount.parent,
        )
        os.close(theirs)
        terminal = Terminal(ours)
        try:
            await terminal.prompted()
            await terminal.run(f"cd {self.mount}")
            yield terminal
            terminal.type("exit\n")
            await process.wait()
        finally:
            terminal.close()
            if process.returncode is None:
                process.kill()
                await process.wait()

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


class Terminal:
    """A terminal with a shell in it, and somebody who types."""

    PROMPT = "(next) "

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._shown = bytearray()
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, self._readable)

    def _readable(self) -> None:
        try:
            self._shown += os.read(self._fd, 65536)
        except OSError:  # the shell has gone
            asyncio.get_running_loop().remove_reader(self._fd)
        self._more.set()

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    async def prompted(self) -> str:
        """What is shown up to the next prompt."""
        end = self.PROMPT.encode()
        while end not in self._shown:
            self._more.clear()
            await self._more.wait()
        shown, _, rest = bytes(self._shown).partition(end)
        self._shown[:] = rest
        return shown.decode().replace("\r", "")

    async def run(self, command: str) -> str:
        """Type a command, and give what it shows."""
        self.type(f"{command}\n")
        return (await self.prompted()).removeprefix(f"{command}\n")

    def close(self) -> None:
        """Hang up."""
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


async def ended(process: Process) -> Done:
    """Wait for a program's end."""
    out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, (out or b"").decode(), (err or b"").decode())
