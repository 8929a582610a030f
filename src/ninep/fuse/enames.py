"""Error texts of a 9P server (enames) as numbers of errno(3).

A program that uses a mount sees only the number. The table has ninep's own texts and the usual ones of other servers;
for texts that name a thing (`session exists: myproj`) the part before the colon decides, by how it begins or ends.
"""

import errno

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
    "not owner": errno.EPERM,
    "operation not permitted": errno.EPERM,
    "directory is not empty": errno.ENOTEMPTY,
    "read only file system": errno.EROFS,
    "exclusive use file already open": errno.EBUSY,
    "file in use": errno.EBUSY,
    "no space left on device": errno.ENOSPC,
    "invalid argument": errno.EINVAL,
}
_EXACT = {phrase.lower(): number for phrase, number in _PHRASES.items()}
_BEGINNINGS = {
    "no such ": errno.ENOENT,
    "unknown ": errno.EINVAL,
    "bad ": errno.EINVAL,
    "illegal ": errno.EINVAL,
    "not a ": errno.EINVAL,
}
_ENDS = {
    " exists": errno.EEXIST,
    " does not exist": errno.ENOENT,
    " is not a directory": errno.ENOTDIR,
    " is not utf-8": errno.EILSEQ,
}


def errno_of(ename: str) -> int:
    """The number for an error text; EIO for one that says nothing we know."""
    text = ename.lower()
    head = text.partition(": ")[0]
    for phrase in (text, head):
        if phrase in _EXACT:
            return _EXACT[phrase]
    for beginning, number in _BEGINNINGS.items():
        if head.startswith(beginning):
            return number
    for end, number in _ENDS.items():
        if head.endswith(end):
            return number
    return errno.EIO
