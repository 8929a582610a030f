"""Who a client is: the table of verdicts, and facts gathered from real processes."""

from dataclasses import replace

import pytest

from ollie.olliesrv.door.identity import Caller, Facts, Verdict, judge, judge_caller
from ollie.olliesrv.process.procfs import Process

INIT = Process(1, 0, 0)
SERVER = Process(100, 50, 1)
TOOLSRV = Process(200, 60, 100)
LAUNCHER = Process(201, 61, 200)
TOOL = Process(202, 70, 201)
SHELL = Process(300, 40, 1)
CLIENT = Process(301, 80, 300)
ORPHAN = Process(203, 70, 100)

OURS = Facts(
    chain=(CLIENT, SHELL, INIT),
    uid=1000,
    no_new_privs=False,
    server=SERVER,
    server_uid=1000,
    server_no_new_privs=False,
    hosts=(TOOLSRV,),
)

BELOW_TOOLSRV = (TOOL, LAUNCHER, TOOLSRV, SERVER, INIT)

TABLE = {
    "a process of the server's user": (OURS, Verdict.OWNER),
    "the server itself": (replace(OURS, chain=(SERVER, INIT)), Verdict.OWNER),
    "a process that cannot be resolved": (replace(OURS, chain=None), Verdict.REFUSED),
    "another user": (replace(OURS, uid=1001), Verdict.REFUSED),
    "root, where the server is not root": (replace(OURS, uid=0), Verdict.REFUSED),
    "another no_new_privs bit": (replace(OURS, no_new_privs=True), Verdict.REFUSED),
    "no_new_privs unreadable": (replace(OURS, no_new_privs=None), Verdict.REFUSED),
    "both with no_new_privs": (replace(OURS, no_new_privs=True, server_no_new_privs=True), Verdict.OWNER),
    "the server restricted, the client not": (replace(OURS, server_no_new_privs=True), Verdict.REFUSED),
    "a tool": (replace(OURS, chain=BELOW_TOOLSRV, no_new_privs=True), Verdict.AGENT),
    "a tool without sandbox": (replace(OURS, chain=BELOW_TOOLSRV), Verdict.AGENT),
    "a tool that runs as another user": (replace(OURS, chain=BELOW_TOOLSRV, uid=65534), Verdict.AGENT),
    "a tool of a toolsrv that outlived its server": (
        replace(OURS, chain=(TOOL, LAUNCHER, replace(TOOLSRV, parent=1), INIT)),
        Verdict.AGENT,
    ),
    "toolsrv itself: it owns no run, so no agent will be found": (
        replace(OURS, chain=(TOOLSRV, SERVER, INIT)),
        Verdict.AGENT,
    ),
    "what a lost toolsrv left below the server": (
        replace(OURS, chain=(ORPHAN, SERVER, INIT), hosts=()),
        Verdict.REFUSED,
    ),
    "a process below an id that toolsrv had once": (
        replace(OURS, chain=(CLIENT, replace(TOOLSRV, start=75, parent=1), INIT)),
        Verdict.OWNER,
    ),
    "a server that is itself run by a tool of another Ollie": (
        replace(OURS, chain=(CLIENT, SHELL, Process(900, 10, 1), INIT), hosts=()),
        Verdict.OWNER,
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_verdict(case: str) -> None:
    """Each set of facts has one verdict."""
    facts, verdict = TABLE[case]
    judgement = judge(facts)
    assert judgement.verdict is verdict
    assert judgement.why


def test_an_agent_is_told_with_its_host() -> None:
    """The toolsrv that an agent runs below comes with the verdict, so that it can be asked for the agent."""
    assert judge(replace(OURS, chain=BELOW_TOOLSRV)).host == TOOLSRV
    assert judge(OURS).host is None


A_TOOL = replace(OURS, chain=BELOW_TOOLSRV, no_new_privs=True)
LEFT = replace(OURS, chain=(ORPHAN, SERVER, INIT), hosts=())
NEAR = Caller(local=True, uid=1000, holders=(OURS,), server_uid=1000)

CALLERS = {
    "another machine": (Caller(local=False, uid=None, holders=(), server_uid=1000), Verdict.NO_TOOL),
    "a process of the server's user": (NEAR, Verdict.NO_TOOL),
    "two processes of the server's user": (replace(NEAR, holders=(OURS, OURS)), Verdict.NO_TOOL),
    "a process of another user": (replace(NEAR, uid=1001, holders=()), Verdict.NO_TOOL),
    "a process of another user, seen": (
        replace(NEAR, uid=1001, holders=(replace(OURS, uid=1001),)),
        Verdict.NO_TOOL,
    ),
    "a process of another user, where the server is root": (
        Caller(local=True, uid=1001, holders=(replace(OURS, uid=1001, server_uid=0),), server_uid=0),
        Verdict.NO_TOOL,
    ),
    "another user, nobody to be seen, where the server is root": (
        Caller(local=True, uid=1001, holders=(), server_uid=0),
        Verdict.REFUSED,
    ),
    "nobody: it has been closed": (replace(NEAR, uid=None, holders=()), Verdict.REFUSED),
    "nobody to be seen: hidden, or in flight": (replace(NEAR, holders=()), Verdict.REFUSED),
    "a tool": (replace(NEAR, holders=(A_TOOL,)), Verdict.REFUSED),
    "a tool as another user": (replace(NEAR, uid=1001, holders=(A_TOOL,)), Verdict.REFUSED),
    "a tool, and somebody else": (replace(NEAR, holders=(OURS, A_TOOL)), Verdict.REFUSED),
    "what a lost toolsrv left": (replace(NEAR, holders=(LEFT,)), Verdict.REFUSED),
    "a process that went while it was looked at": (
        replace(NEAR, holders=(replace(OURS, chain=None),)),
        Verdict.REFUSED,
    ),
    "a process with no_new_privs": (replace(NEAR, holders=(replace(OURS, no_new_privs=True),)), Verdict.REFUSED),
}


@pytest.mark.parametrize("case", CALLERS)
def test_verdict_on_tcp(case: str) -> None:
    """A client on TCP is refused where it is a tool, or could be."""
    caller, verdict = CALLERS[case]
    judgement = judge_caller(caller)
    assert judgement.verdict is verdict
    assert judgement.why
