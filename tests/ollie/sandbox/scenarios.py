"""What the tests of the sandbox do inside their PID namespace. Each scenario returns what it saw, as JSON."""
# ruff: noqa: T201, PTH208, ASYNC220 - a program of its own, with nothing else in its loop

import asyncio
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from ollie.protocol.expand import expand, placeholders
from ollie.protocol.policy import Limits, Policy, parse
from ollie.protocol.policy_files import load
from ollie.sandbox.launcher import Launcher, Run, SandboxError, Spec
from ollie.sandbox.probe import Probe
from ollie.sandbox.processes import children, descendants
from ollie.sandbox.scope import Scope, ScopeError
from ollie.sandbox.seats import State

_launchers = []
_sites = []

# The interpreter itself, not a link in a virtual environment that no policy lets a tool read.
PYTHON = os.path.realpath(sys.executable)

# Starts what `left` asks for, says the pid of each, and goes on as long as standard input is open.
DAEMONS = """
import os, signal, sys
def daemon(ignore):
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if ignore:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(write, str(os.getpid()).encode())
            os.close(write)
            while True:
                signal.pause()
        os._exit(0)
    os.wait()
    return int(os.read(read, 20))
pids = [daemon(ignore) for ignore in (False, True, False)]
print(os.getpid(), *pids, flush=True)
sys.stdin.read()
"""


async def launcher() -> Launcher:
    """The launcher that the scenarios share."""
    if not _launchers:
        _launchers.append(Launcher(["json", "ollie.protocol.policy"]))
    await _launchers[0].start()
    return _launchers[0]


async def close() -> None:
    """End the shared launcher."""
    for each in _launchers:
        await each.close()
    for site in _sites:
        site.cleanup()


def policy_in(place: str, policy: dict | str | None) -> Policy | None:
    """An expanded policy from the content of a file, or a shipped one by name."""
    if policy is None:
        return None
    parsed = load(policy, "/nonexistent") if isinstance(policy, str) else parse(policy)
    return expand(parsed, placeholders(f"{place}/cwd", f"{place}/tmp", os.environ))


def environment(place: str, path: str | None = None) -> dict[str, str]:
    return {"PATH": path or os.environ["PATH"], "HOME": f"{place}/home", "TMPDIR": f"{place}/tmp", "LANG": "C.UTF-8"}


class Started:
    """A run with pipes on its streams."""

    def __init__(self, run: Run, stdin: int, stdout: int) -> None:
        self.run = run
        self.stdin = stdin
        self.stdout = stdout

    @classmethod
    async def of(
        cls,
        place: str,
        argv: list[str],
        policy: dict | str | None,
        on: Launcher | None = None,
        path: str | None = None,
        **more: object,
    ) -> "Started":
        """Start it."""
        stdin, stdin_write = os.pipe()
        stdout_read, stdout = os.pipe()
        spec = Spec(
            tuple(argv),
            env=environment(place, path),
            cwd=f"{place}/cwd",
            policy=policy_in(place, policy),
            stdin=stdin,
            stdout=stdout,
            stderr=stdout,
            **more,
        )
        try:
            run = await (on or await launcher()).spawn(spec)
        except BaseException:
            os.close(stdin_write)
            os.close(stdout_read)
            raise
        finally:
            os.close(stdin)
            os.close(stdout)
        return cls(run, stdin_write, stdout_read)

    async def line(self) -> str:
        """The next line of output."""
        return await asyncio.to_thread(self._line)

    def _line(self) -> str:
        text = b""
        while not text.endswith(b"\n") and (part := os.read(self.stdout, 1)):
            text += part
        return text.decode()

    async def rest(self) -> bytes:
        """The output until all that hold the pipe are gone."""
        return await asyncio.to_thread(self._rest)

    def _rest(self) -> bytes:
        parts = []
        while part := os.read(self.stdout, 1 << 20):
            parts.append(part)
        return b"".join(parts)

    def give(self, text: str) -> None:
        """Write to standard input; the program may have ended without reading."""
        with suppress(BrokenPipeError):
            os.write(self.stdin, text.encode())

    def hang_up(self) -> None:
        """End of file on standard input."""
        os.close(self.stdin)
        self.stdin = -1

    def close(self) -> None:
        """Let go of the pipes."""
        for descriptor in (self.stdin, self.stdout):
            if descriptor >= 0:
                os.close(descriptor)


