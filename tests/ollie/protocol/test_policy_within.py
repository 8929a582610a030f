"""The order of policies: what lies within what, and the intersection of two."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.protocol.policy import Advanced, Filesystem, General, Limits, Network, Policy
from ollie.protocol.within import RIGHTS, rights_at, tighten, within

BASE = Policy(
    filesystem=Filesystem(ro=("/etc",), rox=("/usr",), rw=("/proj",), rwx=("/proj/build",)),
    network=Network(enabled=True),
    env=("A", "B=1"),
    limits=Limits(memory=100, processes=10),
    advanced=Advanced(add_exec=True),
)


def files(**paths: tuple[str, ...]) -> Policy:
    return replace(BASE, filesystem=Filesystem(**paths))


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (BASE, True),
        (Policy(general=BASE.general, limits=BASE.limits), True),
        # paths
        (files(ro=("/etc/ssl",)), True),
        (files(ro=("/etcetera",)), False),
        (files(ro=("/",)), False),
        (files(ro=("/usr/lib",)), True),
        (files(rox=("/etc",)), False),
        (files(rw=("/usr",)), False),
        (files(rw=("/proj/deep/below",)), True),
        (files(rox=("/proj",)), False),
        (files(rwx=("/proj",)), False),
        (files(rwx=("/proj/build/x",)), True),
        (files(ro=("/proj", "/usr"), rox=("/proj/build",)), True),
        # the rest
        (replace(BASE, network=Network(enabled=False)), True),
        (replace(BASE, network=Network(enabled=True, unix_sockets=True)), False),
        (replace(BASE, network=Network(enabled=False, unix_sockets=True)), False),
        (replace(BASE, env=("A",)), True),
        (replace(BASE, env=("B",)), False),
        (replace(BASE, env=("B=2",)), False),
        (replace(BASE, limits=Limits(memory=99, processes=10, cpu_s=1)), True),
        (replace(BASE, limits=Limits(memory=101, processes=10)), False),
        (replace(BASE, limits=Limits(memory=100)), False),
        (replace(BASE, advanced=Advanced()), True),
        (replace(BASE, advanced=Advanced(ldd=True)), False),
        (replace(BASE, general=General(best_effort=False)), True),
        (replace(BASE, general=General(user="other")), False),
        (replace(BASE, name="another"), True),
        (None, False),
    ],
)
def test_within(inner: Policy | None, expected: object) -> None:
    """One table of what allows no more than the policy above."""
    assert within(inner, BASE) is expected


@pytest.mark.parametrize("inner", [BASE, Policy(), None])
def test_everything_is_within_no_sandbox(inner: Policy | None) -> None:
    """No sandbox allows everything."""
    assert within(inner, None)


def test_rights_add_up() -> None:
    """What two listed paths give together, a policy that gives it in one is within."""
    outer = Policy(filesystem=Filesystem(rox=("/a",), rw=("/a/b",)))
    assert rights_at(outer.filesystem, "/a/b/c") == set("rwx")
    assert within(Policy(filesystem=Filesystem(rwx=("/a/b/c",))), outer)
    assert not within(Policy(filesystem=Filesystem(rwx=("/a/c",))), outer)


def test_strictness_of_the_outer_policy() -> None:
    """What may be enforced in part is not within what must be enforced."""
    assert not within(BASE, replace(BASE, general=General(best_effort=False)))


components = st.sampled_from(["a", "b", "ab"])
paths = st.lists(components, max_size=3).map(lambda parts: "/" + "/".join(parts))
some_paths = st.lists(paths, max_size=3).map(tuple)
filesystems = st.builds(Filesystem, some_paths, some_paths, some_paths, some_paths)
limits = st.none() | st.integers(1, 5)
policies = st.builds(
    Policy,
    general=st.builds(General, st.booleans(), st.none()),
    filesystem=filesystems,
    network=st.builds(Network, st.booleans(), st.booleans()),
    env=st.lists(st.sampled_from(["A", "B", "A=1"]), max_size=2, unique=True).map(tuple),
    limits=st.builds(Limits, limits, limits),
    advanced=st.builds(Advanced, st.booleans(), st.booleans()),
)


@given(policies, policies)
def test_tightened_is_within_both(one: Policy, other: Policy) -> None:
    """The intersection allows no more than either."""
    both = tighten(one, other)
    assert within(both, one)
    assert within(both, other)


@given(policies, policies, paths)
def test_tightened_allows_what_both_allow(one: Policy, other: Policy, path: str) -> None:
    """At every path the intersection gives the rights that both give."""
    both = tighten(one, other)
    expected = rights_at(one.filesystem, path) & rights_at(other.filesystem, path)
    assert rights_at(both.filesystem, path) == expected


@given(policies, policies)
def test_within_means_nothing_is_lost(one: Policy, other: Policy) -> None:
    """Tightening by a policy that it is within changes nothing that it allows."""
    if within(one, other):
        assert within(one, tighten(one, other))


@given(policies, policies, policies)
def test_order(one: Policy, two: Policy, three: Policy) -> None:
    """Each is within itself, and what is within something within a third is within that."""
    assert within(one, one)
    if within(one, two) and within(two, three):
        assert within(one, three)


def test_tightened_keeps_its_user_and_name() -> None:
    """A caller cannot choose as whom tools run by tightening."""
    base = replace(BASE, general=General(user="tools"), name="mine")
    result = tighten(base, replace(BASE, general=General(user="root"), name="theirs"))
    assert (result.general.user, result.name) == ("tools", "mine")


def test_the_rights_of_keys_are_closed() -> None:
    """The common rights of any two keys are those of a key, so that an intersection can be written as a policy."""
    for one in RIGHTS.values():
        for other in RIGHTS.values():
            assert one & other in RIGHTS.values()
            assert one | other in RIGHTS.values()
