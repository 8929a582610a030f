"""Which backend and model answer: what was asked for, else the server's, else the backend's own."""

from collections.abc import Iterable

from ollie.backends.interface import PARAMETERS, Backend
from ollie.backends.registry import Backends
from ollie.engine.messages import BackendError
from ollie.olliesrv.errors import RefusedError


def backend(backends: Backends, name: str) -> Backend:
    """The backend of that name; a `RefusedError` when there is none, or it cannot be used."""
    try:
        return backends.get(name)
    except BackendError as error:
        raise RefusedError(str(error)) from None


def model(backends: Backends, name: str, wanted: str) -> str:
    """The model `wanted`, else the one that the backend `name` is asked for; empty when nothing names one."""
    if wanted:
        return wanted
    if name == backends.default and backends.default_model:
        return backends.default_model
    try:
        return backend(backends, name).default_model
    except RefusedError:
        return ""


def check(asked: Backend, keys: Iterable[str]) -> None:
    """Raise `backend X does not take K (takes: …)` when one of the keys is a sampling key that it does not take."""
    for key in keys:
        if key in PARAMETERS and key not in asked.parameters:
            takes = " ".join(sorted(asked.parameters)) or "none"
            raise RefusedError(f"backend {asked.name} does not take {key} (takes: {takes})")
