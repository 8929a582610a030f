"""Who a client is, decided from what the kernel says about it and never from what it says about itself.

There are three answers. The **owner** is a process of the server's own user, or a TCP client that proved the secret.
An **agent** is any process below one of our toolsrv processes, whatever name it attaches with. Everyone else, and
every case that cannot be decided, is refused.

`judge` is the decision, a pure function of `Facts`; `witness.py` reads the facts of a live process. A process that runs
below a toolsrv cannot leave it: toolsrv, its launcher, its reapers and olliesrv itself are child subreapers. Two more
marks catch what would be left if that failed: a process below olliesrv that is below none of its toolsrvs is refused,
and so is one whose no_new_privs bit differs from ours, since every sandboxed process has it set.

A tool has no business on TCP, where nothing is known about a client but what it can prove: it is refused there, with
the secret or without. `judge_caller` tells the tools from the others. Of a client on this machine whose user tools run
as, a process must be seen that is none of ours: a tool can hide that it has a socket, but cannot have another process
be seen with it.
"""

from dataclasses import dataclass
from enum import Enum

from ollie.olliesrv.process.procfs import Process

_BIT = "its no_new_privs bit differs from the server's"


class Verdict(Enum):
    """What a client is."""

    OWNER = "owner"
    AGENT = "agent"
    NO_TOOL = "no tool"  # on TCP: what it may do depends on what it proves
    REFUSED = "refused"


@dataclass(frozen=True)
class Facts:
    """What is known about a process that asks, and about us.

    Args:
        chain: the process and its ancestors, itself first; None when it could not be resolved, or was not the same
            process any more when everything had been read.
        uid: its user when it connected.
        no_new_privs: its no_new_privs bit, None when that could not be read.
        server: our own process.
        server_uid: our user.
        server_no_new_privs: our own bit.
        hosts: our toolsrv processes, the launcher and reapers below them not included.
    """

    chain: tuple[Process, ...] | None
    uid: int
    no_new_privs: bool | None
    server: Process
    server_uid: int
    server_no_new_privs: bool
    hosts: tuple[Process, ...]


@dataclass(frozen=True)
class Caller:
    """What is known about a client on TCP.

    Args:
        local: whether its address is one of this machine's.
        uid: the user of its socket, None where no process of this machine has that socket.
        holders: the processes that are seen with that socket.
        server_uid: our user.
    """

    local: bool
    uid: int | None
    holders: tuple[Facts, ...]
    server_uid: int


@dataclass(frozen=True)
class Judgement:
    """The verdict; for an agent the toolsrv process it runs below; for the log, why."""

    verdict: Verdict
    why: str
    host: Process | None = None


def judge(facts: Facts) -> Judgement:
    """Who the process of these facts is."""
    found = _by_ancestry(facts)
    if found is not None:
        return found
    if facts.uid != facts.server_uid:
        return Judgement(Verdict.REFUSED, f"it belongs to the user {facts.uid}")
    if facts.no_new_privs != facts.server_no_new_privs:
        return Judgement(Verdict.REFUSED, _BIT)
    return Judgement(Verdict.OWNER, "it belongs to the server's user")


def judge_caller(caller: Caller) -> Judgement:
    """Whether the client of these facts is certain to be none of our tools: `NO_TOOL` or `REFUSED`."""
    if not caller.local:
        return Judgement(Verdict.NO_TOOL, "it is on another machine")
    if caller.uid is None:
        return Judgement(Verdict.REFUSED, "it is on this machine, and no process has its end of the connection")
    for holder in caller.holders:
        found = _by_ancestry(holder)
        if found is not None:
            return Judgement(Verdict.REFUSED, found.why)
        if holder.no_new_privs != holder.server_no_new_privs:
            return Judgement(Verdict.REFUSED, _BIT)
    # Only root can have tools run as another user, and to root every process is to be seen.
    if not caller.holders and caller.server_uid in {0, caller.uid}:
        return Judgement(Verdict.REFUSED, "it is on this machine, and its process is not to be seen")
    return Judgement(Verdict.NO_TOOL, f"it belongs to the user {caller.uid}")


def _by_ancestry(facts: Facts) -> Judgement | None:
    """What its ancestors make of a process; None where they make it nothing in particular."""
    if facts.chain is None:
        return Judgement(Verdict.REFUSED, "its process cannot be resolved")
    for ancestor in facts.chain:
        for host in facts.hosts:
            if ancestor.same(host):
                return Judgement(Verdict.AGENT, f"it runs below the toolsrv process {host.pid}", host)
    if any(ancestor.same(facts.server) for ancestor in facts.chain[1:]):
        return Judgement(Verdict.REFUSED, "it was left behind by a tool")
    return None
