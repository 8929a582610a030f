"""The directories and files of Ollie, from the environment.

Every function takes the environment as a mapping, `os.environ` when none is given. A directory that is
made here gets mode 0700. Command lines import this module: it needs nothing beyond `os`.
"""

import os
import stat

from ollie.protocol.words import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LOG_BYTES = 10 * 1024 * 1024
_PACKAGE = os.path.dirname(os.path.dirname(__file__))


class PathError(OSError):
    """A directory that cannot be used; its text says why and what to do."""


_XDG = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
    "XDG_STATE_HOME": ".local/state",
}
"""What each stands for below the home directory: XDG base directory specification."""


def home(environ: "Mapping[str, str] | None" = None) -> str:
    """`$HOME`, else what the user database says."""
    path = _environment(environ).get("HOME", "")
    return path if path.startswith("/") else os.path.expanduser("~")


def xdg(name: str, environ: "Mapping[str, str] | None" = None) -> str:
    """The base directory of that name, as XDG_DATA_HOME, without a slash at its end."""
    path = _environment(environ).get(name, "")
    # The base directory specification says that a relative path is to be ignored.
    return (path if path.startswith("/") else f"{home(environ)}/{_XDG[name]}").rstrip("/")


def config_path(environ: "Mapping[str, str] | None" = None) -> str:
    """`$OLLIE_CFG_PATH`, else `$XDG_CONFIG_HOME/ollie`, else `~/.config/ollie`; it may not exist."""
    return _own("OLLIE_CFG_PATH", "XDG_CONFIG_HOME", environ)


def data_path(environ: "Mapping[str, str] | None" = None) -> str:
    """`$OLLIE_DATA_PATH`, else `$XDG_DATA_HOME/ollie`, else `~/.local/share/ollie`; it may not exist."""
    return _own("OLLIE_DATA_PATH", "XDG_DATA_HOME", environ)


def cache_path(environ: "Mapping[str, str] | None" = None) -> str:
    """`$OLLIE_CACHE_PATH`, else `$XDG_CACHE_HOME/ollie`, else `~/.cache/ollie`; it may not exist."""
    return _own("OLLIE_CACHE_PATH", "XDG_CACHE_HOME", environ)


def made(path: str) -> str:
    """`path`, made when it is missing, with what is missing above it.

    Raises:
        PathError: `…: cannot be made: permission denied`.
    """
    if not os.path.isdir(path):
        try:
            _make(path)
        except OSError as error:
            raise PathError(f"{path}: cannot be made: {reason(error)}") from None
    return path


def data_dir(environ: "Mapping[str, str] | None" = None) -> str:
    """`data_path`, made when it is missing."""
    return made(data_path(environ))


def secret_file(environ: "Mapping[str, str] | None" = None) -> str:
    """The file with the secret for TCP: `$OLLIE_SECRET_FILE`, else `secret` in the config directory."""
    return _environment(environ).get("OLLIE_SECRET_FILE") or f"{config_path(environ)}/secret"


def toolsrv_state(address: str, environ: "Mapping[str, str] | None" = None) -> str:
    """What the files begin with in which a tool server at this address keeps what outlives it, as `….pid`.

    A server started again at the address goes on with them; without it they are of no use.
    """
    return f"{data_dir(environ)}/toolsrv/{address.replace('/', '_')}"


def log_file(name: str, environ: "Mapping[str, str] | None" = None) -> str:
    """The log of that name, in a private directory; what it has is set aside once it is longer than 10 MiB.

    Raises:
        PathError: as `private_directory`.
    """
    path = f"{private_directory(f'{data_dir(environ)}/logs')}/{name}.log"
    try:
        if os.stat(path).st_size > _LOG_BYTES:
            os.replace(path, f"{path}.1")
    except FileNotFoundError:  # it is new, or another server that starts has just set it aside
        return path
    return path


def search_path(kind: str, environ: "Mapping[str, str] | None" = None) -> list[str]:
    """Where to look for tools, agents or skills, the first match wins; some of the directories may not exist.

    `$OLLIE_TOOLS_PATH` (colon separated; likewise for the other kinds), else `tools` in the config directory; then the
    directory that ships with Ollie.
    """
    env = _environment(environ)
    listed = env.get(f"OLLIE_{kind.upper()}_PATH") or f"{config_path(env)}/{kind}"
    return [*(_absolute(path, env) for path in listed.split(":") if path), shipped(kind)]


def shipped(kind: str) -> str:
    """The directory of that kind that ships with Ollie; it may not exist."""
    return f"{_PACKAGE}/{kind}"


def private_directory(path: str) -> str:
    """`path`, made with mode 0700 when it is missing and checked when it is not.

    Raises:
        PathError: `…: not a directory`, `…: belongs to uid N`, `…: others may enter it (mode 0755)`, each
            with the remedy.
    """
    made(path)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise PathError(f"{path}: not a directory; remove it or choose another place")
    if found.st_uid != os.geteuid():
        raise PathError(f"{path}: belongs to uid {found.st_uid}, not to you; remove it or choose another place")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise PathError(f"{path}: others may enter it (mode {mode:04o}); run: chmod 700 {path}")
    return path


def _environment(environ: "Mapping[str, str] | None") -> "Mapping[str, str]":
    return os.environ if environ is None else environ


def _absolute(path: str, env: "Mapping[str, str]") -> str:
    if path == "~" or path.startswith("~/"):
        path = home(env) + path[1:]
    return os.path.abspath(path)


def _own(name: str, base: str, environ: "Mapping[str, str] | None") -> str:
    env = _environment(environ)
    path = env.get(name)
    return _absolute(path, env) if path else f"{xdg(base, env)}/ollie"


def _make(path: str) -> None:
    """Make `path` and what is missing above it, each with mode 0700 whatever the umask."""
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        _make(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:  # somebody else was faster, or it is no directory: whoever opens something in it says so
        return
