"""Runs that want too much, and runs as another user."""

import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inside = Callable[..., dict[str, Any]]

PYTHON = os.path.realpath(sys.executable)
SYSTEM_PYTHON = "/usr/bin/python3"
FILES = {
    "ro": ["/etc", "/proc"],
    "rox": ["/usr", "/bin", "/lib", "/lib64"],
    "rw": ["/dev/null", "{CWD}"],
}


def policy(**limits: object) -> dict[str, object]:
    return {"filesystem": FILES, "limits": limits, "advanced": {"add_exec": True}}


def python(inside: Inside, place: Path, script: str, limits: dict[str, int], **more: object) -> dict[str, Any]:
    return inside("run", place=str(place), argv=[PYTHON, "-c", script], policy=policy(**limits), **more)


FORK_BOMB = """
import os, signal
while True:
    try:
        if os.fork() == 0:
            signal.pause()
    except OSError:
        signal.pause()
"""


def test_fork_bomb(inside: Inside, place: Path) -> None:
    """Too many processes end the run."""
    result = python(inside, place, FORK_BOMB, {"processes": 20})
    assert (result["reason"], result["signal"]) == ("processes", 9)


def test_fork_bomb_without_sandbox(inside: Inside, place: Path) -> None:
    """The limit holds without a sandbox too."""
    result = inside("run", place=str(place), argv=[PYTHON, "-c", FORK_BOMB], policy=None, limits={"processes": 20})
    assert (result["reason"], result["signal"]) == ("processes", 9)


def test_memory_of_all_processes(inside: Inside, place: Path) -> None:
    """Processes that are each within the limit but together above it end the run."""
    script = "import os, signal\nfor _ in range(2): os.fork()\nblock = b'x' * (40 << 20)\nsignal.pause()"
    result = python(inside, place, script, {"memory": 100 << 20})
    assert (result["reason"], result["signal"]) == ("memory", 9)


def test_memory_of_one_process(inside: Inside, place: Path) -> None:
    """A process that asks for more than the limit is refused, and can say so."""
    result = python(inside, place, "b'x' * (500 << 20)", {"memory": 100 << 20})
    assert "MemoryError" in result["output"]
    assert (result["reason"], result["status"]) == ("exited", 1)


def test_file_size(inside: Inside, place: Path) -> None:
    """One file cannot grow above the limit."""
    result = inside(
        "run",
        place=str(place),
        argv=["/bin/sh", "-c", "head -c 10000000 /dev/zero > big; stat -c %s big"],
        policy={**policy(file_size=1 << 20), "filesystem": {**FILES, "rw": ["/dev/null", "/dev/zero", "{CWD}"]}},
    )
    assert result["output"].splitlines()[-1] == str(1 << 20)


def test_processor_time(inside: Inside, place: Path) -> None:
    """A loop ends when its processor time is used up."""
    result = inside("run", place=str(place), argv=["/bin/sh", "-c", "while :; do :; done"], policy=policy(cpu_s=1))
    assert result["signal"] in {9, 24}


def test_open_files(inside: Inside, place: Path) -> None:
    """No more files are open than the limit says."""
    script = (
        "import os\nfiles = []\ntry:\n    while True: files.append(os.dup(1))\nexcept OSError: print(len(files) < 30)"
    )
    assert python(inside, place, script, {"open_files": 30})["output"] == "True\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
def test_another_user(inside: Inside, place: Path) -> None:
    """Tools run as the user that the policy names, who owns nothing of root's."""
    nobody = pwd.getpwnam("nobody")
    script = "id -u; id -g; id -G; chmod 600 ../outside/secret || echo refused; touch mine; stat -c %u mine"
    result = inside(
        "run",
        place=str(place),
        argv=["/bin/sh", "-c", script],
        policy={**policy(processes=100), "general": {"user": "nobody"}},
    )
    lines = result["output"].splitlines()
    assert lines[:3] == [str(nobody.pw_uid), str(nobody.pw_gid), str(nobody.pw_gid)]
    assert lines[-2:] == ["refused", str(nobody.pw_uid)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
@pytest.mark.skipif(not Path(SYSTEM_PYTHON).exists(), reason=f"there is no {SYSTEM_PYTHON} that every user can reach")
def test_daemons_of_another_user_end(inside: Inside, place: Path) -> None:
    """The reaper reaches what runs as another user."""
    result = inside(
        "kill", place=str(place), policy={**policy(), "general": {"user": "nobody"}}, grace_s=0.1, python=SYSTEM_PYTHON
    )
    assert (result["before"], result["after"]) == (4, 0)
