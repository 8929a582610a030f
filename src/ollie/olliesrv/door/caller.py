"""The process at the other end of a TCP connection, where that end lies on this machine.

TCP says nothing about processes. The kernel knows the socket at the other end, and `/proc` shows who has it among its
descriptors. A socket can be held without being seen: by a process that we may not look into, in a message that is on
its way between two, by a mapping. So a process that is seen tells something, and that none is seen tells nothing.
"""

import os

from ollie.olliesrv.door.ancestry import ancestry
from ollie.olliesrv.door.identity import Caller, Facts
from ollie.olliesrv.door.netlink import Place, TcpSocket, is_local, tcp_socket
from ollie.olliesrv.process import procfs
from ollie.olliesrv.process.procfs import Process


def caller(theirs: Place, ours: Place, server: Process, hosts: tuple[Process, ...]) -> Caller:
    """What is known about who called. It looks at every process of the machine, which takes some milliseconds.

    Args:
        theirs: the name of their end of the connection.
        ours: the name of our end.
        server: our own process.
        hosts: our toolsrv processes.

    Raises:
        OSError: the kernel cannot be asked.
    """
    found = tcp_socket(theirs, ours)
    return Caller(
        local=found is not None or is_local(theirs.address),
        uid=found.uid if found is not None and found.inode else None,
        holders=_holders(found, server, hosts) if found is not None and found.inode else (),
        server_uid=os.getuid(),
    )


def _holders(sock: TcpSocket, server: Process, hosts: tuple[Process, ...]) -> tuple[Facts, ...]:
    """What is known about each process that is seen with the socket."""
    our_bit = bool(procfs.no_new_privs("self"))
    found = []
    for pid in procfs.ids():
        before = procfs.process(pid)
        if before is None or not procfs.holds(pid, sock.inode):
            continue
        bit = procfs.no_new_privs(pid)
        chain = ancestry(pid)
        # What was read under this id is one process's only if it still is the one that it was before.
        known = chain is not None and chain[0].same(before)
        found.append(Facts(chain if known else None, sock.uid, bit, server, os.getuid(), our_bit, hosts))
    return tuple(found)
