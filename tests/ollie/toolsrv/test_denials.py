"""The paths that a program says it was refused."""

import pytest

from ollie.toolsrv.denials import refused_paths

PRINTED = [
    ("cat: /etc/shadow: Permission denied\n", ["/etc/shadow"]),
    ("bash: line 1: /root/x: Permission denied\n", ["/root/x"]),
    ("/bin/sh: 1: cannot create /etc/x: Permission denied\n", ["/etc/x"]),
    ("ls: cannot open directory '/root': Permission denied\n", ["/root"]),
    ("rm: cannot remove 'a b': Operation not permitted\n", ["a b"]),
    ("head: cannot open '/x' for reading: Permission denied\n", ["/x"]),
    ("PermissionError: [Errno 13] Permission denied: '/root/y'\n", ["/root/y"]),
    ("Error: EACCES: permission denied, open '/srv/z'\n", ["/srv/z"]),
    ("open /srv/go: permission denied\n", ["/srv/go"]),
    ("touch: cannot touch \u2018/usr/q\u2019: Permission denied\n", ["/usr/q"]),
    ("a: /1: Permission denied\nb: /2: Permission denied\na: /1: Permission denied\n", ["/1", "/2"]),
    ("all is well\n", []),
]


@pytest.mark.parametrize(("output", "paths"), PRINTED)
def test_paths_are_found_in_what_programs_print(output: str, paths: list[str]) -> None:
    """Each is found as printed, once, in order."""
    assert refused_paths(output) == paths
