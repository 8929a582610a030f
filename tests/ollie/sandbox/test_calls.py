"""Python functions as programs, in the restricted child and without a new interpreter."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inside = Callable[..., dict[str, Any]]
POLICIES = pytest.mark.parametrize("policy", ["strict", "default", None], ids=["strict", "default", "no sandbox"])


@POLICIES
@pytest.mark.parametrize("status", [0, 3])
def test_a_call_is_a_program(inside: Inside, place: Path, policy: object, status: int) -> None:
    """JSON comes in on standard input, text goes out, what is returned is the status; environment and directory fit."""
    result = inside(
        "call", place=str(place), function="echo", arguments=f'{{"text": "h\u00e9", "status": {status}}}', policy=policy
    )
    words = "h\u00e9 " + f"{place}/cwd ['HOME', 'LANG', 'PATH', 'TMPDIR'] ['called:echo']\n"
    assert result == {"output": words, "status": status, "left": 0}


@pytest.mark.parametrize(
    ("function", "output", "status"),
    [
        ("raw", "\\xff\x00warned", 0),
        ("fail", "called:fail: ValueError: something is wrong\n", 1),
        ("leave", "left\n", 1),
        ("missing", "called:missing: AttributeError: module 'called' has no attribute 'missing'\n", 1),
        ("import_late", "wave called.py\n", 0),
    ],
)
def test_how_a_call_ends(inside: Inside, place: Path, function: str, output: str, status: int) -> None:
    """Bytes pass as they are, exceptions are one line and status 1, late imports work."""
    result = inside("call", place=str(place), function=function, arguments="{}", policy="strict")
    if function == "raw":
        assert sorted(result["output"]) == sorted(output)
    else:
        assert result["output"] == output
    assert result["status"] == status


def test_a_call_is_restricted(inside: Inside, place: Path) -> None:
    """A function reads no more than a program does."""
    arguments = f'{{"path": "{place}/outside/secret"}}'
    result = inside("call", place=str(place), function="read_secret", arguments=arguments, policy="strict")
    assert "PermissionError: [Errno 13] Permission denied" in result["output"]
    assert result["status"] == 1


def test_what_a_call_leaves_is_ended(inside: Inside, place: Path) -> None:
    """A process that a function leaves behind is ended and counted."""
    result = inside("call", place=str(place), function="daemon", arguments="{}", policy="default")
    assert (result["status"], result["left"]) == (0, 1)
