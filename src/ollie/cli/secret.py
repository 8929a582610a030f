"""The secret that a command proves itself with to a server on TCP."""

from ollie.protocol.paths import secret_file
from ollie.protocol.words import reason

_ASKED = "the server asks for a secret, and"
_REMEDY = "copy the server's file there, or name it in OLLIE_SECRET_FILE"


class SecretError(Exception):
    """There is no secret to be used; the text is one line that says what to do."""


def read() -> bytes:
    """The secret in the file that the environment names, without blanks around it.

    Raises:
        SecretError: the file cannot be read or is empty.
    """
    path = secret_file()
    try:
        with open(path, "rb") as file:
            secret = file.read().strip()
    except OSError as error:
        raise SecretError(f"{_ASKED} {path} cannot be read: {reason(error)}; {_REMEDY}") from None
    if not secret:
        raise SecretError(f"{_ASKED} {path} is empty; {_REMEDY}")
    return secret
