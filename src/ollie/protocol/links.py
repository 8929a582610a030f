"""Links in the paths of a policy: they are followed, unless a tool may have put them there.

A path of a policy may be a link, or lead through one (`/bin` on most systems, the settings in a home directory). A link
below a directory that the policy lets a tool write is the tool's: it would decide what the next run may do.
"""

import os
from collections.abc import Iterable

_MOST = 40  # as the kernel


def resolved(path: str, written: Iterable[str], real: Iterable[str] = ()) -> str | None:
    """The path without links; None when it leads through a link that a tool may have made.

    Args:
        path: absolute and normal. What is not there is taken as it is written.
        written: places that a tool may write; a link at one of them or below is a tool's.
        real: paths that had no links when they were named; a link above one of them is a tool's.
    """
    places = tuple(place.rstrip("/") + "/" for place in written)
    known = [f"{place}/" for place in real]
    for _ in range(_MOST):
        link, target = _first_link(path)
        if not link:
            return path
        below = f"{link}/"
        if below.startswith(places) or any(place.startswith(below) for place in known):
            return None
        path = os.path.normpath(f"{os.path.join(os.path.dirname(link), target)}{path[len(link) :]}")
    return None


def _first_link(path: str) -> tuple[str, str]:
    """The first part of a path that is a link, and where that leads; empty when none is."""
    at = 0
    while at >= 0:
        at = path.find("/", at + 1)
        part = path if at < 0 else path[:at]
        try:
            return part, os.readlink(part)
        except OSError:  # no link, or nothing that could be followed
            continue
    return "", ""
