"""A Python function as the program of a run: no new interpreter is started for it.

The function runs in the restricted child, with the standard streams of the run. What it returns is the exit status: an
int, or None for 0; SystemExit means what it means in a program.
"""

import gc
import importlib
import io
import os
import sys
from collections.abc import Mapping
from typing import NoReturn


def run(name: str, argv: tuple[str, ...], env: Mapping[str, str]) -> NoReturn:
    """Call `module:function` and end the process with its status. A module that was preloaded is imported already."""
    status = 1
    try:
        _become(name, argv, env)
        status = _call(name)
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:  # nobody reads it any more
            status = status or 1
        os._exit(status)


def _become(name: str, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Take over the streams and the environment of the run, as an interpreter does when it starts."""
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8", errors="surrogateescape")
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8", errors="surrogateescape"
    )
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8", errors="backslashreplace")
    sys.argv = list(argv) or [name]
    gc.enable()  # the launcher has none to run
    os.environ.clear()
    os.environ.update(env)
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined] # its answer for the launcher's environment


def _call(name: str) -> int:
    module, _, function = name.partition(":")
    try:
        return int(getattr(importlib.import_module(module), function)() or 0)
    except SystemExit as leaving:
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)  # noqa: T201  what an interpreter does with it
            return 1
        return leaving.code or 0
    except BaseException as error:  # noqa: BLE001  the boundary: whatever it is becomes one line and a status
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201  a tool prints
        return 1
