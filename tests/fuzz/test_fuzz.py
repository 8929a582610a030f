"""A short run of the fuzzer; `make fuzz` is the long one."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = 3000


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris cannot be installed on this machine")
def test_bytes_to_a_server(tmp_path: Path) -> None:
    """The seeds and some thousand inputs made of them keep every rule; it ends with the count of runs."""
    fuzzer = Path(__file__).parent / "session.py"
    command = [sys.executable, str(fuzzer), f"-runs={RUNS}", str(tmp_path / "corpus")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Done {RUNS} runs" in done.stderr
