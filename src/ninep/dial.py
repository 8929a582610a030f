"""Plan 9 dial strings, and where a service's socket is by default.

Two kinds of address: `unix!/path` and `tcp!host!port` (or `tcp!host:port`). The default one is a socket in the name
space directory, found by the rules that plan9port's `9p` follows, so that both programs meet at the same place.

Command lines import this module: it needs nothing beyond `os`.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_PATH_BYTES = 107
"""The longest path of a socket, by unix(7)."""

_FORMS = "unix!/path, tcp!host!port or tcp!host:port"


class AddressError(ValueError):
    """An address that is not a dial string; its text says what is wrong."""


class Unix:
    """A socket in the file system.

    Args:
        path: where the socket is; relative paths are relative to the working directory.
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __str__(self) -> str:
        return f"unix!{self.path}"

    def __repr__(self) -> str:
        return f"Unix({self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unix) and other.path == self.path

    def __hash__(self) -> int:
        return hash(("unix", self.path))


class Tcp:
    """A TCP endpoint.

    Args:
        host: a name or a numeric address, without brackets; `*` stands for every interface of a listener.
        port: 0 to 65535; 0 lets a listener choose.
    """

    __slots__ = ("host", "port")

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def __str__(self) -> str:
        return f"tcp!{self.host}!{self.port}"

    def __repr__(self) -> str:
        return f"Tcp({self.host!r}, {self.port})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tcp) and (other.host, other.port) == (self.host, self.port)

    def __hash__(self) -> int:
        return hash(("tcp", self.host, self.port))


def parse(address: str) -> Unix | Tcp:
    """The endpoint that a dial string names.

    Raises:
        AddressError: `not an address: …`, `no path in address: …`, `no host in address: …`, `bad port in address: …`,
            `socket path is too long: …`.
    """
    if "\0" in address:
        raise AddressError(f"not an address: {address!r} contains a NUL")
    net, bang, rest = address.partition("!")
    if not bang or net not in {"unix", "tcp"}:
        raise AddressError(f"not an address: {address!r}; use {_FORMS}")
    if net == "unix":
        if not rest:
            raise AddressError(f"no path in address: {address!r}; use unix!/path")
        if len(os.fsencode(rest)) > SOCKET_PATH_BYTES:
            raise AddressError(
                f"socket path is too long: {rest} (at most {SOCKET_PATH_BYTES} bytes); use a shorter one, "
                "or set NAMESPACE to a shorter directory"
            )
        return Unix(rest)
    return _parse_tcp(address, rest)


def _parse_tcp(address: str, rest: str) -> Tcp:
    host, bang, port = rest.rpartition("!")
    if not bang:
        host, _, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif not bang and ":" in host:
        raise AddressError(f"bad port in address: {address!r}; use tcp!host!port or tcp![host]:port for this host")
    if not host:
        raise AddressError(f"no host in address: {address!r}; use tcp!host!port or tcp!host:port")
    if not (port.isascii() and port.isdigit()) or int(port[:6]) > 65535 or len(port) > 5:
        raise AddressError(f"bad port in address: {address!r}; a port is a number up to 65535")
    return Tcp(host, int(port))


def namespace_dir(environ: "Mapping[str, str] | None" = None) -> str:
    """The directory of this user's and display's services: `/tmp/ns.glenda.:0`.

    `$NAMESPACE` when it is set. Else `/tmp/ns.$USER.$DISPLAY`, where `:0` stands in for a missing display, the screen
    number of `host:0.0` is dropped when it is 0, and `/` becomes `_`. Nothing is created.
    """
    env = os.environ if environ is None else environ
    return env.get("NAMESPACE") or f"/tmp/ns.{user_name(env)}.{_display(env)}"  # noqa: S108  the place plan9port uses; owner and mode are checked


def default_address(service: str, environ: "Mapping[str, str] | None" = None) -> str:
    """The dial string of a service in the name space directory: `unix!/tmp/ns.glenda.:0/ollie`."""
    return f"unix!{namespace_dir(environ)}/{service}"


def user_name(environ: "Mapping[str, str] | None" = None) -> str:
    """Who runs this: `$USER`, else the name in the user database, else `none`."""
    name = (os.environ if environ is None else environ).get("USER")
    if name:
        return name
    import pwd  # noqa: PLC0415  needed only where $USER is not set

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "none"


def _display(env: "Mapping[str, str]") -> str:
    display = env.get("DISPLAY") or ":0"
    _, colon, number = display.rpartition(":")
    if colon and number.endswith(".0") and number[:-2].isdigit():
        display = display[:-2]
    return display.replace("/", "_")
