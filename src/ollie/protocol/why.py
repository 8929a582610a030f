"""Why a sandbox policy refused something, and which key would allow it.

Pure: a path is judged as it is written, no file is looked at. `explain` reads the output of a failed run (`denials`),
so what it says is a guess from a program's words, held against the policies: it never blames one for what that allows.
"""

import os
from collections.abc import Sequence

from ollie.protocol.denials import NETWORK, UNIX, Denial, denials
from ollie.protocol.policy import Policy
from ollie.protocol.within import rights_at

# operation on a path -> the right that it needs, the words for it, the key of `filesystem` that gives it besides others
_OPERATIONS = {
    "read": ("r", "reading", "to read it", "filesystem.ro"),
    "list": ("r", "listing", "to list it", "filesystem.ro"),
    "write": ("w", "writing", "to write it", "filesystem.rw"),
    "create": ("w", "creating", "to create it", "filesystem.rw"),
    "delete": ("w", "deleting", "to delete it", "filesystem.rw"),
    "execute": ("x", "executing", "to execute it", "filesystem.rox"),
}
_NAMES = frozenset({"create", "delete"})  # what changes the directory of a path


def why(policy: Policy, path: str, operation: str) -> str | None:
    """Why the policy refuses an operation, or None where it allows it.

    Args:
        policy: expanded.
        path: an absolute path; for `connect` and `bind` the address, for `unix` the socket.
        operation: read, list, write, create, delete, execute, connect, bind, or unix.

    Returns:
        `the sandbox policy strict does not allow writing /etc/hosts; allow it with /etc/hosts, or a directory above it,
        in filesystem.rw`.
    """
    return _sentence([policy], path, (operation,)) if _refuses(policy, path, operation) else None


def explain(policies: Sequence[Policy], output: str, cwd: str, command: str = "") -> tuple[str, ...]:
    """What of a failed run's output its policies explain: a sentence for each refusal found, without repetition.

    Args:
        policies: expanded; the run was allowed what all of them allow.
        output: text of the run.
        cwd: absolute; relative paths in the output are meant from here.
        command: what was run.
    """
    found = (_explained(policies, denial, cwd) for denial in denials(output, command))
    return tuple(dict.fromkeys(sentence for sentence in found if sentence is not None))


def _explained(policies: Sequence[Policy], denial: Denial, cwd: str) -> str | None:
    path = os.path.normpath(os.path.join(cwd, denial.path)) if denial.path else ""
    for policy in policies:
        refused = tuple(operation for operation in denial.operations if _refuses(policy, path, operation))
        if refused:
            alike = [other for other in policies if all(_refuses(other, path, operation) for operation in refused)]
            return _sentence(alike, path, refused)
    return None


def _refuses(policy: Policy, path: str, operation: str) -> bool:
    if operation in {NETWORK, "bind"}:
        return not policy.network.enabled
    if operation == UNIX:
        return not policy.network.unix_sockets
    return _OPERATIONS[operation][0] not in rights_at(policy.filesystem, path)


def _sentence(policies: Sequence[Policy], path: str, operations: Sequence[str]) -> str:
    """That policies refuse these operations, and what would allow them."""
    names = " and ".join(policy.name for policy in policies if policy.name)
    who = f"policies {names} do" if len(policies) > 1 else f"policy {names} does" if names else "policy does"
    what, remedy = _words(path, operations)
    return f"the sandbox {who} not allow {what}; allow it with {remedy}"


def _words(path: str, operations: Sequence[str]) -> tuple[str, str]:
    (first, *more) = operations
    if first in {NETWORK, "bind"}:
        return f"to {first} {path}" if path else "the network", "network.enabled: true"
    if first == UNIX:
        return f"the unix socket {path}" if path else "unix sockets", "network.unix_sockets: true"
    _, doing, _, key = _OPERATIONS[first]
    if more:
        doing = _or([_OPERATIONS[operation][1] for operation in operations])
        key = _or([f"{_OPERATIONS[operation][3]} {_OPERATIONS[operation][2]}" for operation in operations])
    place = os.path.dirname(path) if first in _NAMES else path
    return f"{doing} {path}", f"{place}, or a directory above it, in {key}"


def _or(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]])
