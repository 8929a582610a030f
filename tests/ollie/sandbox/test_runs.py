"""Runs from their start to their end, with real processes."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ollie.sandbox.requests import RESTRICTED, Ready
from ollie.sandbox.runs import Exit, Run

Inside = Callable[..., dict[str, Any]]

POLICIES = pytest.mark.parametrize("policy", ["strict", "default", None], ids=["strict", "default", "no sandbox"])


@POLICIES
def test_output_and_status(inside: Inside, place: Path, policy: object) -> None:
    """A program's output and exit status arrive."""
    result = inside("run", place=str(place), argv=["/bin/sh", "-c", "cat; pwd; exit 3"], policy=policy, stdin="in\n")
    assert result["output"] == f"in\n{place}/cwd\n"
    assert (result["status"], result["signal"], result["reason"], result["left"]) == (3, None, "exited", 0)


@POLICIES
@pytest.mark.parametrize("below", ["", "/below"])
def test_a_directory_that_became_a_link_is_not_entered(inside: Inside, place: Path, policy: object, below: str) -> None:
    """What was asked for was a directory without links; also where one is further up, and without a sandbox."""
    (place / "outside/below").mkdir()
    (place / "cwd").rename(place / "moved")
    (place / "cwd").symlink_to("outside")
    cwd = f"{place}/cwd{below}"
    error = inside("refused", place=str(place), argv=["true"], policy=policy, cwd=cwd)["error"]
    assert error == f"cannot use {cwd} as working directory: it leads through a link"


def test_signal_is_reported(inside: Inside, place: Path) -> None:
    """A program that a signal ends has no status."""
    result = inside("run", place=str(place), argv=["/bin/sh", "-c", "kill -9 $$"], policy="strict")
    assert (result["status"], result["signal"], result["reason"]) == (None, 9, "exited")


@POLICIES
@pytest.mark.parametrize("grace_s", [0, 0.1])
def test_kill_ends_everything(inside: Inside, place: Path, policy: object, grace_s: float) -> None:
    """Daemons in sessions of their own end with the run, also one that ignores SIGTERM."""
    result = inside("kill", place=str(place), policy=policy, grace_s=grace_s)
    assert (result["started"], result["before"], result["after"]) == (4, 4, 0)
    assert result["processes"] == 4
    assert result["rss"] > 4 << 20
    assert result["signal"] == (15 if grace_s else 9)
    assert result["reason"] == "cancelled"


def test_reason_of_kill(inside: Inside, place: Path) -> None:
    """A time-out is told from a cancellation."""
    assert inside("kill", place=str(place), policy="strict", grace_s=0, reason="timed out")["reason"] == "timed out"


@POLICIES
def test_left_running_is_ended_and_counted(inside: Inside, place: Path, policy: object) -> None:
    """What a call leaves running when it ends is ended, and the result says how much it was."""
    assert inside("left_running", place=str(place), policy=policy) == {"status": 0, "left": 3, "after": 0}


def test_pipeline_leaves_nothing_running(inside: Inside, place: Path) -> None:
    """The end of a pipeline that ends a moment after the call is not counted."""
    argv = ["/bin/sh", "-c", "yes | head -n 1"]
    result = inside("run", place=str(place), argv=argv, policy="strict")
    assert (result["output"], result["left"]) == ("y\n", 0)


def test_background_waits_for_all(inside: Inside, place: Path) -> None:
    """A run in the background goes on until the last of its processes has ended."""
    assert inside("background", place=str(place)) == {
        "status": 3,
        "left": 0,
        "reason": "exited",
        "output": "later\n",
    }


def test_launcher_killed(inside: Inside, place: Path) -> None:
    """When the launcher dies its runs are lost and dead, and the next one starts another launcher."""
    assert inside("launcher_killed", place=str(place)) == {
        "reason": "lost",
        "after": 0,
        "again": "again\n",
        "status": 0,
        "another": True,
        "children": 0,
    }


