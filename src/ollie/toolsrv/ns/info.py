"""`info`: the host, and what its kernel can enforce.

A `key=value` line each for platform arch version landlock_abi seccomp userns yolo.
"""

import os

from ninep.tree import Peer
from ollie.protocol import payload
from ollie.toolsrv.server import Toolsrv


def render(toolsrv: Toolsrv, _peer: Peer) -> bytes:
    """The lines."""
    from importlib import metadata  # noqa: PLC0415  3 MB that a server needs only when it is asked

    host = os.uname()
    facts = {
        "platform": host.sysname.lower(),
        "arch": host.machine,
        "version": metadata.version("ollie"),
        "landlock_abi": toolsrv.probe.abi,
        "seccomp": toolsrv.probe.seccomp,
        "userns": toolsrv.probe.userns,
        "yolo": toolsrv.settings.yolo,
    }
    return payload.format({key: _value(value) for key, value in facts.items()})


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