async def run(
    place: str, argv: list[str], policy: dict | str | None, stdin: str = "", *, size_only: bool = False, **more: object
) -> dict[str, object]:
    """Run a program to its end."""
    limits = Limits(**more.pop("limits", {}))
    # Whose PATH and HOME they are is what add_exec goes by, so a server of its own has them.
    own = Launcher(environ=environment(place, more["path"])) if "path" in more else None
    started = await Started.of(place, argv, policy, own, limits=limits, **more)
    started.give(stdin)
    started.hang_up()
    output = await started.rest()
    result = await started.run.wait()
    started.close()
    if own:
        await own.close()
    return {
        "output": len(output) if size_only else output.decode(errors="replace"),
        "status": result.status,
        "signal": result.signal,
        "reason": result.reason,
        "left": result.left_running,
        "notes": result.notes,
    }


async def call(place: str, function: str, arguments: str, policy: dict | str | None) -> dict[str, object]:
    """Call a function of `called.py` in the restricted child."""
    started = await Started.of(place, [], policy, call=f"called:{function}", on=await _with_calls(), grace_s=0.1)
    started.give(arguments)
    started.hang_up()
    output = await started.rest()
    result = await started.run.wait()
    started.close()
    return {"output": output.decode(errors="backslashreplace"), "status": result.status, "left": result.left_running}


async def _with_calls() -> Launcher:
    """A launcher that has imported `called.py`, from a directory that is on the path as a package's is."""
    if len(_launchers) < 2:
        await launcher()
        site = tempfile.TemporaryDirectory(suffix="-packages")
        shutil.copy(Path(__file__).with_name("called.py"), site.name)
        sys.path.append(site.name)
        _launchers.append(Launcher(["called"]))
        await _launchers[1].start()
        _sites.append(site)
    return _launchers[1]


async def refused(place: str, argv: list[str], policy: dict | str | None, cwd: str | None = None) -> dict[str, object]:
    """The error of a program that does not start."""
    spec = Spec(tuple(argv), env=environment(place), cwd=cwd or f"{place}/cwd", policy=policy_in(place, policy))
    try:
        await (await launcher()).spawn(spec)
    except SandboxError as error:
        return {"error": str(error)}
    return {"error": None}


async def kill(
    place: str, policy: dict | str | None, grace_s: float, reason: str = "cancelled", python: str = PYTHON
) -> dict[str, object]:
    """Kill a run with daemons, one of which ignores SIGTERM."""
    started = await Started.of(place, [python, "-c", DAEMONS], policy)
    pids = [int(pid) for pid in (await started.line()).split()]
    used = started.run.usage()
    alive_before = [pid for pid in pids if alive(pid)]
    await started.run.kill(grace_s, reason)
    result = await started.run.wait()
    await started.rest()
    started.close()
    return {
        "started": len(pids),
        "processes": used.processes,
        "rss": used.rss_bytes,
        "before": len(alive_before),
        "after": len([pid for pid in pids if alive(pid)]),
        "signal": result.signal,
        "reason": result.reason,
    }


async def older_kernel(place: str, abi: int, policy: str) -> dict[str, object]:
    """Kill daemons as on a kernel with an older Landlock."""
    own = Launcher()
    own._kernel = Probe(min(abi, own._kernel.abi), own._kernel.seccomp, own._kernel.userns, own._kernel.root)
    try:
        started = await Started.of(place, [PYTHON, "-c", DAEMONS], policy, own)
    except SandboxError as error:
        return {"error": str(error)}
    pids = [int(pid) for pid in (await started.line()).split()]
    await started.run.kill(0.1)
    result = await started.run.wait()
    started.close()
    await own.close()
    return {"before": len(pids), "after": len([pid for pid in pids if alive(pid)]), "notes": result.notes}


async def left_running(place: str, policy: dict | str | None) -> dict[str, object]:
    """A program that ends while its daemons go on."""
    started = await Started.of(place, [PYTHON, "-c", DAEMONS], policy, grace_s=0.1)
    pids = [int(pid) for pid in (await started.line()).split()]
    started.hang_up()
    result = await started.run.wait()
    await started.rest()
    started.close()
    return {"status": result.status, "left": result.left_running, "after": len([pid for pid in pids if alive(pid)])}


