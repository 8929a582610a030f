"""Which backends there are, which of them are configured, and which one is used when an agent names none.

A backend is configured by its section in the configuration, by the environment that people already have, or by being
chosen with `OLLIE_BACKEND`. `local` always is. The module of a backend is imported when it is first used; the default
one is made at once, so that a server that cannot use it does not start.
"""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from ninep.errors import unknown
from ollie.backends.interface import Backend, BackendError, ErrorKind


class Choice(Protocol):
    """The part of a configuration that is about backends."""

    @property
    def backend(self) -> str:
        """The backend of agents that name none, or empty."""

    @property
    def model(self) -> str:
        """The model of agents that name none, or empty."""

    @property
    def backends(self) -> Mapping[str, Mapping[str, Any]]:
        """Arguments of backends, by name."""


class Provider(Struct, frozen=True):
    """A kind of backend: its module with `create`, and the arguments that variables of the environment give."""

    module: str
    variables: Mapping[str, str]


PROVIDERS: Final[dict[str, Provider]] = {
    "openai": Provider("ollie.backends.openai", {"OPENAI_API_KEY": "api_key", "OPENAI_BASE_URL": "base_url"}),
    "local": Provider("ollie.backends.local", {}),
    "replay": Provider("ollie.backends.replay", {"OLLIE_REPLAY": "path"}),
}
"""In the order in which they are taken when nothing chooses one."""

_FALLBACK: Final = "local"


class Backends:
    """The backends of one server.

    Args:
        environ: the environment.
        config: the configuration; it comes before the environment, except for `OLLIE_BACKEND` and `OLLIE_MODEL`.

    Raises:
        BackendError: `unknown backend: X (known: …)`, or the default backend cannot be used, with what to do.
    """

    def __init__(self, environ: Mapping[str, str], config: Choice) -> None:
        self._arguments: dict[str, dict[str, Any]] = {}
        self._made: dict[str, Backend] = {}
        self._record_path = environ.get("OLLIE_RECORD", "")
        for name, section in config.backends.items():
            self._arguments[_known(name)] = dict(section)
        for name, provider in PROVIDERS.items():
            given = {argument: environ[key] for key, argument in provider.variables.items() if environ.get(key)}
            if given or name == _FALLBACK:
                self._arguments[name] = given | self._arguments.get(name, {})
        chosen = environ.get("OLLIE_BACKEND") or config.backend
        if chosen:
            self._arguments.setdefault(_known(chosen), {})
        self.default = chosen or next(name for name in PROVIDERS if name in self._arguments)
        self.default_model = environ.get("OLLIE_MODEL") or config.model
        self.get(self.default)

    @property
    def names(self) -> list[str]:
        """The configured backends, the default one first."""
        return [self.default, *(name for name in PROVIDERS if name in self._arguments and name != self.default)]

    def get(self, name: str) -> Backend:
        """The backend of a name, made when it is first asked for.

        Raises:
            BackendError: `unknown backend: X (known: …)`, or it cannot be used, with what to do.
        """
        if name not in self._made:
            module = importlib.import_module(PROVIDERS[_known(name)].module)
            arguments = self._arguments.get(name, {})
            known = inspect.signature(module.create).parameters
            for key in arguments:
                if key not in known:
                    raise BackendError(ErrorKind.bad_request, unknown("key", f"backends.{name}.{key}", known))
            self._made[name] = self._recorded(module.create(**arguments))
        return self._made[name]

    async def close(self) -> None:
        """Close every backend that was made."""
        while self._made:
            _, backend = self._made.popitem()
            await backend.close()

    def _recorded(self, backend: Backend) -> Backend:
        if not self._record_path or backend.name == "replay":
            return backend
        record = importlib.import_module("ollie.backends.record")
        recorder: Backend = record.Recorder(backend, self._record_path)
        return recorder


def _known(name: str) -> str:
    if name not in PROVIDERS:
        raise BackendError(ErrorKind.not_found, unknown("backend", name, PROVIDERS))
    return name
