"""`proc/{pid}/stat`: the state of a run.

A `key=value` line each for pid state tool command agent session exit started_at runtime_s output_bytes
rss_bytes processes, values escaped as in a payload. `exit` is empty until it has exited; what it uses is counted over
all of its processes.
"""

from ninep.tree import Peer
from ollie.protocol import payload
from ollie.toolsrv.runs import Run


def render(run: Run, _peer: Peer) -> bytes:
    """The lines of `stat`."""
    usage = run.process.usage() if run.process is not None else None
    return payload.format(
        {
            "pid": str(run.number),
            "state": run.state,
            "tool": run.task.tool,
            "command": run.task.command,
            "agent": run.task.agent,
            "session": run.task.session,
            "exit": "" if run.ended_at is None else str(run.exit_code),
            "started_at": f"{run.started_at:.3f}",
            "runtime_s": f"{run.runtime_s:.3f}",
            "output_bytes": str(run.output.length),
            "rss_bytes": str(usage.rss_bytes if usage else 0),
            "processes": str(usage.processes if usage else 0),
        }
    )
