"""Where a tool server says what it does: a file that all of a user's servers share, and warnings on standard error."""

import logging
import os
import sys


def log_to(path: str) -> None:
    """Send the log to a file, which only its owner may read.

    Raises:
        OSError: It cannot be written.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    file = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    file.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    screen = logging.StreamHandler(sys.stderr)
    screen.setLevel(logging.WARNING)
    screen.setFormatter(_Short("%(message)s"))
    # Nothing of this is in the format, and it is half of what a line costs.
    logging._srcfile = None  # noqa: SLF001  the way that the manual of logging gives
    logging.logThreads = logging.logMultiprocessing = False
    logging.basicConfig(level=logging.INFO, handlers=[file, screen])


class _Short(logging.Formatter):
    """`toolsrv: warning: what`; the traceback of a defect is in the file only."""

    def format(self, record: logging.LogRecord) -> str:
        return f"toolsrv: {record.levelname.lower()}: {record.getMessage()}"
