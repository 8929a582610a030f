"""Error texts as programs on a mount see them."""

import errno

import pytest

from ninep import errors
from ninep.enames import errno_of, for_linux
from ninep.errors import NinepError
from ninep.server import Server
from ninep.testing import connected


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
        ("file too large: at most 9 bytes", errno.EFBIG),
        ("connection lost", errno.ENOTCONN),
        ("remove prohibited", errno.EPERM),
        ("name missing: name=X", errno.EINVAL),
        ("key given twice: a", errno.EINVAL),
        ("max_agents must be a whole number from 0: x", errno.EINVAL),
        ("keep is yes or no: maybe", errno.EINVAL),
        ("agent is running: a (stop it first)", errno.EBUSY),
        ("session has 9 agents already (max_agents): s", errno.EAGAIN),
        ("plan is longer than 5 bytes", errno.EMSGSIZE),
        ("not run: refused without the sandbox", errno.EACCES),
        ("the store cannot be read: disk is broken", errno.EIO),
        ("the tool server does not answer after 5 s", errno.EIO),
        ("the model is tired", errno.EINVAL),
        ("rpc trouble", errno.EIO),
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
        errors.VERSION_FIRST,
        errors.MSIZE_TOO_SMALL,
        errors.NO_AUTHENTICATION,
        errors.INTERNAL,
    }
    assert all(for_linux(text) for text in texts)


async def test_words_for_linux(server: Server) -> None:
    """Who attaches with the option `kernel` gets errors in Linux's words; everybody else in the server's."""
    for aname, words in (
        ("", "unknown command: dance"),
        ("kernel", "Invalid argument"),
        ("x,kernel", "Invalid argument"),
    ):
        async with connected(server, aname=aname) as client:
            with pytest.raises(NinepError) as caught:
                await client.write("thing/a/ctl", b"dance")
            assert str(caught.value).startswith(words)
            with pytest.raises(NinepError, match="No such file or directory" if aname else "file does not exist"):
                await client.stat("nowhere")
