"""The secret, the token, and the descriptor they come from."""

import os

import pytest

from ollie.toolsrv.auth import SECRET_LIMIT_BYTES, Auth, AuthError, read_secret


def _descriptor(data: bytes) -> int:
    """The read end of a pipe that holds `data` and ends."""
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    return read


def test_the_first_secret_wins() -> None:
    """Whoever comes first sets it; the same secret gives the same token, another is refused."""
    auth = Auth()
    token = auth.offer(b"first")
    assert auth.offer(b"first\n") == token
    with pytest.raises(AuthError, match="wrong secret"):
        auth.offer(b"second")


def test_a_preset_secret_is_the_first() -> None:
    """With a secret from the start, no client can set one."""
    with pytest.raises(AuthError, match="wrong secret"):
        Auth(b"preset").offer(b"mine")


@pytest.mark.parametrize("secret", [b"", b"\n"])
def test_an_empty_secret_is_refused_and_sets_nothing(secret: bytes) -> None:
    """A client that writes nothing does not open the server to everyone."""
    auth = Auth()
    with pytest.raises(AuthError, match="empty secret"):
        auth.offer(secret)
    auth.offer(b"real")


def test_a_token_may_be_missing_but_not_wrong() -> None:
    """The attach is authenticated already; a payload that names a token must name the right one."""
    auth = Auth()
    auth.check_token(auth.offer(b"x"))
    auth.check_token("")
    with pytest.raises(AuthError, match="wrong token"):
        auth.check_token("00ff")


def test_the_secret_comes_from_a_descriptor() -> None:
    """It is read to the end, without its newline."""
    assert read_secret(_descriptor(b"hush\n")) == b"hush"


def test_descriptors_without_a_usable_secret_are_named() -> None:
    """Closed, empty and overlong descriptors each have their own error."""
    with pytest.raises(AuthError, match="cannot read the secret from descriptor 987654: bad file descriptor"):
        read_secret(987654)
    with pytest.raises(AuthError, match="no secret on descriptor"):
        read_secret(_descriptor(b"\n"))
    with pytest.raises(AuthError, match="longer than 4096 bytes"):
        read_secret(_descriptor(b"x" * (SECRET_LIMIT_BYTES + 1)))