async def background(place: str) -> dict[str, object]:
    """A program in the background that ends before what it started, which ends by itself."""
    argv = ["/bin/sh", "-c", "exec 3<&0; (read line <&3; echo $line) & exit 3"]
    started = await Started.of(place, argv, "default", background=True)
    first = os.pidfd_open(started.run.pid) if alive(started.run.pid) else None
    if first is not None:
        await asyncio.to_thread(select.select, [first], [], [])
        os.close(first)
    os.write(started.stdin, b"later\n")
    result = await started.run.wait()
    output = await started.rest()
    started.close()
    return {"status": result.status, "left": result.left_running, "reason": result.reason, "output": output.decode()}


async def launcher_killed(place: str) -> dict[str, object]:
    """The launcher is killed while a run goes on."""
    own = Launcher()
    await own.start()
    first = own.pid
    started = await Started.of(place, [PYTHON, "-c", DAEMONS], "strict", own, grace_s=0.1)
    pids = [int(pid) for pid in (await started.line()).split()]
    os.kill(first, signal.SIGKILL)
    result = await started.run.wait()
    await started.rest()
    started.close()
    again = await Started.of(place, ["/bin/echo", "again"], "strict", own)
    output = await again.rest()
    ended = await again.run.wait()
    again.close()
    second = own.pid
    await own.close()
    return {
        "reason": result.reason,
        "after": len([pid for pid in pids if alive(pid)]),
        "again": output.decode(),
        "status": ended.status,
        "another": first != second,
        "children": len([pid for pid in children(os.getpid()) if os.getsid(pid) in {first, second}]),
    }


async def reaper_killed(place: str) -> dict[str, object]:
    """A reaper is killed: its run is lost, and the launcher ends what it leaves."""
    started = await Started.of(place, [PYTHON, "-c", DAEMONS], "strict")
    pids = [int(pid) for pid in (await started.line()).split()]
    os.kill(started.run.reaper_pid, signal.SIGKILL)
    result = await started.run.wait()
    await started.rest()
    started.close()
    return {"reason": result.reason, "after": len([pid for pid in pids if alive(pid)])}


async def reused(place: str) -> dict[str, object]:
    """Runs one after the other, the first of which leaves something behind."""
    own = Launcher()
    await own.start()
    reapers, after, outputs = [], [], []
    scripts = [["/bin/sh", "-c", f"echo {number}; read end"] for number in (1, 2, 3)]
    for argv in ([PYTHON, "-c", DAEMONS], *scripts):
        started = await Started.of(place, argv, "strict", own, grace_s=0.1)
        outputs.append(await started.line())
        reapers.append(started.run.reaper_pid)
        started.hang_up()
        await started.run.wait()
        after.append(started.run.reaper_pid)
        started.close()
    await own.close()
    pids = [int(pid) for pid in outputs[0].split()]
    return {
        "reapers": len(set(reapers)),
        "after": after,
        "alive": len([pid for pid in pids if alive(pid)]),
        "outputs": outputs[1:],
    }


async def idle_killed(place: str, what: str) -> dict[str, object]:
    """What stands by for the next run is killed, and the server has not noticed when it asks for one."""
    own = Launcher()
    started = await Started.of(place, ["/bin/echo", "1"], "strict", own)
    await started.run.wait()
    started.close()
    while len(children(own.pid)) < 2 or not all(map(children, children(own.pid))):  # noqa: ASYNC110  as in _idle
        await asyncio.sleep(0)
    reapers = children(own.pid)
    processes = [pid for reaper in reapers for pid in children(reaper)]
    for pid in {"reapers": reapers, "processes": processes, "all": [own.pid, *reapers]}[what]:
        os.kill(pid, signal.SIGKILL)
    while any(map(alive, processes)):  # those of a killed reaper are killed by the kernel
        pass
    again = await Started.of(place, ["/bin/echo", "again"], "strict", own)
    output = await again.rest()
    result = await again.run.wait()
    again.close()
    await own.close()
    return {"output": output.decode(), "status": result.status, "reason": result.reason}


