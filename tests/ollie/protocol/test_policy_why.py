"""Why a policy refused something, in words that name the key which would allow it."""

import pytest

from ollie.protocol.policy import Filesystem, Network, Policy
from ollie.protocol.why import explain, why

POLICY = Policy(filesystem=Filesystem(ro=("/etc",), rox=("/usr",), rw=("/proj",), rwx=("/proj/build",)), name="strict")
OPEN = Policy(filesystem=Filesystem(rwx=("/",)), network=Network(enabled=True, unix_sockets=True))


@pytest.mark.parametrize(
    ("path", "operation", "what", "key"),
    [
        ("/root/.ssh/id", "read", "reading /root/.ssh/id", "filesystem.ro"),
        ("/root", "list", "listing /root", "filesystem.ro"),
        ("/opt/tool", "execute", "executing /opt/tool", "filesystem.rox"),
        ("/proj/a.out", "execute", "executing /proj/a.out", "filesystem.rwx"),
        ("/etc/passwd", "write", "writing /etc/passwd", "filesystem.rw"),
        ("/usr/x", "create", "creating /usr/x", "filesystem.rwx"),
        ("/etc/x", "delete", "deleting /etc/x", "filesystem.rw"),
    ],
)
def test_why_paths(path: str, operation: str, what: str, key: str) -> None:
    """A path that is refused, what was tried, and where it would be listed."""
    assert (
        why(POLICY, path, operation)
        == f"the sandbox policy strict does not allow {what}; allow it with {path}, or a directory above it, in {key}"
    )
    assert why(OPEN, path, operation) is None


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/etc/passwd", "read"),
        ("/usr/bin/git", "execute"),
        ("/proj/x", "write"),
        ("/proj/build/a.out", "execute"),
        ("/proj/build", "list"),
    ],
)
def test_why_not(path: str, operation: str) -> None:
    """What is allowed is not explained."""
    assert why(POLICY, path, operation) is None


def test_why_network() -> None:
    """Hosts and unix sockets have a key each."""
    assert (
        why(POLICY, "example.org:443", "connect")
        == "the sandbox policy strict does not allow to connect example.org:443; allow it with network.enabled: true"
    )
    assert "network.unix_sockets: true" in str(why(POLICY, "/run/docker.sock", "unix"))
    assert why(OPEN, "example.org:443", "connect") is None
    assert why(OPEN, "/run/docker.sock", "unix") is None


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("cat: /root/.ssh/id: Permission denied", ["reading /root/.ssh/id"]),
        ("ls: cannot open directory '/root': Permission denied", ["reading /root"]),
        ("touch: cannot touch \u2018/etc/x\u2019: Permission denied", ["writing /etc/x"]),
        ("PermissionError: [Errno 13] Permission denied: '/root/x'", ["reading /root/x"]),
        ("bash: ./a.out: Permission denied", ["executing /proj/a.out"]),
        ("sh: 1: cannot create /etc/x: Permission denied", ["writing /etc/x"]),
        ("Error: EACCES: permission denied, open '/root/x'", ["reading /root/x"]),
        ("fatal: could not create work tree dir '../else': Permission denied", ["reading /else"]),
        ("mv: cannot move '/proj/x' to '/etc/x': Permission denied", ["writing /etc/x"]),
        ("socket.socket(): PermissionError: [Errno 13] Permission denied", ["the network"]),
        ("curl: (7) Couldn't connect to server: Permission denied", ["the network"]),
        ("connect to /run/docker.sock: permission denied", ["reading /run/docker.sock"]),
        ("AF_UNIX socket: Operation not permitted", ["unix sockets"]),
        ("cat: /proj/build/x: Permission denied", []),
        ("chmod: changing permissions of something: Operation not permitted", []),
        ("/root/.ssh/id: No such file or directory", []),
        ("", []),
    ],
)
def test_explain(output: str, found: list[str]) -> None:
    """The refusals in a program's output that the policy explains."""
    start = "the sandbox policy strict does not allow "
    explained = [sentence.removeprefix(start).partition(";")[0] for sentence in explain(POLICY, output, "/proj")]
    assert explained == found


def test_explain_says_each_once() -> None:
    """A refusal that shows a hundred times is explained once, and what an open policy allows never."""
    output = "cat: /root/x: Permission denied\n" * 100
    assert len(explain(POLICY, output, "/proj")) == 1
    assert explain(OPEN, output, "/proj") == ()
