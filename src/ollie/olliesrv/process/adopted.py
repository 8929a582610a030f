"""Processes that the server inherits, and ends its care for.

The server is a child subreaper: a process whose toolsrv has gone is given to it and not to init, so that identity can
still tell where it came from. When such a process exits, nobody waits for it. The children that the server started
itself are waited for at once by whoever started them; a child that is still a zombie some seconds after its end is an
inherited one, and is collected here.
"""

import asyncio
import contextlib
import os
import signal

from ollie.olliesrv.process.procfs import is_zombie
from ollie.sandbox.processes import children

_PATIENCE_S = 5.0


class Adopted:
    """Collects inherited processes once they are zombies that nobody else waits for.

    Args:
        patience_s: how long a zombie may still be somebody else's to wait for.
    """

    def __init__(self, patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._seen: frozenset[int] = frozenset()
        self._timer: asyncio.TimerHandle | None = None
        self.collected = 0

    def start(self) -> None:
        """Begin to look, each time a child has changed its state; in the running loop."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._wake)

    def close(self) -> None:
        """Look no more."""
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
        if self._timer:
            self._timer.cancel()

    def _wake(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._patience_s, self._look)

    def _look(self) -> None:
        """Collect what was a zombie at the last look, too, and come again while there are others."""
        self._timer = None
        for pid in self._seen:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self.collected += 1
        self._seen = frozenset(pid for pid in children(os.getpid()) if is_zombie(pid))
        if self._seen:
            self._wake()
