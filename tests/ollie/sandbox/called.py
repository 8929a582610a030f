"""Functions that the tests have called in the launcher's restricted child."""
# ruff: noqa: T201 - what a program prints

import json
import os
import sys
from pathlib import Path


def echo() -> int:
    """Say what came in, and where this runs."""
    arguments = json.load(sys.stdin)
    print(arguments["text"], str(Path.cwd()), sorted(os.environ), sys.argv)
    return int(arguments.get("status", 0))


def raw() -> None:
    """Bytes that are no text, to both streams."""
    sys.stdout.buffer.write(b"\xff\x00")
    sys.stderr.write("warned")


def fail() -> None:
    """Raise."""
    raise ValueError("something is wrong")


def leave() -> None:
    """Leave as programs do."""
    sys.exit("left")


def read_secret() -> None:
    """Try to read outside of the policy."""
    print(Path(json.load(sys.stdin)["path"]).read_text())


def import_late() -> None:
    """Import a module of the standard library that nothing has imported yet."""
    import wave

    print(wave.__name__, Path(__file__).name)


def daemon() -> None:
    """Leave a process behind."""
    if os.fork() == 0:
        os.setsid()
        sys.stdin.read()
        os.execv("/bin/sleep", ["sleep", "1000"])
