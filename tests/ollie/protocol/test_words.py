"""Words of messages."""

import errno
import os

import pytest

from ollie.protocol.words import reason


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT), "/a/B"), "no such file or directory"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "input/output error"),
        (OSError("/a/B: others may enter it"), "/a/B: others may enter it"),
        (OSError(1, "RFS specific error"), "RFS specific error"),
        (ConnectionResetError(), "unknown error"),
    ],
)
def test_reason(error: OSError, text: str) -> None:
    """A phrase, whatever the error was made of."""
    assert reason(error) == text
