"""Which of two sandbox policies allows more: the order that ceilings of agents are made of.

Both policies are expanded, and None stands for no sandbox at all. Paths are compared as they are written: the working
directory and its kind are resolved before (`placeholders`), and a link that a tool puts there later is not followed
(`Policy.real`), since a link that a tool may replace must not decide what it may do.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

from ollie.protocol.policy import Advanced, Filesystem, General, Limits, Network, Policy

RIGHTS = {"ro": frozenset("r"), "rox": frozenset("rx"), "rw": frozenset("rw"), "rwx": frozenset("rwx")}
_KEYS = {rights: key for key, rights in RIGHTS.items()}


def within(inner: Policy | None, outer: Policy | None) -> bool:
    """Whether everything that `inner` allows, `outer` allows as well."""
    if outer is None or inner is None:
        return outer is None
    return (
        all(rights <= rights_at(outer.filesystem, path) for path, rights in grants(inner.filesystem))
        and inner.network.enabled <= outer.network.enabled
        and inner.network.unix_sockets <= outer.network.unix_sockets
        and set(inner.env) <= set(outer.env)
        and all(_lower(mine, limit) == mine for mine, limit in _limits(inner.limits, outer.limits))
        and inner.advanced.ldd <= outer.advanced.ldd
        and inner.advanced.add_exec <= outer.advanced.add_exec
        and inner.general.best_effort <= outer.general.best_effort
        # Neither user's files contain the other's, so only the same user is within.
        and inner.general.user == outer.general.user
    )


def tighten(base: Policy, by: Policy) -> Policy:
    """The policy that allows what both allow; it is within `base`, whose user and name it has."""
    limits = (_lower(one, other) for one, other in _limits(base.limits, by.limits))
    return replace(
        base,
        general=General(base.general.best_effort and by.general.best_effort, base.general.user),
        filesystem=_intersection(base.filesystem, by.filesystem),
        network=Network(
            base.network.enabled and by.network.enabled, base.network.unix_sockets and by.network.unix_sockets
        ),
        env=tuple(entry for entry in base.env if entry in by.env),
        limits=Limits(*limits),
        advanced=Advanced(base.advanced.ldd and by.advanced.ldd, base.advanced.add_exec and by.advanced.add_exec),
        real=(*base.real, *by.real),
    )


def grants(filesystem: Filesystem) -> Iterator[tuple[str, frozenset[str]]]:
    """Every path of a policy with its rights, a set of the letters r, w and x."""
    for key, rights in RIGHTS.items():
        for path in getattr(filesystem, key):
            yield path, rights


def rights_at(filesystem: Filesystem, path: str) -> frozenset[str]:
    """The rights that a policy gives for one absolute path: those of every listed path at or above it, together."""
    return frozenset().union(*(rights for above, rights in grants(filesystem) if covers(above, path)))


def covers(above: str, path: str) -> bool:
    """Whether `path` is `above` or lies below it."""
    return path == above or path.startswith(above.rstrip("/") + "/")


def _intersection(one: Filesystem, other: Filesystem) -> Filesystem:
    """Where two listed paths lie one in the other, the deeper one has the rights that both give."""
    rights: dict[str, frozenset[str]] = {}
    for here, mine in grants(one):
        for there, theirs in grants(other):
            deeper = there if covers(here, there) else here
            if covers(here, there) or covers(there, here):
                rights[deeper] = rights.get(deeper, frozenset()) | (mine & theirs)
    return _filesystem(rights.items())


def _filesystem(rights: Iterable[tuple[str, frozenset[str]]]) -> Filesystem:
    paths: dict[str, list[str]] = {key: [] for key in RIGHTS}
    for path, letters in rights:
        paths[_KEYS[letters]].append(path)
    return Filesystem(**{key: tuple(found) for key, found in paths.items()})


def _limits(one: Limits, other: Limits) -> list[tuple[int | None, int | None]]:
    return [(getattr(one, item.name), getattr(other, item.name)) for item in fields(Limits)]


def _lower(one: int | None, other: int | None) -> int | None:
    """The lower of two limits, None being no limit."""
    return min((limit for limit in (one, other) if limit is not None), default=None)
