"""Which backend and model answer."""

from pathlib import Path

import pytest

from ninep.errors import NinepError
from ollie.backends.registry import Backends
from ollie.backends.replay import ReplayBackend
from ollie.backends.script import Script
from ollie.olliesrv.settings import choice
from ollie.olliesrv.settings.config import Config


class Seeded(ReplayBackend):
    """A backend that takes few sampling keys."""

    parameters = frozenset({"seed", "stop"})


def test_a_sampling_key_that_the_backend_does_not_take_is_refused() -> None:
    """The text names those that it takes; what is no sampling key is none of its business."""
    choice.check(Seeded(Script([])), ["seed", "model"])
    with pytest.raises(NinepError, match=r"^backend replay does not take top_p \(takes: seed stop\)$"):
        choice.check(Seeded(Script([])), ["seed", "top_p"])


def test_a_model_is_what_was_asked_for_or_the_servers_or_the_backends_own(tmp_path: Path) -> None:
    """The server's is for its default backend only."""
    script = tmp_path / "script"
    script.write_text("turns: []")
    backends = Backends({"OLLIE_REPLAY": str(script), "OPENAI_API_KEY": "k"}, Config(backend="replay", model="m"))
    assert choice.model(backends, "replay", "mine") == "mine"
    assert choice.model(backends, "replay", "") == "m"
    assert choice.model(backends, "openai", "") == choice.backend(backends, "openai").default_model
    assert choice.model(backends, "nope", "") == ""
    with pytest.raises(NinepError, match=r"^unknown backend: nope \("):
        choice.backend(backends, "nope")
