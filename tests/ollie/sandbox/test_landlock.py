"""What is asked of Landlock, for every ABI and without a kernel."""

import errno
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ollie.protocol.policy import Filesystem, Network, Policy
from ollie.sandbox import landlock as ll
from ollie.sandbox import rulesets
from ollie.sandbox.requests import Ruleset

FILES = Filesystem(ro=("/r",), rox=("/rx",), rw=("/rw",), rwx=("/rwx",))
POLICY = Policy(filesystem=FILES)
READ = ll.READ_FILE | ll.READ_DIR
MAKE = ll.MAKE_DIR | ll.MAKE_REG | ll.MAKE_SOCK | ll.MAKE_FIFO | ll.MAKE_SYM


def handled(rules: Ruleset) -> tuple[int, ...]:
    """Files, ports and scopes of struct landlock_ruleset_attr."""
    return struct.unpack("=QQQ", rules.handled)


WRITE_1 = ll.WRITE_FILE | ll.REMOVE_DIR | ll.REMOVE_FILE | MAKE


@pytest.mark.parametrize("abi", range(12))
def test_nothing_is_asked_that_the_abi_does_not_know(abi: int) -> None:
    """What is handled is what the table has, and no rule gives more; newer ABIs are the newest known."""
    rules = ll.ruleset(POLICY, abi)
    known = ll.ABI[min(abi, 9)]
    assert handled(rules) == (known.files, known.ports, known.scopes)
    assert all(access & ~known.files == 0 for _, access in rules.paths)


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
def test_table(abi: int, bits: int, ports: int, scopes: int) -> None:
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
def test_rights_of_paths(abi: int, write: int) -> None:
    """Each key of the policy gives its rights, and never devices or their ioctls."""
    paths = dict(ll.ruleset(POLICY, abi).paths)
    assert paths == {
        "/r": READ,
        "/rx": READ | ll.EXECUTE,
        "/rw": READ | write,
        "/rwx": READ | write | ll.EXECUTE,
    }
    assert all(access & (ll.MAKE_CHAR | ll.MAKE_BLOCK | ll.IOCTL_DEV) == 0 for access in paths.values())


def test_a_path_that_is_listed_twice() -> None:
    """A path under two keys has the rights of both, in one rule."""
    policy = Policy(filesystem=Filesystem(rox=("/a",), rw=("/a",)))
    assert len(ll.ruleset(policy, 7).paths) == 1
    assert dict(ll.ruleset(policy, 1).paths)["/a"] == READ | WRITE_1 | ll.EXECUTE


@pytest.mark.parametrize("abi", range(4, 10))
def test_ports_are_free_with_network(abi: int) -> None:
    """With network no port is handled, without every one is denied."""
    assert handled(ll.ruleset(Policy(network=Network(enabled=True)), abi))[1] == 0
    assert handled(ll.ruleset(Policy(), abi))[1] == ll.BIND_TCP | ll.CONNECT_TCP


def test_unix_sockets_resolve_where_files_may_be_written() -> None:
    """From ABI 9 sockets are reached by path only where the policy lets write, and only when it allows them."""
    with_sockets = Policy(filesystem=FILES, network=Network(unix_sockets=True))
    granted = {path for path, access in ll.ruleset(with_sockets, 9).paths if access & ll.RESOLVE_UNIX}
    assert granted == {"/rw", "/rwx"}
    assert not any(access & ll.RESOLVE_UNIX for _, access in ll.ruleset(POLICY, 9).paths)
    assert not any(access & ll.RESOLVE_UNIX for _, access in ll.ruleset(with_sockets, 8).paths)


@pytest.mark.parametrize("abi", range(10))
def test_reaper(abi: int) -> None:
    """The outer domain scopes signals and abstract sockets, and gives back the one right that it would take."""
    rules = ll.reaper_ruleset(abi)
    if abi < 6:
        assert rules is None
    else:
        assert handled(rules) == (ll.REFER, 0, ll.SCOPE_SIGNAL | ll.SCOPE_ABSTRACT_UNIX)
        assert rules.paths == (("/", ll.REFER),)


