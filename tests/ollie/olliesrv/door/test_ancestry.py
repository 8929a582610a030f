"""Chains of parents, from invented process tables that change while they are read, and from real processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from ollie.olliesrv.door.ancestry import ancestry
from ollie.olliesrv.process.procfs import Process, no_new_privs, pidfd_pid, process

INIT = Process(1, 0, 0)
SHELL = Process(10, 5, 1)
CHILD = Process(20, 9, 10)


def table(*states: Iterable[Process]) -> Callable[[int], Process | None]:
    """A process table that goes on to its next state after each look; the last one stays."""
    remaining = [{p.pid: p for p in state} for state in states]

    def look(pid: int) -> Process | None:
        state = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return state.get(pid)

    return look


def test_a_steady_chain() -> None:
    """A chain that stays as it is comes back whole, itself first."""
    assert ancestry(20, table([INIT, SHELL, CHILD])) == (CHILD, SHELL, INIT)


def test_a_parent_that_goes_in_between() -> None:
    """A child given to init while its chain is read is told with init as its parent."""
    before = [INIT, SHELL, CHILD]
    after = [INIT, Process(20, 9, 1)]
    assert ancestry(20, table(before, before, before, after)) == (Process(20, 9, 1), INIT)


def test_a_parent_id_used_again() -> None:
    """A process that is younger than its child is no parent of it: the chain cannot be told."""
    assert ancestry(20, table([INIT, Process(10, 30, 1), CHILD])) is None


def test_a_parent_id_used_again_between_the_readings() -> None:
    """A stranger found under the parent's id in one reading does not count when the next one finds another."""
    stranger = [INIT, Process(10, 9, 1), CHILD]
    orphan = [INIT, Process(10, 9, 1), Process(20, 9, 1)]
    assert ancestry(20, table(stranger, stranger, stranger, orphan)) == (Process(20, 9, 1), INIT)


def test_a_chain_that_never_rests() -> None:
    """A chain that differs at each reading is given up."""
    states = [[INIT, Process(10, n, 1), Process(20, 99, 10)] for n in range(99)]
    assert ancestry(20, table(*states)) is None


def test_a_loop() -> None:
    """A table that makes no sense ends the climb."""
    assert ancestry(2, table([Process(2, 0, 3), Process(3, 0, 2)])) is None


def test_a_process_that_is_not_there() -> None:
    """What does not exist has no chain."""
    assert ancestry(20, table([INIT])) is None


def test_our_own_chain() -> None:
    """The real chain of this process begins with it, goes on with its parent and ends at the top."""
    chain = ancestry(os.getpid())
    assert chain is not None
    assert [p.pid for p in chain[:2]] == [os.getpid(), os.getppid()]
    assert chain[-1].parent == 0


def test_a_name_with_parentheses(tmp_path: Path) -> None:
    """A process named `) 1 (x` is read correctly."""
    odd = tmp_path / ") R 1 1 (x"
    odd.symlink_to("/bin/cat")
    with subprocess.Popen([odd], stdin=subprocess.PIPE) as child:
        found = process(child.pid)
        assert found is not None
        assert (found.pid, found.parent) == (child.pid, os.getpid())


def test_a_process_that_has_gone() -> None:
    """Nothing is known of a process that was waited for."""
    child = subprocess.Popen(["true"])
    pidfd = os.pidfd_open(child.pid)
    assert pidfd_pid(pidfd) == child.pid
    child.wait()
    assert process(child.pid) is None
    assert no_new_privs(child.pid) is None
    assert pidfd_pid(pidfd) is None
    os.close(pidfd)


def test_no_new_privs_of_a_process() -> None:
    """The bit is read from the process that has it."""
    code = "import ctypes, sys; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert no_new_privs(child.pid) is True
    assert no_new_privs("self") in (True, False)
