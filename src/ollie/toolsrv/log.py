"""Where a tool server says what it does: a file that all of a user's servers share, and warnings on standard error."""

import contextlib
import logging
import sys
from pathlib import Path

ROTATE_BYTES = 8 * 1024 * 1024


def log_to(directory: Path) -> Path:
    """Send the log to `toolsrv.log` in the directory, made when missing; the path.

    Raises:
        OSError: It cannot be written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / "toolsrv.log"
    # Two servers that start at once may both want to turn it over; one of them finds it done.
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > ROTATE_BYTES:
            path.replace(directory / "toolsrv.log.1")
    file = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    file.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    screen = logging.StreamHandler(sys.stderr)
    screen.setLevel(logging.WARNING)
    screen.setFormatter(_Short("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[file, screen])
    return path


class _Short(logging.Formatter):
    """`toolsrv: warning: what`; the traceback of a defect is in the file only."""

    def format(self, record: logging.LogRecord) -> str:
        return f"toolsrv: {record.levelname.lower()}: {record.getMessage()}"
