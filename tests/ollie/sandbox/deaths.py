"""More of what the tests do in their PID namespace: what dies at a bad moment, what runs out, what is used again."""
# ruff: noqa: ASYNC221, PTH115, PTH208 - as in scenarios.py

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

from scenarios import PYTHON, Started, alive, environment, policy_in

from ollie.sandbox.launcher import Launcher, SandboxError, Spec
from ollie.sandbox.processes import children
from ollie.sandbox.seats import State

SYSTEM = ["/usr", "/bin", "/lib", "/lib64"]


async def _at_rest(own: Launcher) -> list[int]:
    """Wait until every reaper of a launcher is idle, and the process below it waits for a plan; the reapers."""
    await own.start()
    seats = own._seats._seats
    while any(seat.state is not State.IDLE for seat in seats):  # noqa: ASYNC110  it is told to nobody
        await asyncio.sleep(0)
    while not all(_stands_by(pid) for reaper in children(own.pid) for pid in children(reaper)):  # noqa: ASYNC110  this too
        await asyncio.sleep(0)
    return children(own.pid)


def _stands_by(pid: int) -> bool:
    """Whether a process has done all that it does before there is a plan: to block no signal is the last of it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # of a reaper that was let go, and has gone meanwhile
        return False
    return any(line.split() == ["SigBlk:", "0" * 16] for line in status.splitlines())


async def killed_with_a_plan(place: str, what: str) -> dict[str, object]:
    """What stands by is stopped, gets its plan, and is killed before it reads that."""
    own = Launcher()
    reapers = await _at_rest(own)
    standing = [pid for reaper in reapers for pid in children(reaper)]
    for pid in standing:
        os.kill(pid, signal.SIGSTOP)
    argv = ["/bin/sh", "-c", "echo ran >>ran"]
    starting = asyncio.create_task(Started.of(place, argv, "strict", own))
    while not own._runs and not starting.done():  # noqa: ASYNC110  it is told to nobody
        await asyncio.sleep(0)
    (run,) = own._runs
    for pid in set(standing) - {run.pid}:
        os.kill(pid, signal.SIGCONT)
    victims = {"process": [run.pid], "reaper": [run.reaper_pid], "launcher": [own.pid]}
    victims["both"] = [own.pid, run.reaper_pid]
    first = run.pid
    for pid in victims[what]:
        os.kill(pid, signal.SIGKILL)
    started = await starting
    result = await started.run.wait()
    started.close()
    await own.close()
    return {
        "ran": (Path(place) / "cwd" / "ran").read_text(),
        "status": result.status,
        "another": started.run.pid != first,
        "alive": alive(first),
    }


async def standing_by(place: str) -> dict[str, object]:
    """The descriptors of the processes that stand by, beside those that a program gets."""
    own = Launcher()
    reapers = await _at_rest(own)
    found = [
        [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd") if int(number) > 3]
        for reaper in reapers
        for pid in children(reaper)
    ]
    await own.close()
    return {"reapers": len(found), "held": [[name.partition(":")[0] for name in names] for names in found]}


async def used_again(
    place: str, policy: dict | str | None, before: dict | str | None, python: str = PYTHON, abi: int = 99
) -> dict[str, object]:
    """The state of programs of reapers whose last program, by another policy, has changed all that it could."""
    own = Launcher()
    own._kernel = replace(own._kernel, abi=min(abi, own._kernel.abi))
    spoiled: set[int] = set()
    states: dict[bool, list[object]] = {False: [], True: []}
    turn = 0
    while not states[True] or turn < 6:
        what = "spoil" if turn % 4 in {1, 2} else "state"
        program, rules = (python, before) if what == "spoil" else (PYTHON, policy)
        argv = [program, "attempts.py", what, place, str(os.getpid())]
        started = await Started.of(place, argv, rules, own, grace_s=0)
        reaper = started.run.reaper_pid
        started.hang_up()
        output = (await started.rest()).decode()
        await started.run.wait()
        started.close()
        if what == "spoil":
            assert '"reached"' in output, output
            spoiled.add(reaper)
        else:
            states[reaper in spoiled].append(json.loads(output)["reached"])
        turn += 1
    await own.close()
    return {"before": states[False], "after": states[True]}


async def reaper_killed_from_inside(place: str, policy: dict | str | None, abi: int) -> dict[str, object]:
    """A program that is not kept from it kills its reaper, having taken care to outlive that."""
    own = Launcher()
    own._kernel = replace(own._kernel, abi=min(abi, own._kernel.abi))
    started = await Started.of(place, [PYTHON, "-c", OUTLIVING], policy, own, grace_s=0)
    pids = [int(pid) for pid in (await started.line()).split()]
    started.hang_up()
    result = await started.run.wait()
    started.close()
    left = [pid for pid in pids if alive(pid)]
    await own.close()
    return {"pids": len(pids), "reason": result.reason, "left": left}


OUTLIVING = """
import ctypes, os, signal, sys
reaper = os.getppid()
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode())
        signal.pause()
    signal.pause()
