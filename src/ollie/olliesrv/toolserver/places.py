"""Where a tool server has its socket, its secret and what it keeps, all named for its session.

So a later server finds them, and removes those of sessions that are gone.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.process.secret import SecretError, load
from ollie.protocol.paths import toolsrv_state


@dataclass(frozen=True)
class Settings:
    """How tool servers are run.

    Args:
        sockets: the directory of their sockets, private to us.
        secrets: the directory of their secrets, private to us.
        address: the dial string by which tools reach us.
        yolo: without a sandbox.
        start_s: how long one may take to answer.
        idle_s: how long one lives without work.
        cancel_s: how long one may take to end a call, or itself.
        bypass_s: how long what asks to run without the sandbox waits for its answer.
        max_runs: how many runs one agent may have at a time.
        max_requests: how many requests of one agent to run without the sandbox may wait at a time.
        max_connections: how many connections there may be by which what is an agent's is read.
        open_files: how many descriptors a process of a tool may have; None is as many as we may have.
    """

    sockets: str
    secrets: str
    address: str
    yolo: bool
    start_s: float
    idle_s: float
    cancel_s: float
    bypass_s: float
    max_runs: int
    max_requests: int
    max_connections: int
    open_files: int | None = None


def socket_path(directory: str, session: str) -> str:
    """The socket of a session's tool server. A socket's path has at most 107 bytes; all of these are equally long."""
    return f"{directory}/toolsrv.{session[-12:]:0>12}"


def sockets(settings: Settings) -> list[str]:
    """The sockets of tool servers that are there, living or not."""
    return [str(path) for path in Path(settings.sockets).glob("toolsrv.*") if path.is_socket()]


def secret_path(settings: Settings, session: str) -> str:
    """The secret of a session's tool server."""
    return f"{settings.secrets}/{session}.secret"


def secret(path: str) -> bytes:
    """The secret in a file, which is made when it is missing; a `RefusedError` when it cannot be used."""
    try:
        return load(Path(path))
    except SecretError as error:
        raise RefusedError(str(error)) from None


def forget_secret(path: str) -> None:
    """Remove a secret."""
    Path(path).unlink(missing_ok=True)


def owing(settings: Settings, sessions: Iterable[str]) -> list[str]:
    """Which of these sessions, by id, have a tool server that has kept something of runs in the background."""
    ours = _state(f"{settings.sockets}/toolsrv.")
    found = {state for path in Path(ours).parent.glob("*.done") if _owes(state := str(path).removesuffix(".done"))}
    return [session for session in sessions if _state(socket_path(settings.sockets, session)) in found] if found else []


def owes(socket: str) -> bool:
    """Whether the tool server at a socket has kept something of runs in the background: they run, or were not told."""
    return _owes(_state(socket))


def forget_state(socket: str) -> None:
    """Remove what the tool server at a socket has kept of itself."""
    _forget(_state(socket))


def forget_others(settings: Settings, sessions: Iterable[str]) -> None:
    """Remove the secrets of all sessions but these, by id, and what their tool servers have kept."""
    ids = list(sessions)
    kept = {secret_path(settings, session) for session in ids}
    for path in Path(settings.secrets).glob("*.secret"):
        if str(path) not in kept:
            forget_secret(str(path))
    states = {_state(socket_path(settings.sockets, session)) for session in ids}
    ours = _state(f"{settings.sockets}/toolsrv.")
    for found in Path(ours).parent.glob("*.pid"):
        state = str(found).removesuffix(".pid")
        if state.startswith(ours) and state not in states:
            _forget(state)


def _state(socket: str) -> str:
    """How the files begin that the tool server at a socket keeps."""
    return toolsrv_state(f"unix!{socket}")


def _owes(state: str) -> bool:
    try:
        return any(path.name.isdigit() for path in Path(f"{state}.done").iterdir())
    except OSError:  # it keeps nothing
        return False


def _forget(state: str) -> None:
    for suffix in (".pid", ".revision"):
        Path(state + suffix).unlink(missing_ok=True)
    shutil.rmtree(f"{state}.done", ignore_errors=True)
