"""Letting clients in: what Tauth and Tattach mean to olliesrv.

A client on a unix socket is judged by its process (`identity.py`) and needs no secret. A client on TCP proves the
secret, and is then the owner; without it, it is refused, or with `--no-auth` let in with the rights of the group. A
tool is refused on TCP in every case, and so is who might be one.

A connection may also be made by one of our toolsrv processes for a tool that cannot make it (`protocol/broker.py`).
Such a process attaches first and says whose the connection is to be. From then on it is that agent's, and nothing that
is said on it, by whoever holds it, makes it another's.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from ninep import dial
from ninep.errors import (
    AUTHENTICATION_FAILED,
    AUTHENTICATION_UNFINISHED,
    NO_AUTHENTICATION,
    NinepError,
)
from ninep.server import AfidConversation, Conn
from ninep.tree import Role
from ollie.olliesrv.door.caller import caller
from ollie.olliesrv.door.connections import EXHAUSTED, Connections
from ollie.olliesrv.door.identity import Judgement, Verdict, judge, judge_caller
from ollie.olliesrv.door.netlink import place
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.door.witness import Witness, ticks
from ollie.olliesrv.errors import denied
from ollie.olliesrv.process import procfs, secret
from ollie.olliesrv.process.procfs import Process
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.toolserver.toolserver import ToolServer
from ollie.protocol.broker import BINDING
from ollie.sandbox import open_files

if TYPE_CHECKING:
    from ollie.olliesrv.server import Ollie

_log = logging.getLogger(__name__)
_BOUND = "agent"  # of the state of a connection: the id of the agent that it belongs to for good


class Proof:
    """The conversation on an auth file: the client writes the secret.

    Args:
        expected: the secret.
        failed: called when it was another one.
    """

    def __init__(self, expected: bytes, failed: Callable[[], None]) -> None:
        self._expected = expected
        self._failed = failed
        self.done = False

    async def write(self, data: bytes) -> None:
        """Check what the client offers."""
        if not secret.same(self._expected, data):
            self._failed()
            raise NinepError(AUTHENTICATION_FAILED)
        self.done = True

    async def read(self, count: int) -> bytes:  # noqa: ARG002 - nothing is given
        """There is nothing to tell the client but that it is done."""
        if not self.done:
            raise NinepError(AUTHENTICATION_UNFINISHED)
        return b""


class Door:
    """Who is let in.

    Args:
        ollie: whose agents a client may belong to.
        tcp_secret: what a TCP client has to prove; None lets it in with the rights of the group.
    """

    def __init__(self, ollie: "Ollie", tcp_secret: bytes | None) -> None:
        self._ollie = ollie
        self._tcp_secret = tcp_secret
        self._connections = Connections(ollie.config.max_connections, ollie.config.max_run_connections)

    async def begin(self, conn: Conn, uname: str, aname: str) -> AfidConversation:  # noqa: ARG002 - one secret for all
        """Tauth: begin to prove the secret, where one is wanted."""
        if isinstance(conn.listener, dial.Tcp) and self._tcp_secret is not None:
            return Proof(self._tcp_secret, lambda: self._ollie.listener.say("a TCP client offered a wrong secret"))
        raise NinepError(NO_AUTHENTICATION)

    async def attach(self, conn: Conn, uname: str, aname: str, auth: AfidConversation | None) -> OlliePeer:
        """Tattach: who the client is.

        Raises:
            NinepError: `permission denied`.
        """
        if isinstance(conn.listener, dial.Unix):
            return await self._unix(conn, uname, aname)
        if isinstance(conn.listener, dial.Tcp):
            if self._tcp_secret is None:
                return await self._tcp(conn, uname, aname, Role.GROUP)
            if auth is not None:
                return await self._tcp(conn, uname, aname, Role.USER)
        raise denied()

    async def _tcp(self, conn: Conn, uname: str, aname: str, role: Role) -> OlliePeer:
        """A client on TCP has the role that it is given here, unless it is a tool."""
        hosts = tuple(host.process for host in self._ollie.tool_servers() if host.process is not None)
        server = procfs.process(os.getpid())
        assert server is not None
        try:
            theirs, ours = (place(conn.socket.family, name) for name in _names(conn.socket))
            judgement = judge_caller(await asyncio.to_thread(caller, theirs, ours, server, hosts))
        except OSError as error:
            _log.warning("refused a TCP client that says it is %r: %s", uname, error)
            raise _unknown(error) from None
        if judgement.verdict is Verdict.NO_TOOL:
            return OlliePeer(uname, aname, role)
        _log.warning("refused a TCP client that says it is %r: %s", uname, judgement.why)
        raise denied()

    async def _unix(self, conn: Conn, uname: str, aname: str) -> OlliePeer:
        if _BOUND in conn.state:
            return self._bound(conn.state[_BOUND], uname, aname)
        hosts = {host.process: host for host in self._ollie.tool_servers() if host.process is not None}
        server = procfs.process(os.getpid())
        assert server is not None
        try:
            with Witness(conn.socket, ticks(conn.accepted_s)) as witness:
                facts = witness.facts(server, tuple(hosts))
                judgement = judge(facts)
                if judgement.verdict is Verdict.OWNER:
                    return OlliePeer(uname, aname, Role.USER)
                if judgement.host is not None and facts.chain and facts.chain[0].same(judgement.host):
                    return self._bind(conn, hosts[judgement.host], uname, aname)
                agent = await self._agent(judgement, hosts, witness.pid)
                # The process was asked about by its id: it counts only if the id was its own until now.
                if agent is not None and witness.present():
                    self._connections.admit(conn, agent.id)
                    return OlliePeer(uname, aname, Role.GROUP, agent)
        except OSError as error:
            _log.warning("refused a client that says it is %r: %s", uname, error)
            raise _unknown(error) from None
        _log.warning("refused process %d that says it is %r: %s", witness.pid, uname, judgement.why)
        raise denied()

    def _bind(self, conn: Conn, host: ToolServer, uname: str, aname: str) -> OlliePeer:
        """Make a connection of a toolsrv process the agent's that it names, one of its session."""
        agent_id, _, run = aname.removeprefix(BINDING).partition("/")
        agent = self._ollie.sessions.agent(agent_id) if aname.startswith(BINDING) else None
        if agent is None or agent.session.toolsrv is not host:
            _log.warning("refused a tool server that says %r", aname)
            raise denied()
        self._connections.admit(conn, agent_id, run)
        conn.state[_BOUND] = agent_id
        return OlliePeer(uname, "", Role.GROUP, agent)

    def _bound(self, agent_id: str, uname: str, aname: str) -> OlliePeer:
        """Whoever holds a connection that is an agent's, as long as there is that agent."""
        agent = self._ollie.sessions.agent(agent_id)
        if agent is None:
            raise denied()
        return OlliePeer(uname, aname, Role.GROUP, agent)

    async def _agent(self, judgement: Judgement, hosts: dict[Process, ToolServer], pid: int) -> Agent | None:
        """The agent that a process below a toolsrv belongs to, as that toolsrv says; it must be one of its session."""
        if judgement.host is None:
            return None
        host = hosts[judgement.host]
        agent_id = await host.whose(pid)
        agent = self._ollie.sessions.agent(agent_id) if agent_id else None
        return agent if agent is not None and agent.session.toolsrv is host else None


def _unknown(error: OSError) -> NinepError:
    """Why a client is refused of which nothing could be found out."""
    return NinepError(EXHAUSTED) if error.errno in open_files.EXHAUSTED else denied()


def _names(sock: socket.socket) -> tuple[tuple[str, int], tuple[str, int]]:
    """The address and port of the other end of a TCP connection, and of ours."""
    return sock.getpeername()[:2], sock.getsockname()[:2]
