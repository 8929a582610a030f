"""From the text of a policy to what it means for one run: placeholders, absolute paths, the environment.

`{CWD}` and its kind are replaced by values that belong to the run; after that a policy can be compared and enforced.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache

from ninep.errors import unknown
from ollie.protocol import links, paths
from ollie.protocol.policy import Filesystem, Policy, PolicyError

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_REAL = ("{CWD}", "{TMPDIR}")
_WRITTEN = ("rw", "rwx")

_XDG = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
_LOCATIONS = (*_XDG, "HOME", "XDG_RUNTIME_DIR", "OLLIE_CFG_PATH", "OLLIE_DATA_PATH", "OLLIE_CACHE_PATH")

# The variables that every tool gets; `LC_*` by its prefix.
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TERM", "TZ", "TMPDIR")
_PASSED_PREFIX = "LC_"


def placeholders(cwd: str, tmpdir: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The values for `expand`.

    Args:
        cwd: the working directory of the run; links are resolved, so that a policy names the directory itself.
        tmpdir: the directory for its temporary files, resolved too.
        environ: where HOME, XDG_* and OLLIE_* come from; os.environ when left out. XDG_RUNTIME_DIR has no default.
    """
    given = os.environ if environ is None else environ
    # Copied: each look into os.environ encodes and decodes.
    env = {name: value for name in _LOCATIONS if (value := given.get(name)) is not None}
    env["HOME"] = home = os.path.realpath(paths.home(env))
    values = {"CWD": os.path.realpath(cwd), "TMPDIR": os.path.realpath(tmpdir), "HOME": home}
    values |= {name: paths.xdg(name, env) for name in _XDG}
    values |= {
        "OLLIE_CFG_PATH": paths.config_path(env),
        "OLLIE_DATA_PATH": paths.data_path(env),
        "OLLIE_CACHE_PATH": paths.cache_path(env),
    }
    if runtime := env.get("XDG_RUNTIME_DIR"):
        values["XDG_RUNTIME_DIR"] = runtime
    return values


def expand(policy: Policy, values: Mapping[str, str]) -> Policy:
    """The policy with every placeholder replaced and every path absolute and normal.

    What tools may write is named without links afterwards, since none of those is followed when a run is confined
    (`links.py`). `CWD` and `TMPDIR` were resolved before; should they be links now, a tool has made them so.

    Raises:
        PolicyError: `unknown placeholder in filesystem.rw: {CWDD} (known: …)`, `filesystem.ro: a/b is not an
            absolute path`.
    """
    return _expanded(policy, tuple(values.items())).called(policy.name)


@lru_cache(maxsize=64)
def _expanded(policy: Policy, items: tuple[tuple[str, str], ...]) -> Policy:
    """As `expand`, but for the name; the runs of a session differ in nothing that matters here."""
    values = dict(items)
    paths = {
        item.name: {
            path: _path(f"filesystem.{item.name}", path, values) for path in getattr(policy.filesystem, item.name)
        }
        for item in fields(Filesystem)
    }
    written = {os.path.realpath(path) for name in _WRITTEN for path in paths[name].values()}
    for name in _WRITTEN:
        for text, path in paths[name].items():
            if not any(real in text for real in _REAL):
                paths[name][text] = links.resolved(path, written) or path
    env = tuple(_fill("env", entry, values) if "=" in entry else entry for entry in policy.env)
    files = Filesystem(**{name: tuple(found.values()) for name, found in paths.items()})
    real = {path for found in paths.values() for text, path in found.items() if any(place in text for place in _REAL)}
    return replace(policy, filesystem=files, env=env, real=tuple(sorted(real)))


def environment(policy: Policy | None, environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a tool: what every tool gets, what the policy's `env` adds, and `extra` over both.

    Args:
        policy: expanded; None (no sandbox) adds nothing, since secrets stay out of a tool's reach in any case.
        environ: the server's environment, of which nothing else passes.
        extra: variables of the run itself (OLLIE_SESSION_ID, TMPDIR, `env.NAME` of the payload, …).
    """
    given = {name: value for name, value in environ.items() if name in _PASSED or name.startswith(_PASSED_PREFIX)}
    for entry in policy.env if policy else ():
        name, literal, value = entry.partition("=")
        if literal:
            given[name] = value
        elif name in environ:
            given[name] = environ[name]
    return given | dict(extra)


def _path(key: str, text: str, values: Mapping[str, str]) -> str:
    path = _fill(key, "{HOME}" + text[1:] if text == "~" or text.startswith("~/") else text, values)
    if not path.startswith("/"):
        raise PolicyError(f"{key}: {text} is not an absolute path")
    return "/" + os.path.normpath(path).lstrip("/")  # normpath keeps a double slash at the start


def _fill(key: str, text: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise PolicyError(unknown(f"placeholder in {key}", match[0], [f"{{{name}}}" for name in sorted(values)]))
        return values[match[1]]

    return _PLACEHOLDER.sub(value, text)