print(os.getpid(), int(os.read(read, 20)), flush=True)
sys.stdin.read()
os.kill(reaper, signal.SIGKILL)
signal.pause()
"""


async def out_of_descriptors(place: str) -> dict[str, object]:
    """Starts at once in a server that has next to no descriptors left; then it has some again."""
    own = Launcher()
    await _at_rest(own)
    spec = Spec(("/bin/true",), env=environment(place), cwd=f"{place}/cwd", policy=policy_in(place, "strict"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    said: set[str] = set()
    ran = 0
    before = 0
    for room in (0, 1, 2, 3, 4, 6, 9, 13, 20, 0):
        await _at_rest(own)
        before = before or _descriptors(own)
        taken = _taken_to_the_highest()
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + room, hard))
        try:
            outcomes = await asyncio.gather(*(_start(own, spec) for _ in range(12)))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in taken:
                os.close(descriptor)
        said.update(filter(None, outcomes))
        ran += outcomes.count("")
    outcomes = await asyncio.gather(*(_start(own, spec) for _ in range(12)))
    await _at_rest(own)
    after = _descriptors(own)
    await own.close()
    return {"said": sorted(said), "ran": ran > 0, "afterwards": outcomes.count(""), "left": after - before}


def _descriptors(own: Launcher) -> int:
    """How many are open, without those of idle reapers and of rulesets that are kept."""
    return len(os.listdir("/proc/self/fd")) - 2 * len(own._seats._seats) - len(own._seats._offers._made)


def _taken_to_the_highest() -> list[int]:
    """Descriptors at every number that was free, up to one beyond the highest: with a limit there none is left."""
    highest = max(map(int, os.listdir("/proc/self/fd")))
    taken = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
    while taken[-1] <= highest:
        taken.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    return taken


async def _start(own: Launcher, spec: Spec) -> str:
    """What a start fails with; empty when it runs to its end."""
    try:
        await (await own.spawn(spec)).wait()
    except (SandboxError, OSError) as error:
        return str(error)
    return ""


async def paths_replaced(place: str) -> dict[str, object]:
    """What one program after another reads by one policy, while its paths come to be other files, links or none."""
    given = Path(place) / "given"
    given.mkdir()
    names = ("file", "directory/file", "own/entry/file")
    paths = [f"{given}/file", f"{given}/directory", f"{given}/own/entry"]
    policy = {"filesystem": {"rox": SYSTEM, "ro": paths, "rw": [f"{given}/own"]}}
    own = Launcher()
    seen: dict[str, list[str]] = {}

    async def look(when: str) -> None:
        seen[when] = [await _shown(f"{given}/{name}", place, policy, own) for name in names]

    (given / "own").mkdir()
    await look("absent")
    for name in names:
        (given / name).parent.mkdir(exist_ok=True)
        (given / name).write_text("first")
    await look("made")
    (given / "new").write_text("second")
    (given / "new").rename(given / "file")
    shutil.rmtree(given / "directory")
    (given / "directory").mkdir()
    (given / "directory/file").write_text("second")
    await look("replaced")
    (given / "own/entry").rename(Path(place) / "outside/moved")
    (given / "own/entry").symlink_to(Path(place) / "outside/moved")
    await look("moved")
    (given / "file").unlink()
    (given / "file").symlink_to("directory/file")
    await look("links")
    shutil.rmtree(given / "directory")
    await look("gone")
    await own.close()
    return seen


async def offered(place: str) -> dict[str, object]:
    """What the server keeps for programs to come after one program, after another, and after one elsewhere."""
    own = Launcher()
    kept = []
    for directory in ("cwd", "cwd", "tmp"):
        spec = Spec(("/bin/true",), cwd=f"{place}/{directory}", policy=policy_in(place, "strict"))
        await (await own.spawn(spec)).wait()
        kept.append([made.descriptor for made in own._seats._offers._made.values()])
    await own.close()
    return {"kept": list(map(len, kept)), "same": kept[0] == kept[1]}


async def many_paths(place: str, count: int) -> dict[str, object]:
    """Programs whose policy has many paths, and the descriptors that they leave open here."""
    own = Launcher()
    policy = policy_in(place, {"filesystem": {"rox": SYSTEM, "ro": _made(f"{place}/outside", count)}})
    left = []
    for _ in range(3):
        end = await (await own.spawn(Spec(("/bin/true",), cwd=place, policy=policy))).wait()
        assert end.status == 0
        await _at_rest(own)
        left.append(_descriptors(own))
    await own.close()
    return {"left": left[2] - left[0]}


def _made(directory: str, count: int) -> list[str]:
    """So many new files."""
    files = [Path(directory, str(number)) for number in range(count)]
    for path in files:
        path.touch()
    return list(map(str, files))


async def mounted_again(place: str) -> dict[str, object]:
    """What a program reads of a file system that another one of the same identity has taken the place of."""
    given = Path(place) / "given"
    given.mkdir()
    policy = {"filesystem": {"rox": SYSTEM, "ro": [str(given)]}}
    own = Launcher()
    identities = set()
    shown = []
    for _ in range(3):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", given], check=True)
        (given / "file").write_text("here")
        identities.add((given.stat().st_dev, given.stat().st_ino))
        shown += [await _shown(f"{given}/file", place, policy, own) for _ in range(2)]
        subprocess.run(["umount", given], check=True)
    await own.close()
    return {"identities": len(identities), "shown": shown}


async def _shown(path: str, place: str, policy: dict, own: Launcher) -> str:
    """The content of a file for a program, or what it is told."""
    started = await Started.of(place, ["cat", path], policy, own)
    started.hang_up()
    output = (await started.rest()).decode().strip()
    await started.run.wait()
    started.close()
    return output.rpartition(": ")[2]
