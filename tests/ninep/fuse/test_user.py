"""A mount of an ordinary user, by fusermount3."""

import pwd
import shutil
import signal
from pathlib import Path

import pytest
from mountns import House, ended, needs_mount

from ninep.testing import Sample

pytestmark = [
    needs_mount,
    pytest.mark.skipif(not shutil.which("fusermount3"), reason="Debian's package fuse3 is not installed"),
    pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv of util-linux is not installed"),
]

_NOBODY = pwd.getpwnam("nobody")  # fusermount3 wants a user with a name
_OWNER = f"{_NOBODY.pw_uid}:{_NOBODY.pw_gid}"
_USER = ("setpriv", f"--reuid={_NOBODY.pw_uid}", f"--regid={_NOBODY.pw_gid}", "--clear-groups")
# The interpreter of the tests may be in a directory that only root can read.
_READER = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


@pytest.fixture
async def home(house: House, address: str) -> House:
    """A house with a directory of the user's to mount on, and a `/dev/fuse` for everybody, as udev makes it."""
    socket = address.removeprefix("unix!")
    assert await house.shell(
        f"chmod 666 {socket}; mount -t tmpfs -o mode=755 tmpfs /mnt; mkdir /mnt/m /mnt/root; chown {_OWNER} /mnt/m;"
        "mknod -m 666 /mnt/fuse c 10 229; mount --bind /mnt/fuse /dev/fuse"
    ) == (0, "", "")
    house.mount = Path("/mnt/m")
    return house


async def test_user(home: House, address: str, sample: Sample) -> None:
    """An ordinary user mounts, uses and unmounts; all files are shown as theirs, and not even root gets in."""
    serving = await home.serve(address, prefix=(*_USER, *_READER))
    done = await ended(
        await home.start(
            *_USER, "sh", "-c", 'cd "$HERE"; cat readme; echo x > thing/a/inbox; stat -c %u:%g thing; mountpoint -q .'
        )
    )
    assert done == (0, f"a sample of every kind\n{_OWNER}\n", "")
    assert sample.things["a"].messages == [b"x\n"]
    assert "Permission denied" in (await ended(await home.start("cat", "/mnt/m/readme"))).err
    assert await serving.signal(signal.SIGTERM) == (0, "", "")
    assert (await ended(await home.start("mountpoint", "-q", "/mnt/m"))).code != 0


async def test_refusal(home: House, address: str) -> None:
    """What fusermount3 refuses is told in its words."""
    home.mount = Path("/mnt/root")
    with pytest.raises(AssertionError, match="cannot mount on /mnt/root: user has no write access to mountpoint"):
        await home.serve(address, prefix=(*_USER, *_READER))


async def test_device_that_cannot_be_opened(home: House, address: str) -> None:
    """A device that is not the user's to open is told with what to do."""
    assert await home.shell("mount -o remount,bind,nodev /dev/fuse") == (0, "", "")
    with pytest.raises(AssertionError, match=r"/dev/fuse: Permission denied\n.*chmod 666 /dev/fuse"):
        await home.serve(address, prefix=(*_USER, *_READER))


async def test_no_helper(home: House, address: str) -> None:
    """Without fusermount3 the package is named."""
    with pytest.raises(AssertionError, match="apt-get install fuse3"):
        await home.serve(address, prefix=("env", "PATH=/nowhere", shutil.which("setpriv") or "", *_USER[1:], *_READER))
