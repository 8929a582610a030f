"""`proc/{pid}/ctl`: ends a run, or takes it out of the table.

term         SIGTERM to its processes
kill         end it with everything it started, at once
signal N     send signal number N
dismiss      forget it; only when it has exited
"""

import signal

from ninep.errors import NinepError
from ninep.tree import Peer
from ollie.toolsrv.runs import Run


async def command(run: Run, _peer: Peer, text: str) -> str:
    """Run one command; nothing is answered. After `kill` nothing of the run is alive.

    Raises:
        NinepError: `process N has exited`, `process N has not exited`, `not a signal: …`, or `not a command: …`.
    """
    match text.split():
        case ["term"]:
            run.signal(signal.SIGTERM)
        case ["kill"]:
            await run.kill()
        case ["signal", number]:
            run.signal(_signal(number))
        case ["dismiss"]:
            run.dismiss()
        case _:
            raise NinepError(f"not a command: {text} (term, kill, signal N, dismiss)")
    return ""


def _signal(number: str) -> int:
    """A number that is a signal on this host."""
    if number.isascii() and number.isdigit() and int(number) in set(signal.valid_signals()):
        return int(number)
    raise NinepError(f"not a signal: {number}")
