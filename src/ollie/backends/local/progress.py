"""How far a download is: a bar on a terminal, a line every tenth elsewhere."""

import time
from typing import TextIO

_WIDTH = 30
_REDRAW_S = 0.1


class Progress:
    """Tells `out` about a download of `total` bytes, called `what`; close it with `done`."""

    def __init__(self, what: str, total: int, out: TextIO) -> None:
        self._what = what
        self._total = total
        self._out = out
        self._bar = out.isatty()
        self._drawn_at = 0.0
        self._tenth = -1

    def say(self, text: str) -> None:
        """A line of its own."""
        self._out.write(f"\r\x1b[K{text}\n" if self._bar else f"{text}\n")
        self._out.flush()

    def at(self, done: int) -> None:
        """So many bytes are there; cheap enough for every piece."""
        if self._bar:
            if time.monotonic() - self._drawn_at >= _REDRAW_S or done >= self._total:
                self._drawn_at = time.monotonic()
                filled = _WIDTH * done // self._total
                self._out.write(f"\r\x1b[K{self._what} [{'#' * filled:<{_WIDTH}}] {self._figures(done)}")
                self._out.flush()
        elif (tenth := 10 * done // self._total) != self._tenth:
            self._tenth = tenth
            self.say(f"{self._what}: {self._figures(done)}")

    def done(self) -> None:
        """End the bar's line."""
        if self._bar:
            self._out.write("\n")
            self._out.flush()

    def _figures(self, done: int) -> str:
        return f"{100 * done // self._total} %, {done / 1e6:.0f} of {self._total / 1e6:.0f} MB"
