"""The processes of a run, read from /proc: who descends from whom, and what they use.

/proc is read while it changes, so a list of descendants may miss a process that was being made: nothing that must be
certain is decided by it. The ancestors of a process are certain.
"""

import os
from typing import NamedTuple

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_RSS_FIELD = 21  # of /proc/PID/stat, counted from the state, which is the first field behind the name
_PARENT_FIELD = 1
_START_FIELD = 19
_TRIES = 4


class Usage(NamedTuple):
    """What a run has now: processes that have not ended, and the memory that they hold together."""

    processes: int
    rss_bytes: int


def children(pid: int) -> list[int]:
    """The children of a process, of all its threads. Empty when it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208  strings, in a loop over processes
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        text = _read(f"/proc/{pid}/task/{thread}/children")
        if text is None:
            return _children_by_scan(pid)
        found += map(int, text.split())
    return found


def descendants(pid: int) -> list[int]:
    """All that descend from a process, parents before their children; without itself, zombies included."""
    found = children(pid)
    for each in found:  # the list grows while it is walked
        found += children(each)
    return found


def ancestors(pid: int) -> list[int]:
    """A process and its ancestors, itself first; empty when there is none, or it cannot be told for certain.

    Between two reads a parent can end and its id be used again, so all is read twice. A process names its parent only
    while that lives: when both readings are the same, start times included, they were true in the moment between.
    """
    for _ in range(_TRIES):
        chain = _climb(pid)
        if _climb(pid) == chain:
            return [each for each, _ in chain]
    return []


def _climb(pid: int) -> list[tuple[int, int]]:
    """A process and its ancestors, each with its start time."""
    chain: list[tuple[int, int]] = []
    while pid > 0:
        fields = _stat(pid)
        if fields is None:
            return []
        chain.append((pid, int(fields[_START_FIELD])))
        pid = int(fields[_PARENT_FIELD])
    return chain


def usage(reaper_pid: int) -> Usage:
    """What the run of a reaper uses now."""
    processes = rss_pages = 0
    for pid in descendants(reaper_pid):
        fields = _stat(pid)
        if fields and fields[0] not in (b"Z", b"X"):
            processes += 1
            rss_pages += int(fields[_RSS_FIELD])
    return Usage(processes, rss_pages * _PAGE_BYTES)


def _children_by_scan(pid: int) -> list[int]:
    """For a kernel without the children files, and for threads that have just ended."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208  as above
        fields = _stat(int(name)) if name.isdecimal() else None
        if fields and int(fields[_PARENT_FIELD]) == pid:
            found.append(int(name))
    return found


def _stat(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat behind the name, which may itself hold blanks and brackets."""
    text = _read(f"/proc/{pid}/stat")
    return text[text.rindex(b")") + 2 :].split() if text else None


def _read(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError:  # it ended between open and read
        return None
    finally:
        os.close(descriptor)
