"""What was answered survives SIGKILL of the server and of its tool servers; `make crash N=…` tries it more often."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = 15


@pytest.mark.timeout(300)
@pytest.mark.parametrize("half", [1, 2])  # of 30 rounds, side by side
def test_what_was_answered_survives(half: int) -> None:
    """At whatever moment they are killed; the seed is printed with what went wrong."""
    seed = random.randrange(1 << 32)
    command = [sys.executable, str(Path(__file__).with_name("crash.py")), str(ROUNDS), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
