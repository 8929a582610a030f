"""Rulesets that one process has made and another one is offered."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ollie.sandbox import landlock
from ollie.sandbox.offers import Offers
from ollie.sandbox.requests import Made, Plan, Ruleset
from ollie.sandbox.rulesets import holds, make

Inside = Callable[..., dict[str, object]]
REFUSED = "Permission denied"
NOTHING = "No such file or directory"

# Enters what the caller made, and says which files it can read then.
OFFERED = """
import os, sys
from ollie.sandbox import rulesets
from ollie.sandbox.syscalls import PR_SET_NO_NEW_PRIVS, prctl
prctl(PR_SET_NO_NEW_PRIVS, 1)
rulesets.enter(int(sys.argv[1]))
for name in sys.argv[2:]:
    try:
        print(open(name).read(), end=" ")
    except PermissionError:
        print("refused", end=" ")
"""

pytestmark = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")


def test_a_policy_means_what_its_paths_are_now(inside: Inside, place: Path) -> None:
    """A ruleset that is kept is no memory of former files: each program gets what its policy names when it starts."""
    assert inside("paths_replaced", place=str(place)) == {
        "absent": [NOTHING, NOTHING, NOTHING],
        "made": ["first", "first", "first"],
        "replaced": ["second", "second", "first"],
        "moved": ["second", "second", REFUSED],
        "links": ["second", "second", REFUSED],
        "gone": [NOTHING, NOTHING, REFUSED],
    }


def test_what_one_program_made_is_used_by_the_next(inside: Inside, place: Path) -> None:
    """A later program takes it over as it is; in another directory it makes its own."""
    assert inside("offered", place=str(place)) == {"kept": [1, 1, 2], "same": True}


def test_more_paths_than_a_message_holds(inside: Inside, place: Path) -> None:
    """The ruleset is made for each run then, and nothing of it stays behind."""
    assert inside("many_paths", place=str(place), count=7000) == {"left": 0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_what_is_mounted_again_is_another_file(inside: Inside, place: Path) -> None:
    """A ruleset that is kept would allow nothing of it, though device and inode are those that it was made with."""
    assert inside("mounted_again", place=str(place)) == {"identities": 1, "shown": ["here"] * 6}


def _reading(*paths: Path) -> Ruleset:
    right = landlock.READ_FILE
    return Ruleset(struct.pack("=QQQ", right, 0, 0), tuple((str(path), right) for path in paths), (), ())


def test_holds_while_every_path_leads_to_the_same_file(tmp_path: Path) -> None:
    """Another file, one more, or one less, and it holds no longer."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    ruleset = _reading(first, second)
    made = make(ruleset)
    os.close(made.descriptor)
    assert holds(ruleset, made.identities)
    first.write_text("content is no matter")
    assert holds(ruleset, made.identities)
    second.touch()
    assert not holds(ruleset, made.identities)
    second.unlink()
    assert holds(ruleset, made.identities)
    (tmp_path / "other").touch()
    (tmp_path / "other").rename(first)
    assert not holds(ruleset, made.identities)
    first.unlink()
    assert not holds(ruleset, made.identities)


def test_the_identity_of_a_file_is_not_used_again(tmp_path: Path) -> None:
    """A file that a ruleset allows and that is removed does not pass its inode to the next one."""
    path = tmp_path / "file"
    path.touch()
    made = make(_reading(path))
    for _ in range(50):
        path.unlink()
        path.touch()
        found = path.stat()
        assert (found.st_dev, found.st_ino) != made.identities[0]
    os.close(made.descriptor)


def test_another_process_enters_what_one_has_made(tmp_path: Path) -> None:
    """It is restricted as the maker would be."""
    for name in ("allowed", "other"):
        (tmp_path / name).write_text(name)
    made = make(_reading(tmp_path / "allowed"))
    os.set_inheritable(made.descriptor, True)
    argv = [sys.executable, "-c", OFFERED, str(made.descriptor), str(tmp_path / "allowed"), str(tmp_path / "other")]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, pass_fds=(made.descriptor,))
    os.close(made.descriptor)
    assert done.stdout == "allowed refused "


def _plan(name: str, cwd: str = "/") -> Plan:
    return Plan((name,), "", {}, cwd, (), None, True, Ruleset(name.encode(), (), (), ()), None, b"")


def _made() -> Made:
    return Made(os.memfd_create("ruleset"), ((1, 2),))


def _open(made: Made) -> bool:
    return Path(f"/proc/self/fd/{made.descriptor}").exists()


def test_what_is_offered() -> None:
    """What was made last for the same ruleset in the same directory, and for no other."""
    offers = Offers()
    first, second, elsewhere = _made(), _made(), _made()
    assert offers.add_to(_plan("x"), [0]) == (_plan("x"), [0])
    offers.keep(_plan("x"), first)
    offers.keep(_plan("x", "/cwd"), elsewhere)
    assert offers.add_to(_plan("x"), [0]) == (_plan("x")._replace(made=first.identities), [0, first.descriptor])
    assert offers.add_to(_plan("y"), [0]) == (_plan("y"), [0])
    offers.keep(_plan("x"), second)
    assert not _open(first)
    assert offers.add_to(_plan("x"), [])[1] == [second.descriptor]
    offers.close()
    late = _made()
    offers.keep(_plan("x"), late)
    assert not any(map(_open, (second, elsewhere, late)))


def test_no_more_are_kept_than_a_few() -> None:
    """The oldest goes when there are many."""
    offers = Offers()
    made = [_made() for _ in range(20)]
    for number, each in enumerate(made):
        offers.keep(_plan(str(number)), each)
    assert [_open(each) for each in made] == [False] * 4 + [True] * 16
    offers.close()
