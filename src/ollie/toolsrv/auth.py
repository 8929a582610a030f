"""Who may use a toolsrv: whoever knows the secret, which the first client sets.

The exchange happens on the auth file of Tauth: the client writes the secret, the server answers a read with the
session token, and an attach with that auth file is let in. The token is what a request carries in its payload.
"""

import os
from _operator import _compare_digest as compare_digest  # as hmac.compare_digest, which brings OpenSSL along: 3 MB

from ninep.errors import NinepError
from ollie.protocol.words import reason

_TOKEN_BYTES = 16
SECRET_LIMIT_BYTES = 4096


class AuthError(NinepError):
    """A secret or a token that is refused; the text is a short phrase."""


class Auth:
    """The secret and the token of one server.

    Args:
        secret: Preset by whoever started the server; None lets the first client set it.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret
        self.token = os.urandom(_TOKEN_BYTES).hex()

    def offer(self, secret: bytes) -> str:
        """Take the client's secret, of which one newline at its end is no part; the session token.

        Raises:
            AuthError: `empty secret`, or `wrong secret`.
        """
        secret = secret.removesuffix(b"\n")
        if not secret:
            raise AuthError("empty secret")
        if self._secret is None:
            self._secret = secret
        if not compare_digest(self._secret, secret):
            raise AuthError("wrong secret")
        return self.token

    def check_token(self, token: str) -> None:
        """Check the token of a payload; an empty one stands for the token of the authenticated attach.

        Raises:
            AuthError: `wrong token`.
        """
        if token and not compare_digest(self.token.encode(), token.encode()):
            raise AuthError("wrong token")


def read_secret(fd: int) -> bytes:
    """The secret from an inherited descriptor, read to its end and closed; one newline at its end is not part of it.

    Raises:
        AuthError: The descriptor cannot be read, is empty, or holds more than 4096 bytes.
    """
    try:
        with os.fdopen(fd, "rb") as file:
            secret = file.read(SECRET_LIMIT_BYTES + 2).removesuffix(b"\n")
    except OSError as error:
        raise AuthError(f"cannot read the secret from descriptor {fd}: {reason(error)}") from error
    if not secret:
        raise AuthError(f"no secret on descriptor {fd}")
    if len(secret) > SECRET_LIMIT_BYTES:
        raise AuthError(f"secret longer than {SECRET_LIMIT_BYTES} bytes on descriptor {fd}")
    return secret
