"""Error texts as programs on a mount see them."""

import errno

import pytest

from ninep import errors
from ninep.fuse.enames import errno_of


@pytest.mark.parametrize(
    ("ename", "number"),
    [
        ("permission denied", errno.EACCES),
        ("Permission denied", errno.EACCES),
        ("permission denied: not your agent", errno.EACCES),
        ("file does not exist", errno.ENOENT),
        ("cwd does not exist: /home/x", errno.ENOENT),
        ("no such tool: grep", errno.ENOENT),
        ("file already exists", errno.EEXIST),
        ("session exists: myproj", errno.EEXIST),
        ("not a directory", errno.ENOTDIR),
        ("cwd is not a directory: /etc/passwd", errno.ENOTDIR),
        ("is a directory", errno.EISDIR),
        ("wstat prohibited", errno.EPERM),
        ("unknown command: dance", errno.EINVAL),
        ("unknown fid", errno.EBADF),
        ("bad name: a/b", errno.EINVAL),
        ("not a command: dance", errno.EINVAL),
        ("message too long", errno.EMSGSIZE),
        ("prompt is not UTF-8", errno.EILSEQ),
        ("interrupted", errno.EINTR),
        ("too many fids", errno.ENFILE),
        ("connection lost", errno.ENOTCONN),
        ("the model is tired", errno.EIO),
        ("", errno.EIO),
    ],
)
def test_numbers(ename: str, number: int) -> None:
    """The text decides, whole or up to the thing it names; unknown ones are input/output errors."""
    assert errno_of(ename) == number


def test_own_texts_are_known() -> None:
    """Of ninep's own texts only those that blame the bridge or the server are input/output errors."""
    texts = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)}
    assert {text for text in texts if errno_of(text) == errno.EIO} == {
        errors.OPEN_FID_WALKED,
        errors.AFID_MISUSED,
        errors.TAG_IN_USE,
        errors.COUNT_TOO_SMALL,
        errors.TOO_MANY_NAMES,
        errors.VERSION_FIRST,
        errors.MSIZE_TOO_SMALL,
        errors.NO_AUTHENTICATION,
        errors.AFID_OF_ANOTHER,
        errors.INTERNAL,
    }
