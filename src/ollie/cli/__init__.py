"""The commands, one module each, and what each of them does first."""

import os
import sys


def complete() -> None:
    """Open each standard descriptor that is closed, or the next socket would get its number and what is printed.

    Standard input is at its end then, nothing can be written to standard output, and errors go nowhere.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY), True)
            setattr(sys, name, open(fd, "w" if fd else "r", closefd=False))  # noqa: SIM115  as long as the process
