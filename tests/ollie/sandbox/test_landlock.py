"""What is asked of Landlock, for every ABI and without a kernel."""

import errno
import os
import subprocess
import sys

import pytest

from ollie.protocol.policy import Filesystem, Network, Policy
from ollie.sandbox import landlock as ll

FILES = Filesystem(ro=("/r",), rox=("/rx",), rw=("/rw",), rwx=("/rwx",))
POLICY = Policy(filesystem=FILES)
READ = ll.READ_FILE | ll.READ_DIR
MAKE = ll.MAKE_DIR | ll.MAKE_REG | ll.MAKE_SOCK | ll.MAKE_FIFO | ll.MAKE_SYM
WRITE_1 = ll.WRITE_FILE | ll.REMOVE_DIR | ll.REMOVE_FILE | MAKE


@pytest.mark.parametrize("abi", range(12))
def test_nothing_is_asked_that_the_abi_does_not_know(abi):
    """What is handled is what the table has, and no rule gives more than is handled; newer ABIs are the newest known."""
    rules = ll.ruleset(POLICY, abi)
    known = ll.ABI[min(abi, 9)]
    assert (rules.files, rules.ports, rules.scopes) == (known.files, known.ports, known.scopes)
    assert all(access & ~rules.files == 0 for _, access in rules.paths)


@pytest.mark.parametrize(
    ("abi", "bits", "ports", "scopes"),
    [
        (0, 0, 0, 0),
        (1, 13, 0, 0),
        (2, 14, 0, 0),
        (3, 15, 0, 0),
        (4, 15, 2, 0),
        (5, 16, 2, 0),
        (6, 16, 2, 2),
        (7, 16, 2, 2),
        (8, 16, 2, 2),
        (9, 17, 2, 2),
    ],
)
def test_table(abi, bits, ports, scopes):
    """The rights of an ABI are the lowest bits, as in linux/landlock.h."""
    assert ll.ABI[abi] == ll.Rights((1 << bits) - 1, (1 << ports) - 1, (1 << scopes) - 1)


@pytest.mark.parametrize(
    ("abi", "write"),
    [
        (1, WRITE_1),
        (2, WRITE_1 | ll.REFER),
        (3, WRITE_1 | ll.REFER | ll.TRUNCATE),
        (9, WRITE_1 | ll.REFER | ll.TRUNCATE),
    ],
)
def test_rights_of_paths(abi, write):
    """Each key of the policy gives its rights, and never devices or their ioctls."""
    paths = dict(ll.ruleset(POLICY, abi).paths)
    assert paths == {
        "/r": READ,
        "/rx": READ | ll.EXECUTE,
        "/rw": READ | write,
        "/rwx": READ | write | ll.EXECUTE,
    }
    assert all(access & (ll.MAKE_CHAR | ll.MAKE_BLOCK | ll.IOCTL_DEV) == 0 for access in paths.values())


def test_a_path_that_is_listed_twice():
    """A path under two keys has the rights of both, in one rule."""
    policy = Policy(filesystem=Filesystem(rox=("/a",), rw=("/a",)))
    assert len(ll.ruleset(policy, 7).paths) == 1
    assert dict(ll.ruleset(policy, 1).paths)["/a"] == READ | WRITE_1 | ll.EXECUTE


@pytest.mark.parametrize("abi", range(4, 10))
def test_ports_are_free_with_network(abi):
    """With network no port is handled, without every one is denied."""
    assert ll.ruleset(Policy(network=Network(enabled=True)), abi).ports == 0
    assert ll.ruleset(Policy(), abi).ports == ll.BIND_TCP | ll.CONNECT_TCP


def test_unix_sockets_resolve_where_files_may_be_written():
    """From ABI 9 sockets are reached by path only where the policy lets write, and only when it allows them."""
    with_sockets = Policy(filesystem=FILES, network=Network(unix_sockets=True))
    granted = {path for path, access in ll.ruleset(with_sockets, 9).paths if access & ll.RESOLVE_UNIX}
    assert granted == {"/rw", "/rwx"}
    assert not any(access & ll.RESOLVE_UNIX for _, access in ll.ruleset(POLICY, 9).paths)
    assert not any(access & ll.RESOLVE_UNIX for _, access in ll.ruleset(with_sockets, 8).paths)


@pytest.mark.parametrize("abi", range(6, 10))
def test_reaper(abi):
    """The outer domain scopes signals and abstract sockets, and gives back the one right that it would take."""
    assert ll.reaper_ruleset(abi) == ll.Ruleset(
        ll.REFER, 0, ll.SCOPE_SIGNAL | ll.SCOPE_ABSTRACT_UNIX, (("/", ll.REFER),)
    )


IN_A_CHILD = """
import os, sys
from ollie.protocol.policy import Filesystem, Policy
from ollie.sandbox import landlock
from ollie.sandbox.syscalls import PR_SET_NO_NEW_PRIVS, prctl
prctl(PR_SET_NO_NEW_PRIVS, 1)
policy = Policy(filesystem=Filesystem(ro=("/no/such/path", sys.argv[1]), rw=("/dev/null",)))
landlock.apply(landlock.ruleset(policy, min(landlock.abi(), int(sys.argv[2]))))
print(os.listdir(sys.argv[1]))
os.close(os.open("/dev/null", os.O_RDWR))
try:
    os.listdir("/")
except OSError as error:
    print(error.errno)
"""


@pytest.mark.skipif(ll.abi() == 0, reason="this kernel has no Landlock")
@pytest.mark.parametrize("abi", range(1, 10))
def test_apply_at_every_abi(tmp_path, abi):
    """The kernel takes the ruleset of every ABI up to its own: rules on files, on directories, and on what is not there."""
    (tmp_path / "file").touch()
    result = subprocess.run(
        [sys.executable, "-c", IN_A_CHILD, str(tmp_path), str(abi)], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"['file']\n{errno.EACCES}\n"
    assert os.listdir("/")