def test_reaper_killed(inside: Inside, place: Path) -> None:
    """When a reaper is killed its run is reported lost only after its processes are dead."""
    assert inside("reaper_killed", place=str(place)) == {"reason": "lost", "after": 0}


def test_reaper_takes_one_run_after_another(inside: Inside, place: Path) -> None:
    """Two are enough for runs in turn; a run that has ended names none, and nothing of it is left to the next."""
    result = inside("reused", place=str(place))
    assert 1 <= result.pop("reapers") <= 2
    assert result == {"after": [0, 0, 0, 0], "alive": 0, "outputs": ["1\n", "2\n", "3\n"]}


@pytest.mark.parametrize("what", ["reapers", "processes", "all"])
def test_what_stands_by_is_killed(inside: Inside, place: Path, what: str) -> None:
    """A run that meets dead processes gets other ones."""
    result = inside("idle_killed", place=str(place), what=what)
    assert result == {"output": "again\n", "status": 0, "reason": "exited"}


@pytest.mark.parametrize("what", ["process", "reaper", "launcher", "both"])
def test_what_has_a_plan_is_killed(inside: Inside, place: Path, what: str) -> None:
    """A start whose process dies before it could run anything is repeated, and happens once."""
    result = inside("killed_with_a_plan", place=str(place), what=what)
    assert result == {"ran": "ran\n", "status": 0, "another": True, "alive": False}


def _run() -> tuple[Run, socket.socket]:
    """A run, and its process's end of the socket between them."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return Run(Ready(0, 0, ()), ours, lambda _: None, lambda _: None, lambda _: None), theirs


LOST = Exit(None, None, "lost", 0, ())


async def test_a_start_is_repeated_only_if_nothing_can_run_any_more() -> None:
    """A process that has not said that it is restricted when its run is over cannot say it, and so runs nothing."""
    run, process = _run()
    run.ended(LOST)
    assert not await run.started()
    with pytest.raises(BrokenPipeError):
        os.write(process.fileno(), RESTRICTED)
    process.close()


async def test_a_start_that_may_have_happened_is_not_repeated() -> None:
    """Once it has said that, it may run, and the run counts as begun whatever became of it."""
    run, process = _run()
    os.write(process.fileno(), RESTRICTED)
    run.ended(LOST)
    assert await run.started()
    assert (await run.wait()).reason == "lost"
    process.close()


ORPHAN = """
import os, socket, sys
from ollie.sandbox import child
from ollie.sandbox.requests import Plan, send_plan
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
job = os.dup2(theirs.fileno(), 10)
send_plan(ours, Plan(("/bin/echo", "ran"), "", {}, "/", (), None, False, None, None, b""), [0, 1, 2])
if (pid := os.fork()) == 0:
    child.stand_by(socket.socket(fileno=job), os.getppid() if sys.argv[1] == "parent" else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize(("parent", "output"), [("parent", "ran\n0\n"), ("another", "126\n")])
def test_a_process_without_its_reaper_runs_nothing(parent: str, output: str) -> None:
    """Its reaper was gone before it could ask to be killed with it."""
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN, parent], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert done.stdout == output


@pytest.mark.parametrize(("policy", "abi"), [(None, 99), ("default", 5), ("default", 0)])
def test_reaper_killed_by_its_program(inside: Inside, place: Path, policy: object, abi: int) -> None:
    """Where nothing keeps a program from that, the run is lost, and dead all the same."""
    result = inside("reaper_killed_from_inside", place=str(place), policy=policy, abi=abi)
    assert result == {"pids": 2, "reason": "lost", "left": []}


def test_what_stands_by_holds_its_job_alone(inside: Inside, place: Path) -> None:
    """Neither the reaper's socket nor another descriptor is in a process that will become a program."""
    result = inside("standing_by", place=str(place))
    assert result["reapers"] >= 1
    assert result["held"] == [["socket"]] * result["reapers"]


