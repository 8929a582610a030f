"""What it costs to run a tool: python bench/tools.py [--quick].

Each time is given in times of another one that is measured in the same run, one in turn with the other. The fastest
round counts, and where that is allowed all of it takes precedence: what other work on the machine adds is no property
of what is measured. Everything runs in a PID namespace of its own, since reapers signal every process that they can
reach. `--quick` takes fewer rounds, and 64 MB of output in place of 1 GB.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parent.parent / "tests/ollie/toolsrv"))

from serving import NAMESPACE, call, load

from ninep.client import Client
from ollie.protocol import policy_files
from ollie.protocol.expand import expand, placeholders
from ollie.protocol.policy import Policy
from ollie.sandbox.launcher import Launcher, Spec

PATH = "/usr/local/bin:/usr/bin:/bin"
TRUE = "/bin/true"
CONCURRENT = 200
_PRIORITY = 5
BWRAP = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--die-with-parent"]
HELPER = [sys.executable, "-I", "-S", "-c", f"import os; os.execv('{TRUE}', ['true'])"]

Way = Callable[[], Awaitable[object]]


class Figure(NamedTuple):
    """What was measured, and what it may be at most; None: there is no goal."""

    name: str
    value: float
    limit: float | None = None
    unit: str = "times"
    note: str = ""

    def line(self) -> str:
        """As a row of a table in Markdown."""
        limit = "" if self.limit is None else f"{self.limit:g}"
        return f"| {self.name} | {self.value:.2f} {self.unit} | {limit} | {self.note} |"


async def rounds(ways: Mapping[str, Way], count: int) -> dict[str, float]:
    """The shortest time of each way in seconds, each tried once in every round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(count):
        for name, way in ways.items():
            began = time.perf_counter()
            await way()
            times[name].append(time.perf_counter() - began)
    return {name: min(taken) for name, taken in times.items()}


def spawned(argv: list[str]) -> Way:
    """Start a program by posix_spawn and wait for its end."""
    program = shutil.which(argv[0]) or argv[0]

    async def way() -> None:
        # Nothing else runs in this loop meanwhile.
        os.waitpid(os.posix_spawn(program, argv, {"PATH": PATH}), 0)  # noqa: ASYNC221, ASYNC222

    return way


def launched(launcher: Launcher, argv: tuple[str, ...], cwd: str, policy: Policy | None, stdin: bytes = b"") -> Way:
    """Start a program by the launcher and wait for its end, with its output in a pipe as a tool's is."""

    async def way() -> None:
        read, write = os.pipe()
        given = os.memfd_create("stdin")
        os.write(given, stdin)
        os.lseek(given, 0, os.SEEK_SET)
        spec = Spec(argv, env={"PATH": PATH}, cwd=cwd, policy=policy, stdin=given, stdout=write, stderr=write)
        run = await launcher.spawn(spec)
        os.close(write)
        os.close(given)
        await run.wait()
        os.close(read)

    return way


def policy(name: str, work: Path) -> Policy:
    """A policy that ships, for this directory."""
    return expand(policy_files.load(name, str(work)), placeholders(str(work), str(work)))


async def starting(launcher: Launcher, work: Path, count: int) -> list[Figure]:
    """`true` by the launcher, and by what else there is."""
    ways = {
        "spawn": spawned([TRUE]),
        "default": launched(launcher, (TRUE,), str(work), policy("default", work)),
        "strict": launched(launcher, (TRUE,), str(work), policy("strict", work)),
        "helper": spawned(HELPER),
    }
    if shutil.which("bwrap"):
        ways["bwrap"] = spawned([*BWRAP, TRUE])
    took = await rounds(ways, count)
    base = took["spawn"]
    default = took["default"] / base
    figures = [
        Figure("launcher, policy `default`, in posix_spawn of `true`", default, 5.5, note=f"{base * 1e3:.1f} ms"),
        Figure("launcher, policy `strict`", took["strict"] / base, 5.5),
        Figure("a fresh Python that execs", took["helper"] / base),
    ]
    if "bwrap" in took:
        figures.append(Figure("`bwrap --unshare-all`", took["bwrap"] / base))
        figures.append(Figure("launcher, in `bwrap --unshare-all`", took["default"] / took["bwrap"], 1))
    return figures


