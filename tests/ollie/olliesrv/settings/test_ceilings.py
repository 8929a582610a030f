"""Whether one upper bound lies within another."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninep.errors import NinepError
from ollie.olliesrv.settings.ceilings import Ceiling, ceiling, covers

WIDE = Ceiling(directory="/w", tools=("read", "shell"), max_cost_usd=2.0)


@pytest.mark.parametrize(
    ("changes", "covered"),
    [
        ({}, True),
        ({"directory": "/w/sub"}, True),
        ({"directory": "/"}, False),
        ({"directory": "/wide"}, False),
        ({"tools": ()}, True),
        ({"tools": ("shell",)}, True),
        ({"tools": ("fetch",)}, False),
        ({"max_cost_usd": 1.0}, True),
        ({"max_cost_usd": 2.5}, False),
        ({"max_cost_usd": 0.0}, False),
    ],
)
def test_each_part_counts(changes: dict[str, object], covered: bool) -> None:
    """A budget of 0 is no bound at all, and so lies within no other."""
    assert covers(WIDE, msgspec.structs.replace(WIDE, **changes)) is covered


def test_a_budget_without_bound_covers_every_budget() -> None:
    """Its own included."""
    free = msgspec.structs.replace(WIDE, max_cost_usd=0.0)
    assert covers(free, WIDE)
    assert covers(free, free)


@pytest.mark.usefixtures("place")
def test_policies_count(tmp_path: Path) -> None:
    """The strict one lies within the default one of the same directory, not the other way round; no sandbox in none."""
    default, strict = (ceiling(str(tmp_path), name, (), 0, yolo=False) for name in ("", "strict"))
    free = ceiling(str(tmp_path), "", (), 0, yolo=True)
    assert covers(default, strict)
    assert not covers(strict, default)
    assert covers(free, default)
    assert not covers(default, free)


@pytest.mark.usefixtures("place")
def test_a_directory_below_lies_within(tmp_path: Path) -> None:
    """With the same named policy, whose rules follow the directory."""
    outer = ceiling(str(tmp_path), "", (), 0, yolo=False)
    inner = ceiling(str(tmp_path / "sub"), "", (), 0, yolo=False)
    assert covers(outer, inner)
    assert not covers(inner, outer)


@pytest.mark.usefixtures("place")
def test_an_unknown_sandbox_is_refused() -> None:
    """With its name."""
    with pytest.raises(NinepError, match="nope"):
        ceiling("/", "nope", (), 0, yolo=False)


BOUNDS = st.builds(
    Ceiling,
    directory=st.sampled_from(["/", "/a", "/a/b", "/a/c", "/ab"]),
    tools=st.sampled_from([(), ("x",), ("y",), ("x", "y")]),
    max_cost_usd=st.sampled_from([0.0, 1.0, 2.0]),
)


@given(BOUNDS, BOUNDS, BOUNDS)
def test_within_is_an_order(one: Ceiling, two: Ceiling, three: Ceiling) -> None:
    """Everything covers itself; what covers a cover covers; two that cover each other are one."""
    assert covers(one, one)
    if covers(one, two) and covers(two, three):
        assert covers(one, three)
    if covers(one, two) and covers(two, one):
        assert one == two