def test_out_of_descriptors(inside: Inside, place: Path) -> None:
    """Starts fail with a reason, none hangs, and nothing stays open; afterwards all goes well again."""
    result = inside("out_of_descriptors", place=str(place))
    assert result.pop("said")
    assert result == {"ran": True, "afterwards": 12, "left": 0}


@pytest.mark.parametrize("policy", ["strict", None])
def test_server_killed(inside: Inside, place: Path, policy: object) -> None:
    """A server that gets SIGKILL leaves neither launcher, reapers nor programs behind."""
    assert inside("server_killed", place=str(place), policy=policy) == {"started": 4, "after": 0}


def test_many_at_once(inside: Inside, place: Path) -> None:
    """Runs at the same time do not mix, and leave no descriptor open."""
    assert inside("many", place=str(place), count=40) == {"right": 40, "descriptors": 0}


def test_cancelled_spawn_leaves_nothing(inside: Inside, place: Path) -> None:
    """Cancelling a spawn ends what it had started."""
    assert inside("cancelled_spawn", place=str(place)) == {"left": 0, "descriptors": 0}


def test_signals_reach_the_program(inside: Inside, place: Path) -> None:
    """A signal for a run reaches its program, and after its end nobody."""
    assert inside("signals", place=str(place)) == {"ready": "ready\n", "got": "got\n", "status": 5}


def test_broker_is_descriptor_three(inside: Inside, place: Path) -> None:
    """A run with a broker has it as descriptor 3, and nothing above."""
    result = inside("broker", place=str(place))
    assert result["said"] == "hello"
    assert "Bad file descriptor" in result["output"]


@pytest.mark.parametrize(
    ("argv", "cwd", "error"),
    [
        (["no-such-program"], None, "cannot run no-such-program: No such file or directory"),
        (["/etc/hostname"], None, "cannot run /etc/hostname: Permission denied"),
        (["/bin/true"], "/no/such", "cannot use /no/such as working directory: No such file or directory"),
    ],
)
def test_refused_starts(inside: Inside, place: Path, argv: list[str], cwd: str | None, error: str) -> None:
    """What cannot start says why in one sentence."""
    assert inside("refused", place=str(place), argv=argv, policy="strict", cwd=cwd) == {"error": error}


@pytest.mark.parametrize("abi", [0, 1, 5])
def test_older_kernel(inside: Inside, place: Path, abi: int) -> None:
    """Where signals cannot be scoped a run still ends whole, and its result says what was not enforced."""
    result = inside("older_kernel", place=str(place), abi=abi, policy="default")
    assert (result["before"], result["after"]) == (4, 0)
    assert any("signals" in note for note in result["notes"])


def test_older_kernel_is_refused(inside: Inside, place: Path) -> None:
    """A policy without best effort does not run where it cannot be enforced."""
    error = inside("older_kernel", place=str(place), abi=5, policy="strict")["error"]
    assert error == (
        "the sandbox policy strict cannot be enforced here: "
        "signals and abstract sockets are not confined: it takes landlock abi 6 (linux 6.12)"
    )


def test_unknown_user(inside: Inside, place: Path) -> None:
    """A policy with a user that does not exist starts nothing, or says that only root can change it."""
    policy = {"general": {"user": "no-such-user", "best_effort": False}, "filesystem": {"rox": ["/"]}}
    error = inside("refused", place=str(place), argv=["/bin/true"], policy=policy)["error"]
    assert "no-such-user" in error


def test_scope_refuses_outside_a_domain(inside: Inside) -> None:
    """Where signals are not confined, or nobody can prove it, nothing is signalled."""
    result = inside("scope_refuses")
    pid = result["pid"]
    assert result["alive"]
    assert result["errors"] == [
        f"signals are not confined to the run: process {pid} can be signalled",
        f"signals are not confined to the run: process {pid} can be signalled",
        f"process {pid} is not there to prove the scope of signals",
    ]
