"""Which backends are configured, and which is the default."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ollie.backends.interface import BackendError, parse_parameter
from ollie.backends.openai import OpenAIBackend
from ollie.backends.record import Recorder
from ollie.backends.registry import Backends


@dataclass
class Config:
    """The part of a configuration that is about backends."""

    backend: str = ""
    model: str = ""
    backends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@pytest.fixture
def replay(tmp_path: Path) -> str:
    path = tmp_path / "script.yaml"
    path.write_text("turns: [{replies: [{text: hi}]}]")
    return str(path)


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local backend finds a file where its weights could be, and nothing of the user's."""
    path = tmp_path / "weights.gguf"
    path.write_bytes(b"GGUF")
    monkeypatch.setenv("OLLIE_MODEL_PATH", str(path))


@pytest.mark.parametrize(
    ("environ", "config", "names", "model"),
    [
        ({"OPENAI_API_KEY": "k"}, Config(), ["openai", "local"], ""),
        ({"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": ""}, Config(), ["openai", "local"], ""),
        ({"OPENAI_API_KEY": "k", "OLLIE_REPLAY": "SCRIPT"}, Config(), ["openai", "local", "replay"], ""),
        ({"OPENAI_API_KEY": "k", "OLLIE_REPLAY": "SCRIPT", "OLLIE_BACKEND": "replay", "OLLIE_MODEL": "m"}, Config(),
         ["replay", "openai", "local"], "m"),
        ({"OLLIE_REPLAY": "SCRIPT"}, Config(backend="replay", model="c"), ["replay", "local"], "c"),
        ({"OLLIE_BACKEND": "openai", "OLLIE_MODEL": "e"},
         Config(backend="replay", model="c", backends={"openai": {"base_url": "http://h"}}), ["openai", "local"], "e"),
    ],
)  # fmt: skip
def test_names_and_defaults(replay: str, environ: dict[str, str], config: Config, names: list[str], model: str) -> None:
    """Environment, configuration and `OLLIE_BACKEND` say which backends there are and which comes first."""
    backends = Backends({key: value.replace("SCRIPT", replay) for key, value in environ.items()}, config)
    assert (backends.names, backends.default, backends.default_model) == (names, names[0], model)


def test_nothing_configured_is_local() -> None:
    """Without key, configuration or choice the embedded model is the backend."""
    pytest.importorskip("xllamacpp", reason="the embedded model needs the extra `local`")
    assert Backends({}, Config()).names == ["local"]


@pytest.mark.parametrize(
    ("environ", "config"),
    [({"OLLIE_BACKEND": "gpt"}, Config()), ({}, Config(backend="gpt")), ({}, Config(backends={"gpt": {}}))],
)
def test_an_unknown_backend_is_refused(environ: dict[str, str], config: Config) -> None:
    """A backend that does not exist is an error that lists those that do."""
    with pytest.raises(BackendError, match=r"unknown backend: gpt \(known: openai local replay\)"):
        Backends(environ, config)


def test_an_unknown_key_is_refused() -> None:
    """A key that a backend does not have is an error that lists those it has, without any value."""
    with pytest.raises(BackendError) as caught:
        Backends({"OLLIE_BACKEND": "openai"}, Config(backends={"openai": {"api_kee": "sk-secret"}}))
    assert str(caught.value) == "unknown key: backends.openai.api_kee (known: api_key base_url silence_s)"


def test_a_default_that_cannot_be_used_is_refused() -> None:
    """A server does not start with a default backend that needs something it does not have."""
    with pytest.raises(BackendError, match="set OPENAI_API_KEY"):
        Backends({"OLLIE_BACKEND": "openai"}, Config())
    with pytest.raises(BackendError, match="set OLLIE_REPLAY"):
        Backends({"OLLIE_BACKEND": "replay"}, Config())


def test_the_configuration_comes_before_the_environment() -> None:
    """A section of the configuration counts more than variables of the environment."""
    config = Config(backends={"openai": {"base_url": "http://mine/v1"}})
    backend = Backends({"OPENAI_BASE_URL": "http://theirs/v1", "OPENAI_API_KEY": "k"}, config).get("openai")
    assert isinstance(backend, OpenAIBackend)
    assert backend._http.base_url == "http://mine/v1"
    assert backend._http._headers == {"Authorization": "Bearer k"}


async def test_backends_are_made_once_and_closed(replay: str) -> None:
    """A backend is made when it is first asked for, and is the same from then on."""
    backends = Backends({"OLLIE_REPLAY": replay, "OPENAI_API_KEY": "k", "OLLIE_BACKEND": "replay"}, Config())
    assert backends.get("openai") is backends.get("openai")
    assert backends.get("replay").name == "replay"
    await backends.close()


async def test_every_backend_but_replay_can_be_recorded(replay: str, tmp_path: Path) -> None:
    """`OLLIE_RECORD` names the script that is written."""
    environ = {"OLLIE_REPLAY": replay, "OPENAI_API_KEY": "k", "OLLIE_RECORD": str(tmp_path / "new.yaml")}
    backends = Backends(environ, Config())
    assert isinstance(backends.get("openai"), Recorder)
    assert not isinstance(backends.get("replay"), Recorder)
    await backends.close()


def test_modules_are_imported_when_they_are_used() -> None:
    """Whoever plays a script imports no HTTP."""
    code = "import sys, ollie.backends.registry, ollie.backends.replay; assert 'aiohttp' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0.5", 0.5),
        ("temperature", "1", 1.0),
        ("max_tokens", "100", 100),
        ("stop", "END", ["END"]),
        ("stop", '["a", "b"]', ["a", "b"]),
        ("reasoning_effort", "low", "low"),
    ],
)
def test_sampling_keys(name: str, text: str, value: Any) -> None:
    """The text that `cfg` takes for a sampling key is its value."""
    assert parse_parameter(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("temperature", "hot", "temperature must be a number: hot"),
        ("max_tokens", "1.5", "max_tokens must be a whole number: 1.5"),
        ("stop", "[1]", r"stop must be a JSON list of texts: \[1\]"),
    ],
)
def test_sampling_keys_that_cannot_be(name: str, text: str, problem: str) -> None:
    """A value that a sampling key cannot have is refused with what it should be."""
    with pytest.raises(ValueError, match=problem):
        parse_parameter(name, text)