async def server_killed(place: str, policy: str | None) -> dict[str, object]:
    """The server is killed with its runs going on."""
    server = subprocess.Popen(
        [sys.executable, __file__, place, policy or ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pids = [int(pid) for pid in (await asyncio.to_thread(server.stdout.readline)).split()]
    everything = {*pids, *descendants(server.pid)}
    held = [os.pidfd_open(pid) for pid in everything]
    server.kill()
    server.wait()
    for descriptor in held:
        await asyncio.to_thread(select.select, [descriptor], [], [])
        os.close(descriptor)
    server.stdin.close()
    server.stdout.close()
    return {"started": len(pids), "after": len([pid for pid in everything if alive(pid)])}


async def _serve_to_be_killed(place: str, policy: str) -> None:
    own = Launcher()
    started = await Started.of(place, [PYTHON, "-c", DAEMONS], policy or None, own, grace_s=0.1)
    print(await started.line(), flush=True)
    await started.run.wait()


async def many(place: str, count: int) -> dict[str, object]:
    """Many runs at once, each with words of its own."""

    async def one(number: int) -> bool:
        started = await Started.of(place, ["/bin/echo", str(number)], "strict")
        output = await started.rest()
        result = await started.run.wait()
        started.close()
        return output == f"{number}\n".encode() and result.status == 0

    before = await _descriptors()
    right = await asyncio.gather(*(one(number) for number in range(count)))
    return {"right": sum(right), "descriptors": await _descriptors() - before}


async def _descriptors() -> int:
    """How many are open when the shared launcher is at rest, without those of idle reapers and of kept rulesets."""
    idle = await _idle()
    return len(os.listdir("/proc/self/fd")) - 2 * idle - len((await launcher())._seats._offers._made)


async def _idle() -> int:
    """Wait until every reaper of the shared launcher is idle; how many these are."""
    seats = (await launcher())._seats._seats
    while any(seat.state is not State.IDLE for seat in seats):  # noqa: ASYNC110  it is told to nobody
        await asyncio.sleep(0)
    return len(seats)


async def cancelled_spawn(place: str) -> dict[str, object]:
    """A spawn that is cancelled leaves nothing behind."""
    shared = await launcher()
    before = await _descriptors()
    spec = Spec(("/bin/sleep", "1000"), env=environment(place), cwd=f"{place}/cwd", policy=policy_in(place, "strict"))
    task = asyncio.ensure_future(shared.spawn(spec))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        run = await task
        await run.kill(0)
    left = await _descriptors() - before
    return {"left": len([pid for pid in descendants(shared.pid) if "sleep" in command(pid)]), "descriptors": left}


async def signals(place: str) -> dict[str, object]:
    """A signal for the program's group."""
    argv = ["/bin/sh", "-c", "trap 'echo got; exit 5' USR1; echo ready; while :; do read x; done"]
    started = await Started.of(place, argv, "strict")
    ready = await started.line()
    started.run.signal(signal.SIGUSR1)
    got = await started.line()
    result = await started.run.wait()
    started.run.signal(signal.SIGUSR1)
    started.close()
    return {"ready": ready, "got": got, "status": result.status}


async def broker(place: str) -> dict[str, object]:
    """A program with a socket as descriptor 3."""
    ours, theirs = socket.socketpair()
    argv = [PYTHON, "-c", "import os; os.write(3, b'hello'); os.fstat(4)"]
    started = await Started.of(place, argv, "strict", broker=theirs.fileno())
    theirs.close()
    said = await asyncio.to_thread(ours.recv, 100)
    output = await started.rest()
    await started.run.wait()
    ours.close()
    started.close()
    return {"said": said.decode(), "output": output.decode()}


async def scope_refuses() -> dict[str, object]:
    """Outside of any domain both the proof and the kill refuse; were they wrong, this namespace would end."""
    victim = subprocess.Popen(["/bin/sleep", "1000"])
    errors = []
    try:
        Scope(victim.pid)
    except ScopeError as error:
        errors.append(str(error))
    forged = object.__new__(Scope)
    forged._server_pid = victim.pid
    try:
        forged.kill(signal.SIGKILL)
    except ScopeError as error:
        errors.append(str(error))
    alive_after = victim.poll() is None
    victim.kill()
    victim.wait()
    try:
        Scope(victim.pid)
    except ScopeError as error:
        errors.append(str(error))
    return {"errors": errors, "alive": alive_after, "pid": victim.pid}


async def server_pid() -> dict[str, object]:
    """The process that launcher and reapers must protect."""
    return {"pid": os.getpid()}


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def command(pid: int) -> str:
    """The command line of a process, empty for a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


if __name__ == "__main__":
    asyncio.run(_serve_to_be_killed(sys.argv[1], sys.argv[2]))
