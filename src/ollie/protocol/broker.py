"""The broker descriptor: how a process of a tool reaches the name space where its sandbox lets it open no socket.

A tool inherits a socket, descriptor 3 usually, whose number is in `OLLIE_BROKER_FD`. A process of it sends a packet
there and gets one back: with a connection to olliesrv as a passed descriptor (SCM_RIGHTS, unix(7)), or with text that
says why there is none. The connection belongs to the agent whose tool it is, whoever uses it.

The processes of a tool share the socket. Every request has one answer and all answers are worth the same, so it does
not matter which of them gets which.

This side is the tool's. Command lines import it: it needs next to nothing.
"""

import _socket
import os
import sys

from ollie.protocol.words import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "OLLIE_BROKER_FD"
DESCRIPTOR = 3
"""Where a tool finds the socket."""

BINDING = "tool-of="
"""Begins the aname with which a tool server says whose a connection is from then on: `tool-of=AGENT/RUN`."""

REQUEST = b"connect"
GRANTED = b"connected"
PACKET_BYTES = 1024
"""The longest packet either way."""

_INT_BYTES = 4


class BrokerError(OSError):
    """There is no connection to be had; the text is one line that says why."""


def offered(environ: "Mapping[str, str] | None" = None) -> bool:
    """Whether this process runs in a tool that has a broker descriptor."""
    return bool((os.environ if environ is None else environ).get(VARIABLE))


def connection(environ: "Mapping[str, str] | None" = None) -> _socket.socket:
    """A new connection to olliesrv, as the agent whose tool this is.

    Raises:
        BrokerError: the descriptor is not what was inherited, or there is no server at the other end.
    """
    text = (os.environ if environ is None else environ).get(VARIABLE, "")
    sock = _inherited(text)
    try:
        sock.send(REQUEST)
        data, passed, _, _ = sock.recvmsg(PACKET_BYTES, _socket.CMSG_LEN(_INT_BYTES), _socket.MSG_CMSG_CLOEXEC)
    except OSError as error:
        raise BrokerError(f"no connection by descriptor {text}: {reason(error)}") from None
    finally:
        sock.close()
    descriptors = [
        int.from_bytes(content[:_INT_BYTES], sys.byteorder)
        for level, kind, content in passed
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
    ]
    if not descriptors:
        raise BrokerError(data.decode(errors="replace") or f"the tool server has closed descriptor {text}")
    return _socket.socket(fileno=descriptors[0])


def _inherited(text: str) -> _socket.socket:
    """The socket of that number, as a descriptor of our own."""
    if text in {"0", "1", "2"}:
        raise BrokerError(f"{VARIABLE} is {text}, a standard descriptor; pass the socket on as another one, 3 usually")
    if text.isascii() and text.isdigit():
        try:
            sock = _socket.socket(fileno=os.dup(int(text)))
        except (OSError, OverflowError):
            pass
        else:
            if (sock.family, sock.type) == (_socket.AF_UNIX, _socket.SOCK_SEQPACKET):
                return sock
            sock.close()
    raise BrokerError(
        f"{VARIABLE} is {text}, and that descriptor was not passed on to this process; "
        "start it with descriptor 3 open (pass_fds=[3] in Python's subprocess)"
    )
