"""`proc/{pid}/wait`: the end of a run."""

from ninep.tree import Peer
from ollie.toolsrv.runs import Run


async def wait(run: Run, _peer: Peer) -> bytes:
    """The exit code and a newline, once it has exited."""
    await run.ended()
    return b"%d\n" % run.exit_code