def test_rights_on_files() -> None:
    """A rule on a file holds what applies to files, as linux/landlock.h lists it."""
    assert rulesets.ON_FILE == (
        ll.EXECUTE | ll.WRITE_FILE | ll.READ_FILE | ll.TRUNCATE | ll.IOCTL_DEV | ll.RESOLVE_UNIX
    )


IN_A_CHILD = """
import os, sys
from ollie.protocol.policy import Filesystem, Policy
from ollie.sandbox import landlock, rulesets
from ollie.sandbox.syscalls import PR_SET_NO_NEW_PRIVS, prctl
prctl(PR_SET_NO_NEW_PRIVS, 1)
policy = Policy(filesystem=Filesystem(ro=("/no/such/path", sys.argv[1]), rw=("/dev/null",)))
rulesets.enter(rulesets.make(landlock.ruleset(policy, min(landlock.abi(), int(sys.argv[2])))).descriptor)
print(os.listdir(sys.argv[1]))
os.close(os.open("/dev/null", os.O_RDWR))
try:
    os.listdir("/")
except OSError as error:
    print(error.errno)
"""


@pytest.mark.skipif(ll.abi() == 0, reason="this kernel has no Landlock")
@pytest.mark.parametrize("abi", range(1, 10))
def test_apply_at_every_abi(tmp_path: Path, abi: int) -> None:
    """The kernel takes the rulesets of every ABI up to its own, with rules on files and on what is not there."""
    (tmp_path / "file").touch()
    result = subprocess.run(
        [sys.executable, "-c", IN_A_CHILD, str(tmp_path), str(abi)], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"['file']\n{errno.EACCES}\n"
    assert list(Path("/").iterdir())


LINKS = """
import os, sys
from pathlib import Path
from ollie.protocol.policy import Filesystem, Policy
from ollie.sandbox import landlock, rulesets
from ollie.sandbox.syscalls import PR_SET_NO_NEW_PRIVS, prctl
place = Path(sys.argv[1])
prctl(PR_SET_NO_NEW_PRIVS, 1)
files = Filesystem(ro=tuple(f"{place}/{name}" for name in sys.argv[2].split()), rwx=(f"{place}/work",))
rulesets.enter(rulesets.make(landlock.ruleset(Policy(filesystem=files), landlock.abi()), sys.argv[3]).descriptor)
for name in ("secret", "other"):
    try:
        print((place / name / "file").read_text(), end=" ")
    except PermissionError:
        print("refused", end=" ")
"""


@pytest.mark.skipif(ll.abi() == 0, reason="this kernel has no Landlock")
@pytest.mark.parametrize(
    ("allowed", "cwd", "read"),
    [
        ("ours", "/", "secret refused "),  # a link that no tool made is followed
        ("work/theirs", "/", "refused refused "),
        ("work/theirs ours", "/", "secret refused "),
        ("through", "/", "refused refused "),  # ours, that leads to a tool's
        ("ours", "ours/sub", "refused refused "),  # it was a directory when the run was asked for
    ],
)
def test_links_of_tools_are_not_followed(tmp_path: Path, allowed: str, cwd: str, read: str) -> None:
    """What a tool can make a link decides nothing about the next run."""
    place = tmp_path.resolve()
    for name in ("secret", "other", "work"):
        (place / name).mkdir()
        (place / name / "file").write_text(name)
    (place / "ours").symlink_to("secret")
    (place / "work" / "theirs").symlink_to(place / "secret")
    (place / "through").symlink_to("work/theirs")
    result = subprocess.run(
        [sys.executable, "-c", LINKS, str(place), allowed, str(place / cwd)], capture_output=True, text=True, check=True
    )
    assert result.stdout == read
