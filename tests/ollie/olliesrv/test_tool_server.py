"""Runs what needs a real tool server in a PID namespace of its own: a reaper reaches nothing outside of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--pid", "--fork", "--mount-proc"]
_INSIDE = Path(__file__).with_name("inside_tool_server.py")


@pytest.mark.timeout(180)
def test_agents_use_real_tools() -> None:
    """Every test of `inside_tool_server.py` passes there."""
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
        str(_INSIDE),
    ]
    done = subprocess.run([*_NAMESPACE, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
