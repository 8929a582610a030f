"""A tool server in a PID namespace of its own, and clients for it.

Reapers signal every process that they can reach. Should that ever be wrong, it is wrong inside the namespace only.
"""

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

from ninep.client import Client, File
from ollie.protocol import payload, result
from ollie.protocol.result import ToolResult
from ollie.sandbox.processes import children, descendants

SECRET = b"hush"
NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--pid", "--fork", "--mount-proc"]
# The first process of the namespace outlives the server, says how that ended, and ends at the end of its own input.
INIT = '"$@" & wait $!; echo "ended $?"; read -r _'
ORDWR = 2

TOOLS = {
    "sh": """
        description: Runs a script.
        input: {type: object, properties: {cmd: {type: string}}, required: [cmd]}
        effect: write
        command: exec sh -c {cmd}
        """,
    "quick": """
        description: Runs a script, half a second long at most.
        input: {type: object, properties: {cmd: {type: string}}, required: [cmd]}
        effect: write
        timeout_s: 0.5
        command: exec sh -c {cmd}
        """,
    "blocks": """
        description: Prints what it is told to, which should be a ToolResult.
        input: {type: object, properties: {cmd: {type: string}}, required: [cmd]}
        effect: read
        output: blocks
        command: exec sh -c {cmd}
        """,
    "broken": "description: [",
}
ECHO = """#!/bin/sh
# ---
# name: echo
# description: Prints its arguments as they arrive on standard input.
# input: {type: object, properties: {text: {type: string}, count: {type: integer}}}
# effect: read
# ---
cat
"""


class ToolServer:
    """A running `toolsrv serve`.

    Attributes:
        home: Everything it may write is below this directory.
        address: Where it listens.
        work: Its `--cwd`.
    """

    def __init__(
        self, home: Path, *options: str, secret: bytes = SECRET, environ: dict[str, str] | None = None
    ) -> None:
        self.home = home
        self.work = home / "work"
        self.socket = home / "toolsrv.sock"
        self.address = f"unix!{self.socket}"
        for name in ("work", "tmp", "tools", "home"):
            (home / name).mkdir(exist_ok=True)
        self._secret = secret
        self._stderr = home / "stderr"
        command = [
            sys.executable,
            "-m",
            "ollie.cli.toolsrv",
            "serve",
            "--cwd",
            str(self.work),
            "--listen",
            self.address,
        ]
        read, write = os.pipe()
        os.write(write, secret)
        os.close(write)
        if secret:
            command += ["--secret-fd", str(read)]
        with self._stderr.open("wb") as stderr:
            self._init = subprocess.Popen(
                [*NAMESPACE, "sh", "-c", INIT, "sh", *command, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=self._environment(environ or {}),
                pass_fds=[read],
            )
        os.close(read)
        self.listening = self._line()
        self.pid = self._find() if self.listening.startswith("listening") else 0

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        own = {
            "HOME": str(self.home / "home"),
            "OLLIE_CFG_PATH": str(self.home / "config"),
            "OLLIE_DATA_PATH": str(self.home / "data"),
            "OLLIE_CACHE_PATH": str(self.home / "cache"),
            "OLLIE_TOOLS_PATH": str(self.home / "tools"),
            "TMPDIR": str(self.home / "tmp"),
        }
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", **own, **more}

    def _line(self) -> str:
        assert self._init.stdout is not None
        return self._init.stdout.readline().rstrip("\n")

    def _find(self) -> int:
        """The server's process, as it is seen from outside of its namespace."""
        (first,) = children(self._init.pid)
        (server,) = children(first)
        return server

    @property
    def errors(self) -> str:
        """What it said on standard error."""
        return self._stderr.read_text()

    def numbers(self, mark: str) -> tuple[set[int], set[int]]:
        """What is below the server, by its ids in the namespace: whose command line holds `mark`, and the others."""
        marked: set[int] = set()
        others: set[int] = set()
        for pid in descendants(self.pid):
            status = Path(f"/proc/{pid}/status").read_text()
            (inner,) = re.findall(r"^NSpid:.*\t(\d+)$", status, re.MULTILINE)
            (marked if mark in _command(pid) else others).add(int(inner))
        return marked, others

    def _others(self) -> list[int]:
        """What lives in the namespace besides its first process and the server."""
        (first,) = children(self._init.pid)
        return [pid for pid in descendants(first) if pid != self.pid and _lives(pid)]

    def processes(self, mark: str = "") -> list[str]:
        """The command lines of those that hold `mark`."""
        return [line for line in map(_command, self._others()) if mark in line]

    def deserted(self) -> None:
        """After the end of the server: wait until nothing lives in the namespace but its first process."""
        while others := self._others():
            for pid in others:
                _await_end(pid)

    def signal(self, number: int) -> None:
        """Send a signal to the server."""
        os.kill(self.pid, number)

    def ended(self) -> int:
        """Wait for its end: the exit status, 128 + N for signal N."""
        return int(self._line().removeprefix("ended "))

    def stop(self) -> int:
        """End it as a user does; its exit status."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def memory_bytes(self) -> int:
        """The resident memory of the server."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """How many descriptors the server has open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def zombies(self) -> int:
        """How many processes below the server have ended and were not waited for."""
        return sum(not _lives(pid) for pid in descendants(self.pid))

    def close(self) -> None:
        """End the namespace with all that is in it."""
        for first in children(self._init.pid):
            os.kill(first, signal.SIGKILL)
        self._init.communicate()

    async def client(self, aname: str = "") -> Client:
        """A new connection."""
        return await Client.connect(self.address, uname="test", aname=aname, secret=self._secret or None)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _await_end(pid: int) -> None:
    """Return when a process has ended; its pidfd is readable then."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([pidfd], [], [])
    os.close(pidfd)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def write_tools(directory: Path) -> None:
    """Put the tools of these tests into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in TOOLS.items():
        lines = [line.strip() for line in text.strip().splitlines()]
        (directory / f"{name}.yaml").write_text("\n".join([f"name: {name}", *lines]) + "\n")
    (directory / "echo").write_text(ECHO)
    (directory / "echo").chmod(0o755)


async def load(client: Client, agent: str, *tools: str) -> None:
    """Load tools for an agent."""
    for tool in tools:
        await client.write("ctl", f"load {agent} {tool}".encode())


async def call(client: Client, agent: str, tool: str = "sh", **fields: str) -> ToolResult:
    """The result of a call; the tool is loaded."""
    request = payload.format({"tool": tool, "agent": agent, **fields})
    return result.from_json(await client.rdwr("proc/new", request))


async def begin(client: Client, agent: str, cmd: str) -> File:
    """An open `proc/new` with a script written to it, not read yet."""
    file = await client.open("proc/new", ORDWR)
    await file.write(payload.format({"tool": "sh", "agent": agent, "cmd": cmd}))
    return file


async def background(client: Client, agent: str, cmd: str, **fields: str) -> str:
    """The pid of a script in the background."""
    request = payload.format({"tool": "sh", "agent": agent, "cmd": cmd, **fields})
    return (await client.rdwr("proc/new.bg", request)).decode().strip()


def whole(text: str) -> str:
    """The output that a result shows, from the file that it names when it was cut."""
    path = re.search(r"/\S+/output-\d+-\w+\.txt", text)
    return Path(path[0]).read_text() if path else text