class Server:
    """A tool server, and a client of it."""

    def __init__(self, home: Path) -> None:
        self._work = home / "work"
        tools = home / "tools"
        for path in (self._work, tools, home / "tmp"):
            path.mkdir()
        # A program without a shell in between, so that what is measured is ours.
        shutil.copy(TRUE, tools / "nothing")
        (tools / "nothing.yaml").write_text("description: x\neffect: read\n")
        words = "description: x\ninput: {properties: {cmd: {type: string}}}\ncommand: exec sh -c {cmd}\n"
        (tools / "sh.yaml").write_text(words)
        self.program = (str(tools / "nothing"),)
        address = f"unix!{home}/s"
        self._process = subprocess.Popen(
            [*f"{sys.executable} -m ollie.cli.toolsrv serve --no-auth --listen {address} --cwd".split(), self._work],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                "PATH": PATH,
                "HOME": str(home),
                "TMPDIR": str(home / "tmp"),
                "OLLIE_TOOLS_PATH": str(tools),
                "OLLIE_DATA_PATH": str(home / "data"),
                "OLLIE_CFG_PATH": str(home / "cfg"),
            },
        )
        assert self._process.stdout is not None
        self._process.stdout.read()
        self.address = address

    @property
    def memory_mb(self) -> float:
        """Its resident memory."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.communicate()


async def called(server: Server, launcher: Launcher, work: Path, count: int) -> list[Figure]:
    """A tool over 9P."""
    async with await Client.connect(server.address, uname="bench") as client:
        await load(client, "a", "nothing", "sh")
        # With what toolsrv adds for every tool: where its program is.
        allowed = policy("default", work)
        files = replace(allowed.filesystem, rox=(*allowed.filesystem.rox, str(Path(server.program[0]).parent)))
        allowed = replace(allowed, filesystem=files)
        ways: dict[str, Way] = {
            "launcher": launched(launcher, server.program, str(work), allowed, b"{}"),
            "9p": lambda: call(client, "a", "nothing"),
        }
        took = await rounds(ways, count)
        began = time.perf_counter()
        await asyncio.gather(*(call(client, "a", "nothing") for _ in range(CONCURRENT)))
        together = (time.perf_counter() - began) / CONCURRENT
    return [
        Figure(
            "a tool over 9P, in the launcher alone",
            took["9p"] / took["launcher"],
            1.5,
            note=f"{took['9p'] * 1e3:.1f} ms",
        ),
        Figure(f"one of {CONCURRENT} tools at once, in one by itself", together / took["9p"]),
    ]


async def flooded(server: Server, size: int) -> list[Figure]:
    """A tool that prints more than is kept."""
    async with await Client.connect(server.address, uname="bench") as client:
        await load(client, "a", "sh")
        await call(client, "a", cmd="head -c 20000000 /dev/zero")
        before = server.memory_mb
        began = time.perf_counter()
        drained = spawned(["sh", "-c", f"head -c {size} /dev/zero | cat >/dev/null"])
        await drained()
        bare = time.perf_counter() - began
        began = time.perf_counter()
        await call(client, "a", cmd=f"head -c {size} /dev/zero")
        took = time.perf_counter() - began
    grown = server.memory_mb - before
    return [
        Figure(f"memory of toolsrv after {size // 10**6} MB of output", server.memory_mb, 60, "MB"),
        Figure("more than after 20 MB of it", grown, 10, "MB"),
        Figure("time for it, in a pipe to `cat`", took / bare, note=f"{size / took / 1e6:.0f} MB/s"),
    ]


async def measured(home: Path, *, quick: bool) -> list[Figure]:
    """Every figure."""
    count = 20 if quick else 200
    launcher = Launcher()
    await launcher.start()
    server = Server(home)
    try:
        figures = await starting(launcher, home / "work", count)
        figures += await called(server, launcher, home / "work", count)
        figures += await flooded(server, 64 * 10**6 if quick else 10**9)
    finally:
        server.close()
        await launcher.close()
    return figures


def main() -> None:
    """Print a table; fail when a figure is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        # Bytecode is read from where it is kept, as in use.
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        command = [*NAMESPACE, sys.executable, __file__, "--inside", *sys.argv[1:]]
        sys.exit(subprocess.run(command, env=environ, check=False).returncode)
    with contextlib.suppress(PermissionError):
        # A nice value counts within a session, and the launcher has one of its own.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))
    with tempfile.TemporaryDirectory(prefix="ollie-") as home:
        figures = asyncio.run(measured(Path(home), quick=options.quick))
    print("| | measured | at most | |\n|---|---|---|---|")
    for figure in figures:
        print(figure.line())
    sys.exit(any(figure.limit is not None and figure.value > figure.limit for figure in figures))


if __name__ == "__main__":
    main()
