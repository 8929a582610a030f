"""Background runs that have ended and that nobody has acknowledged yet, kept until somebody does.

Each is a small file, so that neither the end of this server nor of the one that reads it loses a message: whoever reads
acknowledges when it has the message for good, and may be given it again until then. A number names a run once in the
life of a session; with the id of this life of the server that makes a key under which a message is taken once.

A run is noted when it starts. What is noted and was never ended is found at the next start: its server was killed, and
the run with it.
"""

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from ninep.bell import Bell
from ninep.errors import NinepError
from ninep.files import Watcher
from ninep.tree import Peer
from ollie.protocol.words import reason
from ollie.toolsrv.json_line import json_line
from ollie.toolsrv.runs import Run
from ollie.toolsrv.sight import sees

_log = logging.getLogger(__name__)

KEPT = 1000
"""How many wait at most; the oldest go first."""

_KILLED = 137
_LOST = "[the tool server ended, and this run with it]"

Record = Mapping[str, object]


class Done:
    """The ended runs of one server that wait to be acknowledged.

    Args:
        directory: where they are kept; made when missing.
        boot: names this life of the server.
    """

    def __init__(self, directory: Path, boot: str) -> None:
        self._directory = directory
        self._boot = boot
        self._bell = Bell()
        directory.mkdir(mode=0o700, exist_ok=True)
        self._records: dict[int, Record] = {}
        for pid in sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit()):
            with contextlib.suppress(OSError, ValueError):
                found = json.loads((directory / str(pid)).read_bytes())
                self._records[pid] = found if "exit" in found else {**found, "exit": _KILLED, "output": _LOST}

    def started(self, run: Run) -> None:
        """A background run begins."""
        self._write(run.number, self._about(run))

    def ended(self, run: Run, output: str) -> None:
        """It is over.

        Args:
            run: has exited.
            output: what a model is told of what it printed.
        """
        record = {**self._about(run), "exit": run.exit_code, "output": output}
        self._write(run.number, record)
        self._records[run.number] = record
        for pid in list(self._records)[:-KEPT]:
            _log.warning("nobody was told that run %d has ended", pid)
            self._forget(pid)
        self._bell.ring()

    def never(self, run: Run) -> None:
        """It did not start, and whoever asked knows."""
        self._forget(run.number)

    def waiting(self, peer: Peer) -> list[Record]:
        """Those that the peer sees, oldest first."""
        return [record for _, record in sorted(self._records.items()) if sees(peer, str(record["agent"]))]

    def acknowledge(self, peer: Peer, data: bytes) -> None:
        """Forget one: somebody has its message for good.

        Args:
            peer: who says so.
            data: its pid in decimal; a newline may follow.

        Raises:
            NinepError: `not a process: …`, or `no ended process N waits`.
        """
        text = data.decode(errors="replace").strip()
        if not (text.isascii() and text.isdigit()):
            raise NinepError(f"not a process: {text}")
        record = self._records.get(int(text))
        if record is None or not sees(peer, str(record["agent"])):
            raise NinepError(f"no ended process {text} waits")
        self._forget(int(text))

    def drop(self, agent: str) -> list[int]:
        """Forget those of an agent that is gone: nobody is to be told. Their pids, oldest first."""
        dropped = [pid for pid, record in sorted(self._records.items()) if record["agent"] == agent]
        for pid in dropped:
            self._forget(pid)
        return dropped

    def watch(self, peer: Peer) -> "DoneWatcher":
        """Everything that waits, then what ends."""
        return DoneWatcher(self, peer)

    async def beyond(self, given: set[int], peer: Peer) -> tuple[int, Record]:
        """The oldest that was not given yet, waited for."""
        while True:
            for record in self.waiting(peer):
                pid = record["pid"]
                assert isinstance(pid, int)
                if pid not in given:
                    return pid, record
            await self._bell.wait()

    def _about(self, run: Run) -> Record:
        task = run.task
        return {
            "boot": self._boot,
            "pid": run.number,
            "agent": task.agent,
            "session": task.session,
            "tool": task.tool,
            "cmd": task.command,
        }

    def _write(self, pid: int, record: Record) -> None:
        """Replace a file in one step; without it the message is lost only when this server is killed."""
        path = self._directory / str(pid)
        try:
            path.with_suffix(".new").write_bytes(json_line(record))
            path.with_suffix(".new").replace(path)
        except OSError as error:
            _log.warning("cannot note run %d in %s: %s", pid, path, reason(error))

    def _forget(self, pid: int) -> None:
        self._records.pop(pid, None)
        with contextlib.suppress(OSError):
            (self._directory / str(pid)).unlink(missing_ok=True)


class DoneWatcher(Watcher):
    """One fid's view: each ended run once."""

    def __init__(self, done: Done, peer: Peer) -> None:
        self._done, self._peer = done, peer
        self._given: set[int] = set()

    async def next(self) -> bytes:
        """The next one, a JSON object and a newline."""
        pid, record = await self._done.beyond(self._given, self._peer)
        self._given.add(pid)
        return json_line(record)


def new_boot() -> str:
    """A name for this life of a server."""
    return os.urandom(8).hex()
