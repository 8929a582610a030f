"""Runs what needs a real tool server in a PID namespace of its own: a reaper reaches nothing outside of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--pid", "--fork", "--mount-proc"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["inside_tool_server.py", "inside_background.py"])
def test_agents_use_real_tools(name: str) -> None:
    """Every test of that file passes there."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--timeout=45",
        str(Path(__file__).with_name(name)),
    ]
    done = subprocess.run([*_NAMESPACE, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
