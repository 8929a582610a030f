"""The chain of parents of a process, from itself up to init, read so that it can be relied on.

`/proc` gives one process at a time, and between two reads a parent can exit and its id be used again. The chain is
therefore read twice. A process names its parent only while that parent lives (it is given to a reaper in the moment
the parent dies), so when the second reading finds the same ids with the same start times, the whole chain was true
at one moment between the two.
"""

from collections.abc import Callable

from ollie.olliesrv.process.procfs import Process, process

_DEPTH_MAX = 4096
_TRIES = 4


def ancestry(pid: int, look: Callable[[int], Process | None] = process) -> tuple[Process, ...] | None:
    """The process and its ancestors, itself first, init last; None when that cannot be told for certain.

    Args:
        pid: the process to begin with.
        look: how a process is read.
    """
    for _ in range(_TRIES):
        chain = _climb(pid, look)
        if chain is None:
            return None
        if _climb(pid, look) == chain:
            return chain
    return None


def _climb(pid: int, look: Callable[[int], Process | None]) -> tuple[Process, ...] | None:
    chain: list[Process] = []
    while pid > 0:
        step = look(pid)
        if step is None or len(chain) == _DEPTH_MAX:
            return None
        if chain and step.start > chain[-1].start:
            return None  # a parent is never younger than its child: this id was used again
        chain.append(step)
        pid = step.parent
    return tuple(chain)
