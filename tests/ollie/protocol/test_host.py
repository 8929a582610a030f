"""Conditions on a host, and how files are started."""

import subprocess
import sys
from pathlib import Path

import pytest

from ollie.protocol.host import Host, HostError

_HOST = Host("linux", "x86_64", "/usr/bin:/bin")


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ({}, True),
        ({"platform": "linux"}, True),
        ({"platform": ["darwin", "linux"]}, True),
        ({"platform": "darwin"}, False),
        ({"arch": "amd64"}, True),
        ({"arch": "x86_64"}, True),
        ({"arch": "arm64"}, False),
        ({"has": "sh"}, True),
        ({"has": ["sh", "cat"]}, True),
        ({"has": ["sh", "no-such-program"]}, False),
        ({"platform": "linux", "has": "no-such-program"}, False),
    ],
)
def test_fits(when: dict[str, object], *, fits: bool) -> None:
    """Every condition must hold; lists are alternatives, except of programs."""
    assert _HOST.fits(when) is fits


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ({"os": "linux"}, "unknown condition in when: os (known: platform arch has)"),
        ({"has": 5}, "has in when is not a name or a list of names"),
        ({"has": []}, "has in when is not a name or a list of names"),
    ],
)
def test_bad_conditions(when: dict[str, object], text: str) -> None:
    """A condition that nobody knows is an error, never just false."""
    with pytest.raises(HostError) as caught:
        _HOST.fits(when)
    assert str(caught.value) == text


def test_current() -> None:
    """The current host looks for programs along the given path."""
    assert Host.current({"PATH": "/nowhere"}) == Host(sys.platform, Host.current().arch, "/nowhere")
    assert Host.current({"PATH": "/nowhere"}).which("sh") is None


@pytest.mark.parametrize(
    ("name", "content", "argv"),
    [
        ("a", "#!/bin/sh\n", ["/bin/sh"]),
        ("a", "#! /bin/sh -e\n", ["/bin/sh", "-e"]),
        ("a", "#!/usr/bin/env sh\n", ["{sh}"]),
        ("a", "#!/usr/bin/env -S sh -e -u\n", ["{sh}", "-e", "-u"]),
        ("a.py", "print()\n", [sys.executable]),
        ("a", "echo\n", ["{sh}"]),
        ("a", "", ["{sh}"]),
    ],
)
def test_start(name: str, content: str, argv: list[str], tmp_path: Path) -> None:
    """Scripts are started through their interpreters, with the arguments of their first line."""
    file = tmp_path / name
    file.write_text(content)
    expected = [word.format(sh=_HOST.find("sh")) for word in argv]
    assert _HOST.start(str(file)) == (*expected, str(file))
    subprocess.run(_HOST.start(str(file)), check=True, capture_output=True)


def test_start_a_program() -> None:
    """A binary is started as it is."""
    assert _HOST.start("/bin/cat") == ("/bin/cat",)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("#!/usr/bin/env no-such-program\n", "program not found: no-such-program"),
        ("#!/no/such/program\n", "program not found: /no/such/program"),
        ("#!\n", "interpreter in the first line not understood"),
        ("#!/usr/bin/env -i sh\n", "interpreter in the first line not understood"),
    ],
)
def test_start_refuses(content: str, text: str, tmp_path: Path) -> None:
    """A script whose interpreter is missing is known as such before it is called."""
    file = tmp_path / "a"
    file.write_text(content)
    with pytest.raises(HostError) as caught:
        _HOST.start(str(file))
    assert str(caught.value) == text


def test_start_of_nothing(tmp_path: Path) -> None:
    """A file that is not there cannot be started."""
    with pytest.raises(HostError, match="cannot be read: no such file or directory"):
        _HOST.start(str(tmp_path / "a"))
