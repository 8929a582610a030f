"""Where a tool server says what it does: a file that all of a user's servers share, and warnings on standard error."""

import logging
import sys


def log_to(path: str) -> None:
    """Send the log to a file.

    Raises:
        OSError: It cannot be written.
    """
    file = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    file.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    screen = logging.StreamHandler(sys.stderr)
    screen.setLevel(logging.WARNING)
    screen.setFormatter(_Short("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[file, screen])


class _Short(logging.Formatter):
    """`toolsrv: warning: what`; the traceback of a defect is in the file only."""

    def format(self, record: logging.LogRecord) -> str:
        return f"toolsrv: {record.levelname.lower()}: {record.getMessage()}"
