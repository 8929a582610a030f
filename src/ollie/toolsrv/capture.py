"""A pipe from a process into an output.

It is drained at all times, whatever becomes of the data: a program never blocks on output that nobody keeps. The end of
a capture is the end of its process, not of the pipe, since a child may hold the pipe open for as long as it likes.
"""

import asyncio
import fcntl
import os
from typing import Self

from ollie.toolsrv.output import Output

_CHUNK_BYTES = 64 * 1024
# How much is taken in one go before other work of the loop gets its turn.
_TURN_CHUNKS = 4


class Capture:
    """A new pipe whose content is appended to `output` by the running loop.

    A context manager: at its end what the pipe still holds is taken, and the pipe is closed.

    Attributes:
        write: The descriptor to give to the process; `started` closes it here. -1 when closed.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._read, self.write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._read, self._readable)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.started()
        # No more than fits into the pipe, for whoever still writes may never stop.
        left = fcntl.fcntl(self._read, fcntl.F_GETPIPE_SZ)
        while left > 0 and (data := self._take()):
            self._output.append(data)
            left -= len(data)
        self._loop.remove_reader(self._read)
        os.close(self._read)

    def started(self) -> None:
        """The process has its end of the pipe: close ours, so that the pipe can end."""
        if self.write >= 0:
            os.close(self.write)
            self.write = -1

    def _readable(self) -> None:
        for _ in range(_TURN_CHUNKS):
            data = self._take()
            if data is None:
                return
            if not data:
                self._loop.remove_reader(self._read)
                return
            self._output.append(data)

    def _take(self) -> bytes | None:
        """What is in the pipe: some bytes, none at its end, None when it is empty."""
        try:
            return os.read(self._read, _CHUNK_BYTES)
        except BlockingIOError:
            return None
