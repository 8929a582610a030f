"""Mount a 9P tree through the kernel's FUSE, on asyncio and the standard library alone.

`Mount.start` does everything. Reads and writes go straight to the server, nothing is cached, blocked reads in any
number wait side by side, and an interrupted one becomes Tflush.
"""

from ninep.fuse.callers import Caller, Judge, outside_of, same_user
from ninep.fuse.mount import Mount
from ninep.fuse.mounting import MountError, resolve, source_of, unmount

__all__ = ["Caller", "Judge", "Mount", "MountError", "outside_of", "resolve", "same_user", "source_of", "unmount"]
