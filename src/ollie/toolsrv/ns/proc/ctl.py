"""`proc/{pid}/ctl`: ends a run, or takes it out of the table. Nothing is answered."""

import signal

from ninep.errors import NinepError
from ninep.files import Command, done
from ninep.tree import Peer
from ollie.toolsrv.runs import Run


def _term(run: Run, _peer: Peer, _argument: str) -> str:
    run.signal(signal.SIGTERM)
    return ""


def _signal(run: Run, _peer: Peer, number: str) -> str:
    if not (number.isascii() and number.isdigit() and int(number) in set(signal.valid_signals())):
        raise NinepError(f"not a signal: {number}")
    run.signal(int(number))
    return ""


def _dismiss(run: Run, _peer: Peer, _argument: str) -> str:
    run.dismiss()
    return ""


COMMANDS: tuple[Command[Run], ...] = (
    Command("term", "", "send SIGTERM to its processes", _term),
    Command("kill", "", "end it with everything it started, at once", lambda run, _peer, _: done(run.kill())),
    Command("signal", "N", "send signal number N", _signal),
    Command("dismiss", "", "forget it; only when it has exited", _dismiss),
)
