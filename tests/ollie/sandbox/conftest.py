"""Everything here that signals runs in a PID namespace of its own, so that a mistake reaches nothing outside."""

import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@functools.cache
def namespace_command() -> tuple[str, ...] | None:
    """The command that starts a process in a new PID namespace with its own /proc, None where there is none."""
    # When the test run is killed, so is unshare, and with it all of the namespace.
    start = ("setpriv", "--pdeathsig", "KILL", "unshare")
    plain = ("--pid", "--fork", "--mount-proc", "--kill-child")
    for command in ((*start, *plain), (*start, "--user", "--map-root-user", *plain)):
        try:
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                return command
        except FileNotFoundError:
            return None
    return None


class Driver:
    """A Python process in its own PID namespace that runs the scenarios of `scenarios.py`, one after the other."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._process = subprocess.Popen(
            [*command, sys.executable, str(HERE / "driver.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": f"{Path(sys.executable).resolve().parent}:/usr/local/bin:/usr/bin:/bin", "SECRET": "hunter2"},
        )

    def __call__(self, scenario: str, **arguments: object) -> dict[str, object]:
        """Run a scenario and return what it found; what it raises fails the test."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"scenario": scenario, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the driver ended"
        result: dict[str, object] = json.loads(answer)
        if "failure" in result:
            pytest.fail(f"{scenario}: {result['failure']}", pytrace=False)
        return result

    def close(self) -> None:
        """End the driver, and its namespace with it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="session")
def inside() -> Iterator[Driver]:
    command = namespace_command()
    if command is None:
        pytest.skip(
            "no PID namespace can be made here (unshare --pid fails), and nothing that signals runs without one"
        )
    driver = Driver(command)
    yield driver
    driver.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can reach, with `cwd` and `tmp`, and `outside/secret` which no policy names."""
    directory = Path(tempfile.mkdtemp(prefix="ollie-test-"))
    directory.chmod(0o755)
    for name in ("cwd", "tmp", "outside"):
        (directory / name).mkdir()
        (directory / name).chmod(0o777)
    (directory / "outside" / "secret").write_text("secret")
    (directory / "outside" / "secret").chmod(0o666)
    yield directory
    shutil.rmtree(directory)
