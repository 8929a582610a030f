"""Errors, and every error text (ename) that ninep itself answers.

The texts are short lower-case phrases. Where the Linux client has an errno for a phrase (net/9p/error.c), that phrase
is used, so that a kernel mount reports a sensible error.
"""

PERMISSION_DENIED = "permission denied"
NOT_FOUND = "file does not exist"
NOT_DIRECTORY = "not a directory"
IS_DIRECTORY = "is a directory"
ILLEGAL_NAME = "illegal name"
ILLEGAL_MODE = "illegal mode"
NAME_EXISTS = "file already exists"

UNKNOWN_FID = "unknown fid"
FID_IN_USE = "fid already in use"
ALREADY_OPEN = "file already open for I/O"
NOT_OPEN = "fid is not open"
NOT_OPEN_FOR_READING = "fid is not open for reading"
NOT_OPEN_FOR_WRITING = "fid is not open for writing"
OPEN_FID_WALKED = "an open fid cannot be walked onto itself"
AFID_MISUSED = "fid is for authentication only"
TAG_IN_USE = "tag already in use"

WSTAT_PROHIBITED = "wstat prohibited"
TRUNCATE_PROHIBITED = "only support truncation to zero length"
BAD_DIRECTORY_OFFSET = "bad offset in directory read"
COUNT_TOO_SMALL = "count too small for a directory entry"
OFFSET_BEYOND_END = "offset is beyond the end of the file"
TOO_MANY_NAMES = "more than 16 names in a walk"

VERSION_FIRST = "the version must be negotiated first"
MSIZE_TOO_SMALL = "msize is below 256"
UNKNOWN_MESSAGE = "unknown message"
NO_AUTHENTICATION = "authentication not required"
AUTHENTICATION_FAILED = "authentication failed"
AUTHENTICATION_UNFINISHED = "authentication is not finished"
AFID_OF_ANOTHER = "authentication was for another uname or aname"

INTERRUPTED = "interrupted"
INTERNAL = "internal error"
NOT_UTF8 = "text is not UTF-8"
TOO_MANY_FIDS = "too many fids"
TOO_MANY_REQUESTS = "too many requests outstanding"
TOO_MANY_BYTES = "too many bytes outstanding"
MESSAGE_TOO_LONG = "message too long"
NAME_TOO_LONG = "file name too long"
ANSWER_NOT_READ = "the answer has to be read: open for reading and writing"
BEING_ANSWERED = "request is being answered"

CONNECTION_LOST = "connection lost"


_QUOTED = 80  # characters of what somebody wrote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def unknown(kind: str, word: str, known: "Iterable[str]") -> str:
    """`unknown key: modle (did you mean model? known: backend model)`."""
    import difflib  # noqa: PLC0415  only what went wrong needs it

    words = list(known)
    word = word[:_QUOTED]
    near = difflib.get_close_matches(word, words, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown {kind}: {word} ({hint}known: {' '.join(words) or 'none'})"


class NinepError(Exception):
    """A request failed; `str(error)` is the ename that Rerror carries."""


class ProtocolError(NinepError):
    """The peer sent what is no 9P2000 message; the connection ends."""


class ConnectionLostError(NinepError):
    """The connection ended before the reply came."""

    def __init__(self, reason: str = CONNECTION_LOST) -> None:
        super().__init__(reason)
