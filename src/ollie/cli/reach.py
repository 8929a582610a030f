"""Reaching the server, and starting it when it is not there."""

import os

from ninep import dial
from ninep.blocking import Connection
from ollie.cli import secret
from ollie.olliesrv.process import daemon
from ollie.protocol import broker
from ollie.protocol.words import reason

BROKER = ""
"""Stands for the connection that a tool is given by its tool server."""


class UnreachableError(Exception):
    """No server answers; the text is one line that says what to do."""


def address(given: str | None) -> str:
    """The address of the server: what was given, else in a tool the broker, else `$OLLIE_ADDRESS`, else the default."""
    if not given and broker.offered():
        return BROKER
    return given or os.environ.get("OLLIE_ADDRESS") or dial.default_address(daemon.SERVICE)


def connect(place: str) -> Connection:
    """A connection to the server at an address, attached as the present user.

    Raises:
        UnreachableError: nobody answers there, or it asks for a secret that we have not.
        NinepError: the server refuses.
    """
    try:
        if place == BROKER:
            return Connection(broker.connection(), uname=dial.user_name())
        return Connection(place, uname=dial.user_name(), secret=secret.read)
    except (broker.BrokerError, secret.SecretError) as error:
        raise UnreachableError(str(error)) from None
    except OSError as error:
        why = reason(error)
        raise UnreachableError(f"no server answers on {place}: {why}; start one with: olliesrv start") from None


def connect_or_start(place: str, tell: daemon.Tell) -> Connection:
    """A connection to the server at an address, which is started first when it is a socket where nobody answers.

    Args:
        place: the address.
        tell: is given each line that the user should see.

    Raises:
        UnreachableError: nobody answers, and it cannot be started here.
        DaemonError: it does not start.
        NinepError: it refuses.
    """
    try:
        return connect(place)
    except UnreachableError:
        if place == BROKER or not isinstance(dial.parse(place), dial.Unix):
            raise
    socket = daemon.found_by([place])
    pid = daemon.start(["--listen", str(socket)], socket, tell)
    tell(f"started olliesrv (pid {pid}); end it with: olliesrv stop")
    return connect(str(socket))
