"""What the kernel says about the other end of a TCP connection, asked over netlink(7).

Two questions: whether an address is one of this machine's, and which socket of this machine is at the other end. Both
are answered by the kernel alone, exactly and without privileges.
"""

import errno
import os
import socket
import struct
from dataclasses import dataclass

_NETLINK_SOCK_DIAG = 4  # sock_diag(7)
_SOCK_DIAG_BY_FAMILY = 20
_RTM_GETROUTE, _RTM_NEWROUTE = 26, 24  # rtnetlink(7)
_RTA_DST = 1
_RTN_LOCAL = 2
_NLM_F_REQUEST = 1
_NLMSG_ERROR = 2
_ANSWER_BYTES = 16 * 1024
_ANY32 = 0xFFFFFFFF
_TCP_LISTEN = 10

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_ERROR = struct.Struct("=i")
_DIAG_REQUEST = struct.Struct("=BBBxI")  # inet_diag_req_v2 before its id: family, protocol, extensions, states
_PORTS = struct.Struct(">HH")
_DIAG_REST = struct.Struct("=III")  # of inet_diag_sockid: interface, cookie
_DIAG_ANSWER = struct.Struct("=BB2x4s16s16s12x12xII")  # inet_diag_msg: family, state, ports, addresses, uid, inode
_ROUTE = struct.Struct("=8BI")  # rtmsg: family, length of destination, … type, flags
_ROUTE_TYPE_AT = 7
_ATTRIBUTE = struct.Struct("=HH")

_MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address, written as one of IPv6


@dataclass(frozen=True)
class Place:
    """An address and a port of TCP, in one form each.

    Args:
        address: 4 bytes, or 16 of an IPv6 address that stands for no IPv4 one.
        port: 0 to 65535.
    """

    address: bytes
    port: int

    @property
    def family(self) -> int:
        """AF_INET or AF_INET6."""
        return socket.AF_INET if len(self.address) == 4 else socket.AF_INET6


@dataclass(frozen=True)
class TcpSocket:
    """A socket of this machine.

    Args:
        uid: the user who made it.
        inode: its number among the descriptors of processes; 0 when no process holds it any more.
    """

    uid: int
    inode: int


def place(family: int, name: tuple[str, int]) -> Place:
    """What `getpeername` and `getsockname` of a TCP socket give, beginning with address and port."""
    text, _, _scope = name[0].partition("%")
    return Place(_unmapped(socket.inet_pton(family, text)), name[1])


def is_local(address: bytes) -> bool:
    """Whether packets to this address stay on this machine.

    Raises:
        OSError: the kernel cannot be asked.
    """
    destination = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(address), _RTA_DST) + address
    family = Place(address, 0).family
    request = _ROUTE.pack(family, 8 * len(address), 0, 0, 0, 0, 0, 0, 0) + destination
    try:
        kind, answer = _ask(socket.NETLINK_ROUTE, _RTM_GETROUTE, request)
    except OSError as error:
        if error.errno in {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EINVAL}:
            return False  # no route at all, or one that says unreachable, prohibit or blackhole
        raise
    return kind == _RTM_NEWROUTE and answer[_ROUTE_TYPE_AT] == _RTN_LOCAL


def tcp_socket(near: Place, far: Place) -> TcpSocket | None:
    """The socket of this machine with the name `near` that is connected to `far`, or None where there is none.

    Raises:
        OSError: the kernel cannot be asked.
    """
    names = _PORTS.pack(near.port, far.port) + near.address.ljust(16, b"\0") + far.address.ljust(16, b"\0")
    request = (
        _DIAG_REQUEST.pack(near.family, socket.IPPROTO_TCP, 0, _ANY32) + names + _DIAG_REST.pack(0, _ANY32, _ANY32)
    )
    try:
        _, answer = _ask(_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, request)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    family, state, ports, its_address, peer_address, uid, inode = _DIAG_ANSWER.unpack_from(answer)
    size = 4 if family == socket.AF_INET else 16
    its = Place(_unmapped(its_address[:size]), _PORTS.unpack(ports)[0])
    peer = Place(_unmapped(peer_address[:size]), _PORTS.unpack(ports)[1])
    # Where no connection has these names the kernel answers with a listener at the first of them.
    if state == _TCP_LISTEN or (its, peer) != (near, far):
        return None
    return TcpSocket(uid, inode)


def _unmapped(address: bytes) -> bytes:
    return address.removeprefix(_MAPPED) if len(address) == 16 else address


def _ask(protocol: int, kind: int, body: bytes) -> tuple[int, bytes]:
    """The type and the body of the answer to one request; OSError when it is an error."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as asked:
        asked.sendto(_HEADER.pack(_HEADER.size + len(body), kind, _NLM_F_REQUEST, 1, 0) + body, (0, 0))
        answer = asked.recv(_ANSWER_BYTES)
    _, got, _, _, _ = _HEADER.unpack_from(answer)
    body = answer[_HEADER.size :]
    if got == _NLMSG_ERROR:
        number = -_ERROR.unpack_from(body)[0]
        raise OSError(number, os.strerror(number))
    return got, body
