r"""Payloads of tool requests: `key=value` lines, with `\n` and `\\` escaped in values.

    tool=shell
    agent=0190a1…
    cmd=go test ./...
    args={"cmd":"go test ./..."}

Payloads are also written by hand, so a backslash before any other character stands for itself. The reserved names say
who asks for what; every other field is an argument, which `metadata` converts by the tool's schema.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_RESERVED = ("token", "tool", "agent", "agent.sandbox", "session", "cwd", "args")
ENV_PREFIX = "env."
DISPATCH = ("bypass", "timeout", "sandbox", "background")

_ESCAPE = re.compile(r"\\([n\\])")


class PayloadError(ValueError):
    """A payload that cannot be read or written; its text says which line or field is wrong."""


@dataclass(frozen=True, slots=True)
class Call:
    """A payload taken apart.

    Args:
        token: the session token of toolsrv, empty when absent, like the next five.
        tool: the tool's name.
        agent: id of the agent that asks.
        sandbox: name of that agent's policy, from `agent.sandbox`; not to be confused with the dispatch field.
        session: id of its session.
        cwd: directory to run in.
        env: the `env.NAME` fields.
        args: arguments from the JSON object in `args`, of any JSON type.
        fields: arguments from fields of their own, still text.
    """

    token: str = ""
    tool: str = ""
    agent: str = ""
    sandbox: str = ""
    session: str = ""
    cwd: str = ""
    env: dict[str, str] = field(default_factory=dict)
    args: dict[str, object] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dispatch:
    """How a call is to be run; no business of the tool.

    Args:
        bypass: ask the owner to let this one run without the sandbox.
        timeout_s: end it after this many seconds, None for the tool's own limit.
        sandbox: name of a policy that tightens the one in force, None for no change.
        background: do not wait for its end.
    """

    bypass: bool = False
    timeout_s: float | None = None
    sandbox: str | None = None
    background: bool = False


def parse(data: bytes) -> dict[str, str]:
    """The fields of a payload in their order, values unescaped; empty lines are skipped.

    Raises:
        PayloadError: `payload is not utf-8`, `payload line N has no "="`, `payload line N has no name`,
            `payload has two fields "…"`.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise PayloadError("payload is not utf-8") from None
    fields: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals:
            raise PayloadError(f'payload line {number} has no "=": {line[:60]}')
        if not key:
            raise PayloadError(f"payload line {number} has no name")
        if key in fields:
            raise PayloadError(f'payload has two fields "{key}"')
        fields[key] = _ESCAPE.sub(_unescaped, value)
    return fields


def format(fields: Mapping[str, str]) -> bytes:  # noqa: A001  always used as payload.format
    """The payload of these fields, one line each; `parse` gives them back.

    Raises:
        PayloadError: for a name that is empty, has blanks around it, or contains `=` or a newline; for text that has no
            UTF-8 form.
    """
    lines = []
    for key, value in fields.items():
        if not key or key != key.strip() or "=" in key or "\n" in key:
            raise PayloadError(f"not a field name: {key!r}")
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
        lines.append(f"{key}={escaped}\n")
    try:
        return "".join(lines).encode()
    except UnicodeEncodeError:
        raise PayloadError("payload has text that is not unicode") from None


def call(fields: Mapping[str, str]) -> Call:
    """Sort the fields of a payload into what dispatches the call and its arguments.

    Raises:
        PayloadError: `args is not JSON: …`, `args is not a JSON object`, `not a variable's name: …`, `env.X contains a
            NUL`.
    """
    env: dict[str, str] = {}
    arguments: dict[str, str] = {}
    for key, value in fields.items():
        if key.startswith(ENV_PREFIX):
            if "\0" in value:
                raise PayloadError(f"{key} contains a NUL")
            env[_env_name(key)] = value
        elif key not in _RESERVED:
            arguments[key] = value
    return Call(
        token=fields.get("token", ""),
        tool=fields.get("tool", ""),
        agent=fields.get("agent", ""),
        sandbox=fields.get("agent.sandbox", ""),
        session=fields.get("session", ""),
        cwd=fields.get("cwd", ""),
        env=env,
        args=_json_object(fields.get("args", "")),
        fields=arguments,
    )


def take_dispatch(arguments: Mapping[str, object]) -> tuple[Dispatch, dict[str, object]]:
    """The dispatch fields among the arguments, and the arguments without them.

    Raises:
        PayloadError: `bypass is not true or false: …`, the same for `background`, `timeout is not a number of seconds:
            …`, `sandbox is not the name of a policy: …`.
    """
    rest = {key: value for key, value in arguments.items() if key not in DISPATCH}
    dispatch = Dispatch(
        bypass=_flag("bypass", arguments),
        timeout_s=_seconds(arguments.get("timeout")),
        sandbox=_policy_name(arguments.get("sandbox")),
        background=_flag("background", arguments),
    )
    return dispatch, rest


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else "\\"


def _env_name(key: str) -> str:
    name = key.removeprefix(ENV_PREFIX)
    if not name or "\0" in name:
        raise PayloadError(f"not a variable's name: {key!r}")
    return name


def _json_object(text: str) -> dict[str, object]:
    if not text.strip():
        return {}
    try:
        # Not strict: an unescaped `\n` in a string is what a payload written by hand has after it was unescaped.
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"args is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise PayloadError("args is not a JSON object")
    return value


def _flag(name: str, arguments: Mapping[str, object]) -> bool:
    value = arguments.get(name)
    if value is None or value in (False, "", "false"):
        return False
    if value in (True, "true"):
        return True
    raise PayloadError(f"{name} is not true or false: {value}")


def _seconds(value: object) -> float | None:
    if value is None or value == "":
        return None
    try:
        seconds = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise PayloadError(f"timeout is not a number of seconds: {value}")
    return seconds


def _policy_name(value: object) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise PayloadError(f"sandbox is not the name of a policy: {value}")
    return value
