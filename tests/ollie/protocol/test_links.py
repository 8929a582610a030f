"""Which links in the paths of a policy are followed."""

from pathlib import Path

import pytest

from ollie.protocol.expand import expand
from ollie.protocol.links import resolved
from ollie.protocol.policy import Filesystem, Policy


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A real directory with `project`, which tools write, `safe`, which they do not, and `secret`."""
    real = tmp_path.resolve()
    for name in ("project/deep", "safe/deep", "secret"):
        (real / name).mkdir(parents=True)
    return real


@pytest.mark.parametrize("path", ["/", "/usr", "/no/such/path", "/proc/no/such"])
def test_without_links(path: str) -> None:
    """Nothing changes, whether it is there or not."""
    assert resolved(path, ()) == path


@pytest.mark.parametrize(
    ("link", "target", "path", "leads"),
    [
        ("safe/link", "{}/secret", "safe/link/file", "secret/file"),
        ("safe/link", "../secret", "safe/link", "secret"),
        ("safe/link", "deep", "safe/link/x/y", "safe/deep/x/y"),
        ("safe/link", "{}/project/deep", "safe/link/x", "project/deep/x"),
        ("safe/link", "none", "safe/link", "safe/none"),
        ("safe/link", "link", "safe/link", None),  # in circles
        ("project/link", "{}/secret", "project/link/file", None),
        ("project/deep/link", "/etc", "project/deep/link", None),
    ],
)
def test_links(place: Path, link: str, target: str, path: str, leads: str | None) -> None:
    """They are followed where tools do not write, whatever they lead to."""
    (place / link).symlink_to(target.format(place))
    expected = None if leads is None else f"{place}/{leads}"
    assert resolved(f"{place}/{path}", [f"{place}/project"]) == expected


def test_chain_through_what_tools_write(place: Path) -> None:
    """One of ours that leads to one of a tool's leads nowhere."""
    (place / "safe/link").symlink_to(place / "project/link")
    (place / "project/link").symlink_to(place / "secret")
    assert resolved(f"{place}/safe/link", ()) == f"{place}/secret"
    assert resolved(f"{place}/safe/link", [f"{place}/project"]) is None
    assert resolved(f"{place}/safe/link", ["/"]) is None


def test_link_above_what_had_none(place: Path) -> None:
    """The place itself, or a directory above it, became a link after it was named."""
    (place / "safe/link").symlink_to(place / "secret")
    inside = f"{place}/safe/link/x"
    assert resolved(inside, ()) == f"{place}/secret/x"
    assert resolved(inside, (), [f"{place}/safe/link"]) is None
    assert resolved(inside, (), [inside]) is None
    assert resolved(inside, (), [f"{place}/safe/other", "/"]) == f"{place}/secret/x"


def test_expanded_policies_name_what_is_written_without_links(place: Path) -> None:
    """But for CWD and TMPDIR, which a tool may have made links since, and for what a tool could have made one."""
    (place / "ours").symlink_to("safe")
    (place / "project/theirs").symlink_to("../secret")
    files = Filesystem(
        ro=(f"{place}/ours",),
        rw=("{CWD}", f"{place}/project", f"{place}/project/theirs", f"{place}/ours/new"),
        rwx=("{TMPDIR}/x", f"{place}/ours"),
    )
    values = {"CWD": f"{place}/ours", "TMPDIR": f"{place}/ours"}
    assert expand(Policy(filesystem=files), values).filesystem == Filesystem(
        ro=(f"{place}/ours",),
        rw=(f"{place}/ours", f"{place}/project", f"{place}/project/theirs", f"{place}/safe/new"),
        rwx=(f"{place}/ours/x", f"{place}/safe"),
    )


def test_equal_policies_keep_their_names(place: Path) -> None:
    """What was made of one is given for the other, under the other's name."""
    values = {"CWD": str(place)}
    names = [expand(Policy(filesystem=Filesystem(ro=("{CWD}",)), name=name), values).name for name in ("a", "b", "a")]
    assert names == ["a", "b", "a"]
