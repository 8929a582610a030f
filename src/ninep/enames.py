"""Error texts of a 9P server (enames) as numbers of errno(3).

A program that uses a mount sees only the number. The table has ninep's own texts and the usual ones of other servers;
of texts that name a thing (`session exists: myproj`) the part before the colon decides, by its form.
"""

import errno
import re

from ninep import errors

_PHRASES = {
    errors.PERMISSION_DENIED: errno.EACCES,
    errors.NOT_FOUND: errno.ENOENT,
    errors.NOT_DIRECTORY: errno.ENOTDIR,
    errors.IS_DIRECTORY: errno.EISDIR,
    errors.ILLEGAL_NAME: errno.EINVAL,
    errors.ILLEGAL_MODE: errno.EINVAL,
    errors.NAME_TOO_LONG: errno.ENAMETOOLONG,
    errors.NAME_EXISTS: errno.EEXIST,
    errors.UNKNOWN_FID: errno.EBADF,
    errors.FID_IN_USE: errno.EBADF,
    errors.ALREADY_OPEN: errno.EBUSY,
    errors.NOT_OPEN: errno.EBADF,
    errors.NOT_OPEN_FOR_READING: errno.EBADF,
    errors.NOT_OPEN_FOR_WRITING: errno.EBADF,
    errors.WSTAT_PROHIBITED: errno.EPERM,
    errors.TRUNCATE_PROHIBITED: errno.EINVAL,
    errors.OFFSET_BEYOND_END: errno.EINVAL,
    errors.AFID_MISUSED: errno.EBADF,
    errors.OPEN_FID_WALKED: errno.EBUSY,
    errors.TAG_IN_USE: errno.EBUSY,
    errors.COUNT_TOO_SMALL: errno.EINVAL,
    errors.TOO_MANY_NAMES: errno.ENAMETOOLONG,
    errors.VERSION_FIRST: errno.EIO,
    errors.MSIZE_TOO_SMALL: errno.EIO,
    errors.INTERNAL: errno.EIO,
    errors.NO_AUTHENTICATION: errno.EIO,
    errors.AFID_OF_ANOTHER: errno.EACCES,
    errors.BAD_DIRECTORY_OFFSET: errno.EINVAL,
    errors.AUTHENTICATION_FAILED: errno.EACCES,
    errors.AUTHENTICATION_UNFINISHED: errno.EACCES,
    errors.INTERRUPTED: errno.EINTR,
    errors.NOT_UTF8: errno.EILSEQ,
    errors.TOO_MANY_FIDS: errno.ENFILE,
    errors.TOO_MANY_REQUESTS: errno.EAGAIN,
    errors.TOO_MANY_BYTES: errno.EAGAIN,
    errors.MESSAGE_TOO_LONG: errno.EMSGSIZE,
    errors.BEING_ANSWERED: errno.EBUSY,
    errors.ANSWER_NOT_READ: errno.EINVAL,
    errors.CONNECTION_LOST: errno.ENOTCONN,
    "not found": errno.ENOENT,
    "file not found": errno.ENOENT,
    "directory entry not found": errno.ENOENT,
    "create prohibited": errno.EPERM,
    "remove prohibited": errno.EPERM,
    "not owner": errno.EPERM,
    "operation not permitted": errno.EPERM,
    "directory is not empty": errno.ENOTEMPTY,
    "read only file system": errno.EROFS,
    "exclusive use file already open": errno.EBUSY,
    "file in use": errno.EBUSY,
    "no space left on device": errno.ENOSPC,
    "file too large": errno.EFBIG,
    "invalid argument": errno.EINVAL,
}
_EXACT = {phrase.lower(): number for phrase, number in _PHRASES.items()}

# How texts begin, end, and what they contain, each with what it means; the first that fits counts. What says that
# something failed comes first: it may go on like a refusal.
_FORMS: tuple[tuple[str, int], ...] = (
    (r"\b(cannot|failed|broken|lost|hung up)\b|\bdoes not (answer|start|end)\b|^not on disk", errno.EIO),
    (r" exists$", errno.EEXIST),
    (r" is not a directory$", errno.ENOTDIR),
    (r" is not utf-8$", errno.EILSEQ),
    (r"^no | does not exist$", errno.ENOENT),
    (r" longer than ", errno.EMSGSIZE),
    (r"\bin use\b|\bused by\b| is running$| has not (exited|ended)$", errno.EBUSY),
    (r"^(refused|not run|wrong|authentication)\b", errno.EACCES),
    (r"\bat most\b", errno.EPERM),
    (r" already\b", errno.EAGAIN),
    (r"^remote | not built yet$", errno.EOPNOTSUPP),
    (r"^(unknown|bad|illegal|invalid|empty|unclosed|expected|not an?|write) ", errno.EINVAL),
    (
        r" (is|are|has|names|takes?|wants?|contains|holds|lies|lives|exclude|must) | (missing|empty|loaded|twice)$",
        errno.EINVAL,
    ),
    (r"^nul in |\bmore than\b|\btoo (small|large|long|short)\b", errno.EINVAL),
)
_KNOWN_FORMS = tuple((re.compile(form), number) for form, number in _FORMS)

# The words that Linux's own client knows for them: net/9p/error.c compares whole texts, with their capitals.
_LINUX = {
    errno.EACCES: "Permission denied",
    errno.EAGAIN: "Resource temporarily unavailable",
    errno.EBADF: "Bad file descriptor",
    errno.EBUSY: "Device or resource busy",
    errno.EEXIST: "File exists",
    errno.EILSEQ: "Invalid argument",
    errno.EINTR: "Interrupted system call",
    errno.EINVAL: "Invalid argument",
    errno.EIO: "Input/output error",
    errno.EFBIG: "File too large",
    errno.EISDIR: "Is a directory",
    errno.EMSGSIZE: "Message too long",
    errno.ENAMETOOLONG: "File name too long",
    errno.ENFILE: "Too many open files in system",
    errno.ENOENT: "No such file or directory",
    errno.ENOSPC: "No space left on device",
    errno.ENOTCONN: "Transport endpoint is not connected",
    errno.ENOTDIR: "Not a directory",
    errno.ENOTEMPTY: "Directory not empty",
    errno.EOPNOTSUPP: "Operation not supported",
    errno.EPERM: "Operation not permitted",
    errno.EROFS: "Read-only file system",
}


def errno_of(ename: str) -> int:
    """The number for an error text; EIO for one that says nothing we know."""
    text = ename.lower()
    head = text.partition(": ")[0]
    for phrase in (text, head):
        if phrase in _EXACT:
            return _EXACT[phrase]
    return next((number for form, number in _KNOWN_FORMS if form.search(head)), errno.EIO)


def for_linux(ename: str) -> str:
    """An error text in words from which Linux's own client makes the number of `errno_of`."""
    return _LINUX[errno_of(ename)]
