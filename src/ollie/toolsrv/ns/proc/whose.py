"""`proc/whose`: the run that a process of the host belongs to.

The id of a process is written, then `pid<tab>agent` is read: the run that started it or one of its ancestors, and whose
run that is.
"""

from ninep.errors import NinepError
from ninep.tree import Peer
from ollie.toolsrv.runs import State
from ollie.toolsrv.server import Toolsrv


async def command(toolsrv: Toolsrv, _peer: Peer, text: str) -> str:
    """The run of the process.

    Raises:
        NinepError: `not a process: …`, or `no run has process N`.
    """
    pid = text.strip()
    if not (pid.isascii() and pid.isdigit()):
        raise NinepError(f"not a process: {pid}")
    run = toolsrv.runs.owner(int(pid))
    if run is None:
        # A tool may be asked about before the launcher has told us that it runs.
        for starting in [run for run in toolsrv.runs if run.process is None and run.state is not State.EXITED]:
            await starting.started()
        run = toolsrv.runs.owner(int(pid))
    if run is None:
        raise NinepError(f"no run has process {pid}")
    return f"{run.number}\t{run.task.agent}\n"
