"""Words of messages."""

import errno
import os

import pytest

from ollie.protocol.words import located, moment, reason


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT), "/a/B"), "no such file or directory"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "input/output error"),
        (OSError("/a/B: others may enter it"), "/a/B: others may enter it"),
        (OSError(1, "RFS specific error"), "RFS specific error"),
        (ConnectionResetError(), "unknown error"),
        (ValueError("no such thing"), "no such thing"),
    ],
)
def test_reason(error: Exception, text: str) -> None:
    """A phrase, whatever the error was made of."""
    assert reason(error) == text


def test_located() -> None:
    """The name of the file goes first where there is one."""
    assert located(OSError(errno.ENOENT, os.strerror(errno.ENOENT), "/a/B")) == "/a/B: no such file or directory"
    assert located(ValueError("no such thing")) == "no such thing"


def test_a_moment_is_in_utc() -> None:
    """Whatever the time zone; what is less than a second is left out."""
    assert moment(1767355200.9) == "2026-01-02T12:00:00Z"
