"""How fast ninep is, against a floor and against other servers: python bench/ninep_speed.py [--rounds N] [--job NAME].

The floor (`ninep_servers/floor.py`) is one asyncio Protocol that gives the same answers and does nothing else. The
servers of a job take turns in every round, on a new connection each time, asked by a client in C
(`ninep_servers/load.c`) so that the client is no part of what is measured. Figures are medians over the rounds; a ratio
of 1 is as fast as the floor. On a machine that does other things as well, the ratio of the best rounds tells more.
Everything runs at a raised priority where that is allowed.

p9fs's py9p and pyroute2 are installed into a virtual environment that lives as long as the run; they answer single
requests, some of them no more.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

SERVING = Path(__file__).parent / "ninep_servers"
PYTHON = sys.executable
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
CONNECTIONS = 1000
FIDS = 10
PRIORITY = -15


@dataclass(frozen=True)
class Job:
    """One row of the table.

    Args:
        name: of the row.
        options: of the load client.
        work: its job, and the paths.
        goal: the lowest ratio to the floor that is aimed at.
        single: whether servers that handle one request at a time can do it.
    """

    name: str
    options: str
    work: str
    goal: float
    single: bool = False


JOBS = (
    Job("read, depth 1", "-n 2000", "read status", 0.75, single=True),
    Job("cat, depth 1", "-n 600", "cat d/e/small", 0.75, single=True),
    Job("stat, depth 1", "-n 2000", "stat status", 0.75, single=True),
    Job("read, depth 8", "-n 6000 -d 8", "read status", 0.5),
    Job("read, depth 32", "-n 12000 -d 32", "read status", 0.35),
    Job("cat, depth 32", "-n 3000 -d 32", "cat d/e/small", 0.35),
    Job("read 4 KiB, depth 8", "-n 6000 -d 8", "read k4", 0.5),
    Job("stream of 8 MiB", "-n 4 -c 65512", "stream big", 0.9),
    Job(f"{CONNECTIONS} connections", f"-n 6000 -k {CONNECTIONS}", "crowd status", 0.8),
    Job("wake-up of a blocked read", "-n 100", "wake block poke", 0.5),
)


@contextmanager
def serving(script: str, python: str = PYTHON) -> Iterator[tuple[str, int]]:
    """A server's socket and process id, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as directory:
        socket = f"{directory}/socket"
        command = [python, str(SERVING / script), socket]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
            assert process.stdout is not None
            try:
                if process.stdout.readline() != b"ready\n":
                    raise SystemExit(f"{script} did not start")
                yield socket, process.pid
            finally:
                process.terminate()


def compiled(directory: str) -> str:
    """The load client."""
    program = f"{directory}/load"
    subprocess.run(["cc", "-O2", "-o", program, str(SERVING / "load.c")], check=True)
    return program


def others(directory: str) -> dict[str, tuple[str, str]]:
    """The servers to compare with, as script and interpreter; the reason is printed where one cannot be installed."""
    subprocess.run([PYTHON, "-m", "venv", directory], check=True)
    python = f"{directory}/bin/python"
    found = {}
    for package, script in (("p9fs", "py9p_server.py"), ("pyroute2", "pyroute2_server.py")):
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", package]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"skipped: {package} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
        else:
            found[package] = (script, python)
    return found


