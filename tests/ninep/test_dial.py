"""Addresses and the default socket, as tables."""

import os
import pwd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninep import dial


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("unix!/tmp/ns.glenda.:0/ollie", dial.Unix("/tmp/ns.glenda.:0/ollie")),
        ("unix!relative/socket", dial.Unix("relative/socket")),
        ("unix!/odd!name", dial.Unix("/odd!name")),
        ("tcp!server!5640", dial.Tcp("server", 5640)),
        ("tcp!server:5640", dial.Tcp("server", 5640)),
        ("tcp!127.0.0.1!0", dial.Tcp("127.0.0.1", 0)),
        ("tcp!*!564", dial.Tcp("*", 564)),
        ("tcp!::1!5640", dial.Tcp("::1", 5640)),
        ("tcp![::1]!5640", dial.Tcp("::1", 5640)),
        ("tcp![fe80::1%eth0]:5640", dial.Tcp("fe80::1%eth0", 5640)),
    ],
)
def test_parse(address: str, endpoint: object) -> None:
    """Every form of a dial string gives its endpoint."""
    assert dial.parse(address) == endpoint


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("", "not an address"),
        ("/tmp/socket", "not an address"),
        ("udp!host!1", "not an address"),
        ("unix!", "no path in address"),
        ("unix!/a\0b", "contains a NUL"),
        ("tcp!", "no host in address"),
        ("tcp!!5640", "no host in address"),
        ("tcp!:5640", "no host in address"),
        ("tcp!5640", "no host in address"),
        ("tcp!host!", "bad port in address"),
        ("tcp!host:", "bad port in address"),
        ("tcp!host!9fs", "bad port in address"),
        ("tcp!host!65536", "bad port in address"),
        ("tcp!host!-1", "bad port in address"),
        ("tcp!host!\u0665", "bad port in address"),
        ("tcp!host!" + "9" * 5000, "bad port in address"),
        ("tcp!::1:5640", "bad port in address"),
    ],
)
def test_parse_refuses(address: str, text: str) -> None:
    """What is no dial string is refused with the reason."""
    with pytest.raises(dial.AddressError, match=text):
        dial.parse(address)


@given(st.text())
def test_parse_any_text(address: str) -> None:
    """Any text is an endpoint or an AddressError, nothing else."""
    try:
        endpoint = dial.parse(address)
    except dial.AddressError:
        return
    assert dial.parse(str(endpoint)) == endpoint


@pytest.mark.parametrize("endpoint", [dial.Unix("/a"), dial.Tcp("h", 1), dial.Tcp("::1", 1)])
def test_endpoints_are_values(endpoint: dial.Unix | dial.Tcp) -> None:
    """Endpoints compare, hash and print by value."""
    again = dial.parse(str(endpoint))
    assert again == endpoint
    assert hash(again) == hash(endpoint)
    assert repr(again) == repr(endpoint)
    assert endpoint != dial.Unix("/b")
    assert endpoint != dial.Tcp("h", 2)


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"NAMESPACE": "/run/ns", "USER": "glenda", "DISPLAY": ":1"}, "/run/ns"),
        ({"NAMESPACE": "", "USER": "glenda", "DISPLAY": ":1"}, "/tmp/ns.glenda.:1"),
        ({"USER": "glenda"}, "/tmp/ns.glenda.:0"),
        ({"USER": "glenda", "DISPLAY": ""}, "/tmp/ns.glenda.:0"),
        ({"USER": "glenda", "DISPLAY": ":0.0"}, "/tmp/ns.glenda.:0"),
        ({"USER": "glenda", "DISPLAY": ":0.1"}, "/tmp/ns.glenda.:0.1"),
        ({"USER": "glenda", "DISPLAY": ":10.0"}, "/tmp/ns.glenda.:10"),
        ({"USER": "glenda", "DISPLAY": "host.0"}, "/tmp/ns.glenda.host.0"),
        ({"USER": "glenda", "DISPLAY": "host:0.0"}, "/tmp/ns.glenda.host:0"),
        ({"USER": "glenda", "DISPLAY": "/tmp/launch-x/:0"}, "/tmp/ns.glenda._tmp_launch-x_:0"),
        ({"DISPLAY": ":0"}, f"/tmp/ns.{pwd.getpwuid(os.getuid()).pw_name}.:0"),
    ],
)
def test_namespace_dir(environ: dict[str, str], directory: str) -> None:
    """The directory follows plan9port's rules."""
    assert dial.namespace_dir(environ) == directory
    assert dial.default_address("ollie", environ) == f"unix!{directory}/ollie"


def test_namespace_dir_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without name is `none`, and the process's environment is the default."""

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("NAMESPACE", "USER", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert dial.namespace_dir() == "/tmp/ns.none.:0"
    assert dial.user_name() == "none"


def test_the_longest_socket() -> None:
    """A path that no socket can have is no address; the limit is in bytes."""
    assert dial.parse("unix!/" + "x" * 106) == dial.Unix("/" + "x" * 106)
    for path in ("/" + "x" * 107, "/" + "é" * 54):
        with pytest.raises(dial.AddressError, match=r"socket path is too long: .* \(at most 107 bytes\)"):
            dial.parse(f"unix!{path}")
