"""What is said about a kernel that cannot enforce all of a policy."""

import pytest

from ollie.protocol.policy import General, Network, Policy
from ollie.sandbox.probe import Probe, missing, probe, report

FULL = Probe(9, seccomp=True, userns=True, root=False)


def kernel(abi: int, *, seccomp: bool = True, root: bool = False) -> Probe:
    return Probe(abi, seccomp=seccomp, userns=True, root=root)


@pytest.mark.parametrize("abi", range(6, 12))
def test_nothing_is_missing_from_abi_6(abi: int) -> None:
    """A kernel with ABI 6 and seccomp enforces every policy."""
    assert missing(Policy(), kernel(abi)) == ()


@pytest.mark.parametrize(
    ("abi", "words"),
    [
        (5, ["signals and abstract sockets"]),
        (4, ["ioctl", "signals"]),
        (2, ["truncating", "ioctl", "signals"]),
        (1, ["links and renames", "truncating", "ioctl", "signals"]),
        (0, ["files, signals and other processes"]),
    ],
)
def test_older_abis(abi: int, words: list[str]) -> None:
    """Each ABI lacks what the newer ones brought, a sentence each."""
    lacks = missing(Policy(), kernel(abi))
    assert len(lacks) == len(words)
    assert all(lack.startswith(word) for lack, word in zip(lacks, words, strict=True))


def test_without_seccomp() -> None:
    """Without filters the network of a policy that has none is open, and that is said."""
    assert "the network is open" in missing(Policy(), kernel(7, seccomp=False))[0]
    assert "the network is open" not in missing(Policy(network=Network(enabled=True)), kernel(7, seccomp=False))[0]


def test_user_needs_root() -> None:
    """Another user is possible for root only."""
    policy = Policy(general=General(user="tools"))
    assert missing(policy, kernel(7)) == ("tools do not run as tools: only a server that is root can change the user",)
    assert missing(policy, kernel(7, root=True)) == ()


def test_report_of_root() -> None:
    """A server that is root is told what that leaves open, until it names a user."""
    assert any("general.user" in line for line in report(kernel(7, root=True), Policy()))
    assert len(report(kernel(7, root=True), Policy(general=General(user="tools")))) == 1


def test_this_kernel() -> None:
    """The probe of this machine gives an answer that can be reported."""
    assert report(probe(), Policy())[0].startswith("sandbox: landlock abi ")
