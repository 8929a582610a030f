"""Standard output of the commands that use `print`: what cannot be written there is told, once, by a line."""

import errno
import os
import sys
from collections.abc import Callable

from ollie.cli import complete
from ollie.protocol.words import reason


class OutputError(Exception):
    """Nothing can be written to standard output; the text is one line that says why."""


def guarded(program: str, command: Callable[[], int]) -> int:
    """Run a command, with all of what it prints written at its end; its exit status, 1 when that was not possible."""
    complete()
    try:
        try:
            return command()
        finally:
            say("")  # argparse and others leave theirs in the buffer
    except OutputError as error:
        sys.stderr.write(f"{program}: {error}\n")
    except BrokenPipeError:
        _give_up()  # whoever read it has gone
    return 1


def writable() -> None:
    """Make sure that there is a standard output, before something is done whose result would be lost.

    Raises:
        OutputError: `standard output is closed`.
    """
    try:
        os.write(1, b"")
    except OSError as error:
        raise _failure(error) from None


def say(text: str) -> None:
    """Print it now.

    Raises:
        OutputError: it cannot be written.
        BrokenPipeError: nobody reads it any more.
    """
    try:
        sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _give_up()
        raise _failure(error) from None


def _failure(error: OSError) -> OutputError:
    return OutputError(f"standard output{' is closed' if error.errno == errno.EBADF else f': {reason(error)}'}")


def _give_up() -> None:
    """Nothing more can be written there, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
