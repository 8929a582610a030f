"""What a program was refused, read from what it printed.

A kernel that denies an access does not say why, and no program says which policy it met. But nearly all print the file
and the errno's text on one line. This module finds those; the policy then says whether it was the one that refused.
"""

import re

LIMIT = 3

_REASON = re.compile(r"[Pp]ermission denied|Operation not permitted|EACCES|EPERM")
# U+2018 and U+2019 are what GNU programs quote with where the locale can show them.
_QUOTED = re.compile(r"""'([^']+)'|"([^"]+)"|\u2018([^\u2019]+)\u2019|`([^`']+)[`']""")


def refused_paths(output: str) -> list[str]:
    """The paths that `output` says were refused, as printed, in order, each once, at most three."""
    found: dict[str, None] = {}
    for line in output.splitlines():
        reason = _REASON.search(line)
        if reason and len(found) < LIMIT:
            found.update(dict.fromkeys(_paths(line, line[: reason.start()])))
    return list(found)[:LIMIT]


def _paths(line: str, before: str) -> list[str]:
    """The quoted names of a line, else the last word before its reason: `cat: /etc/x: Permission denied`."""
    quoted = [next(filter(None, match.groups())) for match in _QUOTED.finditer(line)]
    words = before.rstrip().removesuffix(":").split()
    return quoted or words[-1:]
