"""A sandbox policy: what a tool may reach, as a value.

The shape is that of `sandbox.yaml`, one dataclass a section. A policy is data only: it is read from a file, its
placeholders are expanded (`expand.py`), it is compared (`within.py`), explained (`why.py`), and enforced by
`ollie.sandbox`. A key that a file leaves out has the default below, which allows nothing.

Standard library only: the launcher of the sandbox decodes policies too.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from ninep.errors import unknown

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class PolicyError(ValueError):
    """A policy that cannot be understood; its text names the key and what to write instead."""


@dataclass(frozen=True, slots=True)
class General:
    """How strictly a policy is meant, and as which unprivileged user tools run when the server is root."""

    best_effort: bool = True
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Filesystem:
    """Directories and files by what is allowed in and below them: read, execute (x) and write (w)."""

    ro: tuple[str, ...] = ()
    rox: tuple[str, ...] = ()
    rw: tuple[str, ...] = ()
    rwx: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Network:
    """Whether sockets to hosts may be made, and whether unix sockets may."""

    enabled: bool = False
    unix_sockets: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds of one run; None is no limit. Sizes are bytes, `memory` is for all processes together."""

    memory: int | None = None
    processes: int | None = None
    file_size: int | None = None
    cpu_s: int | None = None
    open_files: int | None = None


@dataclass(frozen=True, slots=True)
class Advanced:
    """Paths that are found instead of listed: shared libraries (ldd), and interpreters named by PATH (add_exec)."""

    ldd: bool = False
    add_exec: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """One sandbox policy. `env` are names, or NAME=value; `name` is for messages and does not compare.

    `real` are those of its paths that had no links when they were named: should one have a link later, a tool has put
    it there, and it is not followed. `written` are places that other tools may write: no link there is followed. No
    file names either.
    """

    general: General = General()
    filesystem: Filesystem = Filesystem()
    network: Network = Network()
    env: tuple[str, ...] = ()
    limits: Limits = Limits()
    advanced: Advanced = Advanced()
    real: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    name: str = field(default="", compare=False)

    def called(self, name: str) -> Self:
        """The same policy by another name: what is kept for equal policies may have been made of another one."""
        return self if self.name == name else replace(self, name=name)


_SECTIONS: dict[str, type[Any]] = {
    "general": General,
    "filesystem": Filesystem,
    "network": Network,
    "limits": Limits,
    "advanced": Advanced,
}
_SIZES = ("limits.memory", "limits.file_size")


def parse(mapping: object, name: str = "") -> Policy:
    """The policy that the content of a sandbox file describes.

    Args:
        mapping: what the file holds: sections of keys, `env` a list. An empty file (None) is an empty policy.
        name: the policy's name, for messages.

    Raises:
        PolicyError: `unknown key: filesystem.rx (did you mean filesystem.rox? known: …)`, `network.enabled must be true
            or false`, …
    """
    top = _mapping({} if mapping is None else mapping, "a sandbox file")
    _known(top, (*_SECTIONS, "env"), "")
    values: dict[str, Any] = {section: _section(section, top.get(section)) for section in _SECTIONS}
    return Policy(**values, env=_strings("env", top.get("env") or []), name=name)


def encode(policy: Policy) -> str:
    """The policy as one line of JSON, for `decode`."""
    return json.dumps(asdict(policy))


def decode(text: str) -> Policy:
    """The policy that `encode` wrote. Raises PolicyError as `parse` does."""
    values = json.loads(text)
    name = values.pop("name")
    real, written = (tuple(values.pop(key, ())) for key in ("real", "written"))  # stored policies may be without them
    return replace(parse(values, name), real=real, written=written)


def _section(section: str, content: object) -> Any:
    kind = _SECTIONS[section]
    given = _mapping({} if content is None else content, section)
    defaults = {item.name: item.default for item in fields(kind)}
    _known(given, tuple(defaults), f"{section}.")
    return kind(**{key: _value(f"{section}.{key}", value, defaults[key]) for key, value in given.items()})


def _value(key: str, value: object, default: object) -> object:
    """The value of one key, checked by the kind of its default."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise PolicyError(f"{key} must be true or false, not {value!r}")
        return value
    if isinstance(default, tuple):
        return _strings(key, value or [])
    if value is None:
        return None
    return _user(value) if key == "general.user" else _limit(key, value)


def _user(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise PolicyError(f"general.user must be the name of a user, not {value!r}")
    return value


def _limit(key: str, value: object) -> int:
    """A positive count; sizes may end in K, M, G or T (powers of 1024)."""
    number = value
    if isinstance(value, str) and key in _SIZES:
        digits, unit = value.strip()[:-1], value.strip()[-1:].upper()
        number = int(digits) * UNITS[unit] if digits.isdecimal() and unit in UNITS else value
    if isinstance(number, bool) or not isinstance(number, int) or number <= 0:
        example = ", for example 512M" if key in _SIZES else ""
        raise PolicyError(f"{key} must be a whole number above 0{example}, not {value!r}")
    return number


def _strings(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise PolicyError(f"{key} must be a list of strings, not {value!r}")
    return tuple(value)


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise PolicyError(f"{what} must hold key: value pairs, not {value!r}")
    return value


def _known(given: Mapping[str, object], names: Sequence[str], prefix: str) -> None:
    for key in given:
        if key not in names:
            raise PolicyError(unknown("key", f"{prefix}{key}", [f"{prefix}{name}" for name in names]))
