"""The configuration: `config.yaml` in Ollie's configuration directory, every key typed, none needed.

An unknown key is an error that names the nearest known one. Keys of providers are read here and go to the backends
alone: nothing prints or stores a `Config`.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ninep.errors import unknown
from ollie.engine.limits import Count, Limits, Seconds
from ollie.protocol import paths, yaml_text
from ollie.protocol.words import reason


class ConfigError(Exception):
    """The configuration cannot be used; its text is one line for the user."""


class Config(Limits, frozen=True, kw_only=True):
    """What can be set for a whole server: the bounds of agents that have none of their own, and the following.

    Args:
        backend: the backend of agents that name none; empty: what the environment gives, else `local`.
        model: the model of agents that name none; empty: what the environment gives, else the backend's own.
        backends: settings of backends, by name.
        profile: the profile of agents that name none.
        sandbox: the sandbox of agents that name none; empty: each tool's own.
        cancel_s: how long a tool server may take to end a call before it is ended itself; below `stop_s`.
        close_s: how long the end of the server waits for what it cancelled.
        models_cache_s: how long the list of models is kept.
        models_s: how long one backend may take to list its models.
        max_prompt_bytes: the longest prompt.
        max_agents: how many agents one session may have.
        max_runs: how many runs of tools one agent may have at a time, in the foreground and the background.
        max_requests: how many requests of one agent to run without the sandbox may wait at a time.
        max_connections: how many connections to this server the tools of one agent may have, and as many again that
            they read its tool server by.
        max_run_connections: how many of them one run of a tool may have.
        max_depth: how many levels of agents may lie below one of the owner's, each made by an agent above it.
        toolsrv_start_s: how long a tool server may take to answer for the first time.
        resume: what becomes of prompts that waited when an earlier server ended: `queue` runs them; `off` holds those
            of an agent until its next prompt, or the session's command `resume`.
        open_sessions: how many sessions are kept in memory that nobody uses at the moment.
        store_retry_s: the longest time after which what could not be stored, as on a full disk, is tried again.
        bypass_timeout_s: how long what asks to run without the sandbox waits for its answer.
        toolsrv_idle_s: after which time without work the tool server of a session is ended.
    """

    backend: str = ""
    model: str = ""
    backends: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    profile: str = "default"
    sandbox: str = ""
    cancel_s: Seconds = 5.0
    close_s: Seconds = 5.0
    models_cache_s: Seconds = 300.0
    models_s: Seconds = 10.0
    max_prompt_bytes: Count = 16 * 1024 * 1024
    max_agents: Count = 10_000
    max_runs: Count = 64
    max_requests: Count = 8
    max_connections: Count = 64
    max_run_connections: Count = 16
    max_depth: Count = 3
    resume: Literal["queue", "off"] = "queue"
    open_sessions: Count = 16
    toolsrv_start_s: Seconds = 30.0
    store_retry_s: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    bypass_timeout_s: Seconds = 300.0
    toolsrv_idle_s: Seconds = 600.0


def load(path: str | None = None) -> Config:
    """The configuration in a file; the defaults where there is no file.

    Args:
        path: the file, else `config.yaml` in `$OLLIE_CFG_PATH`.

    Raises:
        ConfigError: it cannot be read, is not YAML, or has a key or a value that cannot be.
    """
    path = path or f"{paths.config_path()}/config.yaml"
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise ConfigError(f"{path}: {reason(error)}") from None
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse(text: bytes) -> Config:
    """The configuration in a YAML text."""
    try:
        data = yaml_text.load(text)
    except yaml_text.YamlError as error:
        raise ConfigError(str(error)) from None
    if data is None:
        return Config()
    if not isinstance(data, dict):
        raise ConfigError("not a mapping of keys to values")
    for key in data:
        if key not in Config.__struct_fields__:
            raise ConfigError(unknown("key", str(key), Config.__struct_fields__))
    if data.get("resume") is False:  # YAML 1.1 reads a bare `off` so
        data["resume"] = "off"
    try:
        return msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)[:1].lower() + str(error)[1:].replace("`$.", "`")) from None
