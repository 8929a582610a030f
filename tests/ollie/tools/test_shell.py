"""shell: what is given is run, and nothing else."""

import subprocess
from collections.abc import Callable

import pytest

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("cmd", "done"),
    [
        ("echo hello", (0, "hello\n")),
        ("echo 'one two'; echo $((1+2))", (0, "one two\n3\n")),
        ("echo a\necho b", (0, "a\nb\n")),
        ("echo \"it's\" '$HOME' \\\\", (0, "it's $HOME \\\n")),
        ("cat <<'EOF'\n$x `y`\nEOF", (0, "$x `y`\n")),
        ("echo $(echo {a,b})", (0, "a b\n")),
        ("[[ abc == a* ]] && echo bash", (0, "bash\n")),
        ("cat; read x; echo $?", (0, "1\n")),
        ("exit 3", (3, "")),
        ("false; true", (0, "")),
        ("true # comment", (0, "")),
        ("", (0, "")),
        ("é=1; echo é", (0, "é\n")),
    ],
)
def test_commands(cmd: str, done: tuple[int, str], call: Call) -> None:
    """A command line means what it means to bash, with an empty standard input."""
    found = call("shell", cmd=cmd)
    assert (found.returncode, found.stdout) == done


@pytest.mark.parametrize("cmd", ["-x", "--", "--help", "'", "$(", "no-such-command"])
def test_what_is_no_command(cmd: str, call: Call) -> None:
    """What bash cannot run is its error, never an option or a half of something else."""
    found = call("shell", cmd=cmd)
    assert found.returncode != 0
    assert found.stderr


def test_a_megabyte(call: Call) -> None:
    """A script longer than an argument can be runs as well."""
    assert call("shell", cmd="x='" + "y" * 2**20 + "'\necho ${#x}").stdout == "1048576\n"
