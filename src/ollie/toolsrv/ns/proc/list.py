"""`proc/list`: `pid<tab>state<tab>tool`, a line for each run.

A write of an agent's id makes the next read give that agent's runs only.
"""

from collections.abc import Iterable

from ninep.tree import Peer
from ollie.toolsrv.runs import Run
from ollie.toolsrv.server import Toolsrv


def command(toolsrv: Toolsrv, peer: Peer, text: str) -> str:
    """The runs of the agent whose id was written."""
    agent = text.strip()
    return _table(run for run in toolsrv.visible(peer) if run.task.agent == agent)


def text(toolsrv: Toolsrv, peer: Peer) -> bytes:
    """Every run that the peer sees."""
    return _table(toolsrv.visible(peer)).encode()


def _table(runs: Iterable[Run]) -> str:
    return "".join(f"{run.number}\t{run.state}\t{run.task.tool}\n" for run in runs)
