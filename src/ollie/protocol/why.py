"""Why a sandbox policy refused something, and which key would allow it.

Pure: a path is judged as it is written, no file is looked at. `explain` reads the output of a failed run, so what it
says is a guess from the program's words, held against the policy: it never blames the policy for what that allows.
"""

import os
import re

from ollie.protocol.policy import Policy
from ollie.protocol.within import rights_at

# operation on a path -> the right that it needs, the word for it, the keys of `filesystem` that give it
_OPERATIONS = {
    "read": ("r", "reading", "filesystem.ro"),
    "list": ("r", "listing", "filesystem.ro"),
    "execute": ("x", "executing", "filesystem.rox"),
    "write": ("w", "writing", "filesystem.rw"),
    "create": ("w", "creating", "filesystem.rw"),
    "delete": ("w", "deleting", "filesystem.rw"),
}
_WITH_EXECUTE = "filesystem.rwx"

_LIMIT_LINES = 200
_REFUSAL = re.compile(r"permission denied|operation not permitted|EACCES|EPERM|cross-device link|EXDEV", re.IGNORECASE)
_NETWORK = re.compile(r"\b(socket|connect|network|resolve|getaddrinfo|bind|listen)", re.IGNORECASE)
_UNIX = re.compile(r"AF_UNIX|unix socket|\.sock\b", re.IGNORECASE)
# A quoted word, a word with a slash, or the word before a colon, as programs write the name of a file.
_PATH = re.compile(
    r"""['"`\u2018]([^'"`\u2019\n]+)['"`\u2019]|((?:\.{0,2}/)[^\s:'"`\u2019,;()]+)|([^\s:'"]*/[^\s:'"]*): """
)


def why(policy: Policy, path: str, operation: str) -> str | None:
    """Why the policy refuses an operation, or None where it allows it.

    Args:
        policy: expanded.
        path: an absolute path; for `connect` and `bind` the address, for `unix` the socket.
        operation: read, list, write, create, delete, execute, connect, bind, or unix.

    Returns:
        `the sandbox policy strict does not allow writing /etc/hosts; a path above it in filesystem.rw would`.
    """
    if operation in {"connect", "bind"}:
        return None if policy.network.enabled else _sentence(policy, f"to {operation} {path}", "network.enabled: true")
    if operation == "unix":
        allowed = policy.network.unix_sockets
        return None if allowed else _sentence(policy, f"the unix socket {path}", "network.unix_sockets: true")
    right, doing, key = _OPERATIONS[operation]
    had = rights_at(policy.filesystem, path)
    if right in had:
        return None
    if {right, *had} >= {"w", "x"}:
        key = _WITH_EXECUTE
    return _sentence(policy, f"{doing} {path}", f"{path}, or a directory above it, in {key}")


def explain(policy: Policy, output: str, cwd: str) -> tuple[str, ...]:
    """What of a failed run's output the policy explains: a sentence for each refusal found, without repetition.

    Args:
        policy: expanded.
        output: text of the run; the last 200 lines are looked at.
        cwd: absolute; relative paths in the output are meant from here.
    """
    found: dict[str, None] = {}
    for line in output.splitlines()[-_LIMIT_LINES:]:
        if _REFUSAL.search(line):
            found.update(dict.fromkeys(_explanations(policy, line, cwd)))
    return tuple(found)


def _explanations(policy: Policy, line: str, cwd: str) -> list[str]:
    paths = _paths(line, cwd)
    # The least that the policy refuses: a program that may read what it names wanted to write it, else to execute it.
    for operations in (("read", "write"), ("execute",)):
        if explained := [found for path in paths if (found := _first(policy, path, operations))]:
            return explained
    if _UNIX.search(line) and not policy.network.unix_sockets:
        return [_sentence(policy, "unix sockets", "network.unix_sockets: true")]
    if _NETWORK.search(line) and not policy.network.enabled:
        return [_sentence(policy, "the network", "network.enabled: true")]
    return []


def _first(policy: Policy, path: str, operations: tuple[str, ...]) -> str | None:
    return next((reason for operation in operations if (reason := why(policy, path, operation))), None)


def _paths(line: str, cwd: str) -> list[str]:
    """The paths in one line of output that could be meant, absolute."""
    words = [next(group for group in match.groups() if group) for match in _PATH.finditer(line)]
    return [os.path.normpath(word if word.startswith("/") else f"{cwd}/{word}") for word in words]


def _sentence(policy: Policy, what: str, remedy: str) -> str:
    name = f" {policy.name}" if policy.name else ""
    return f"the sandbox policy{name} does not allow {what}; allow it with {remedy}"
