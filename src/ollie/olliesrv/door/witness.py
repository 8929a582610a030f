"""The process at the other end of a unix socket, held still while it is judged.

The kernel remembers who called connect(2). With `SO_PEERPIDFD` (Linux 6.5) it hands out a pidfd of that very process,
so that its id cannot be used again unnoticed. Without it there is only the id: what is read counts when the process
has the same start time afterwards, and started before the connection was accepted.
"""

import errno
import os
import socket
import struct
from typing import Self

from ollie.olliesrv.door.ancestry import ancestry
from ollie.olliesrv.door.identity import Facts
from ollie.olliesrv.process import procfs
from ollie.olliesrv.process.procfs import Process

_SO_PEERPIDFD = 77  # not in the socket module before Python 3.14
_UCRED = struct.Struct("iII")  # pid, uid, gid: unix(7)


class Witness:
    """The process that connected, from the accepted socket.

    Args:
        sock: a connected unix stream socket.
        accepted_ticks: when the connection was accepted, in clock ticks since boot (`ticks`).
        pidfd: whether to ask for a pidfd; False is how a kernel without it behaves.
    """

    def __init__(self, sock: socket.socket, accepted_ticks: int, *, pidfd: bool = True) -> None:
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        self.pid: int
        self.uid: int
        self.pid, self.uid, _ = _UCRED.unpack(credentials)
        self._accepted_ticks = accepted_ticks
        self._pidfd = _peer_pidfd(sock) if pidfd else None
        self._first = procfs.process(self.pid) if self.pid > 0 else None

    def present(self) -> bool:
        """Whether the id still is that of the process that connected: what was read of it before this call is true."""
        if self._first is None:
            return False
        if self._pidfd is not None:
            return procfs.pidfd_pid(self._pidfd) == self.pid
        now = procfs.process(self.pid)
        return now is not None and now.same(self._first) and now.start <= self._accepted_ticks

    def facts(self, server: Process, hosts: tuple[Process, ...]) -> Facts:
        """What is known of the process, beside what is known of us.

        Args:
            server: our own process.
            hosts: our toolsrv processes.
        """
        chain = ancestry(self.pid) if self._first else None
        bit = procfs.no_new_privs(self.pid)
        return Facts(
            chain=chain if self.present() else None,
            uid=self.uid,
            no_new_privs=bit,
            server=server,
            server_uid=os.getuid(),
            server_no_new_privs=bool(procfs.no_new_privs("self")),
            hosts=hosts,
        )

    def close(self) -> None:
        """Let the process go; a second call does nothing."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        self._first = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ticks(boottime_s: float) -> int:
    """A time of CLOCK_BOOTTIME in clock ticks, the unit of a process's start time."""
    return int(boottime_s * os.sysconf("SC_CLK_TCK"))


def _peer_pidfd(sock: socket.socket) -> int | None:
    """A pidfd of the peer, None where the kernel has no such option."""
    try:
        value = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4)
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            return None
        raise
    return int(struct.unpack("i", value)[0])