def asked(load: str, socket: str, job: Job) -> float | None:
    """Microseconds for each operation; None when the server cannot do it."""
    command = [load, *job.options.split(), socket, *job.work.split()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        return None
    return float(done.stdout) if done.returncode == 0 else None


def compare(load: str, sockets: dict[str, str], jobs: list[Job], rounds: int) -> None:
    """The table of jobs. The first two servers are the floor and ninep."""
    print("| job | goal | " + " | ".join(f"{name}, µs" for name in sockets) + " | ratio to the floor | of the best |")
    print("| --- | " + "--- | " * (len(sockets) + 3))
    for job in jobs:
        took: dict[str, list[float]] = {name: [] for name in sockets}
        for _ in range(rounds):
            for name, socket in sockets.items():
                result = asked(load, socket, job) if job.single or name in {"floor", "ninep"} else None
                if result is not None:
                    took[name].append(result)
        medians = {name: statistics.median(values) for name, values in took.items() if values}
        cells = [f"{medians[name]:.1f}" if name in medians else "" for name in sockets]
        ratio, best = (of["floor"] / of["ninep"] for of in (medians, {name: min(took[name]) for name in medians}))
        print(f"| {job.name} | {job.goal} | {' | '.join(cells)} | **{ratio:.2f}** | {best:.2f} |", flush=True)


# What is no rate


def resident_bytes(pid: int) -> int:
    """What a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def cpu_s(pid: int) -> float:
    """Processor time of a process, in seconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@contextmanager
def held(load: str, socket: str, *paths: str) -> Iterator[None]:
    """Many connections with open fids; with a second path a blocked read of it on each."""
    command = [load, "-k", str(CONNECTIONS), "-f", str(FIDS), socket, "hold", *paths]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != b"held\n":
            raise SystemExit("the connections could not be made")
        yield
        process.stdin.close()


def memory(load: str) -> None:
    """Of a connection with its fids, in a server that has seen none before."""
    with serving("tree.py") as (socket, pid):
        before = resident_bytes(pid)
        with held(load, socket, "status"):
            each = (resident_bytes(pid) - before) / CONNECTIONS
    print(f"memory of a connection with {FIDS} open fids: {each / 1024:.1f} KiB (goal: at most 8)")


def idle(load: str) -> None:
    """Processor time while many reads are blocked."""
    seconds = 5.0
    with serving("tree.py") as (socket, pid), held(load, socket, "status", "block"):
        time.sleep(1)
        before = cpu_s(pid)
        time.sleep(seconds)
        used = cpu_s(pid) - before
    print(f"processor time of {seconds:.0f} s with {CONNECTIONS} blocked reads: {used * 1000:.3f} ms (goal: none)")


def timed(command: list[str]) -> float:
    """Seconds that a command takes."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    return time.perf_counter() - start


def started() -> float:
    """Seconds from the start of a ninep server until it accepts connections."""
    start = time.perf_counter()
    with serving("tree.py"):
        return time.perf_counter() - start


def against(what: str, goal: str, rounds: int, ours: Callable[[], float], base: Callable[[], float]) -> None:
    """Two durations taken in turns, and their ratio."""
    pairs = [(ours(), base()) for _ in range(rounds + 1)][1:]  # the first round fills caches
    took, floor = (statistics.median(side) * 1000 for side in zip(*pairs, strict=True))
    print(f"{what}: {took:.1f} ms to {floor:.1f} ms, **{took / floor:.2f}** times ({goal})")


def processes(rounds: int) -> None:
    """The start of a server, and a whole command."""
    against(
        'start of a server, to `python -c "import asyncio"`',
        "goal: at most 1.6",
        rounds,
        started,
        lambda: timed([PYTHON, "-c", "import asyncio"]),
    )
    with serving("tree.py") as (socket, _):
        read = [str(Path(PYTHON).parent / "ollie-9p"), "-a", f"unix!{socket}", "read", "status"]
        against(
            "`ollie-9p read` of a small file, to `python -c pass`",
            "goal: at most 2.0, better 1.5",
            rounds,
            lambda: timed(read),
            lambda: timed([PYTHON, "-c", "pass"]),
        )


def main() -> None:
    """Everything, or one job."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="how often each is measured")
    parser.add_argument("--job", default="", help="only jobs whose names begin so; nothing else is measured")
    options = parser.parse_args()
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    jobs = [job for job in JOBS if job.name.startswith(options.job)]
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        load = compiled(directory)
        servers = {"floor": ("floor.py", PYTHON), "ninep": ("tree.py", PYTHON)}
        if not options.job:
            servers |= others(f"{directory}/others")
        sockets = {name: stack.enter_context(serving(*how))[0] for name, how in servers.items()}
        compare(load, sockets, jobs, options.rounds)
        if not options.job:
            print()
            memory(load)
            idle(load)
            processes(options.rounds)
    print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
