"""Payloads: tables, and that writing and reading are inverse."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.protocol import payload
from ollie.protocol.payload import Call, Dispatch, PayloadError

_names = st.text(min_size=1).filter(lambda name: name == name.strip() and "=" not in name and "\n" not in name)
_texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(_names.filter(lambda name: name.isprintable()), _texts))
def test_parse_is_the_inverse_of_format(fields: dict[str, str]) -> None:
    """What is written is read back, in the same order."""
    assert list(payload.parse(payload.format(fields)).items()) == list(fields.items())


@given(st.binary())
def test_parse_any_bytes(data: bytes) -> None:
    """Any bytes give fields or a PayloadError, and fields are stable from then on."""
    try:
        fields = payload.parse(data)
    except PayloadError:
        return
    assert payload.parse(payload.format(fields)) == fields


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (b"", {}),
        (b"\n \n", {}),
        (b"tool=shell", {"tool": "shell"}),
        (b"tool=shell\ncmd=a=b\n", {"tool": "shell", "cmd": "a=b"}),
        (b" tool =shell", {"tool": "shell"}),
        (b"cmd= two  blanks ", {"cmd": " two  blanks "}),
        (b"cmd=", {"cmd": ""}),
        (rb"cmd=a\nb", {"cmd": "a\nb"}),
        (rb"cmd=a\\nb", {"cmd": r"a\nb"}),
        (rb"cmd=a\\\nb", {"cmd": "a\\\nb"}),
        (rb"cmd=grep '\.py$' \t", {"cmd": r"grep '\.py$' \t"}),
        (b"cmd=trailing\\", {"cmd": "trailing\\"}),
        (b"cmd=a\rb\r\n", {"cmd": "a\rb\r"}),
        ("cmd=a\u2028b\x85c\x0bd".encode(), {"cmd": "a\u2028b\x85c\x0bd"}),
        (b"cmd=nul\0", {"cmd": "nul\0"}),
        (b"cmd=" + b"x" * 2**20, {"cmd": "x" * 2**20}),
    ],
)
def test_parse(data: bytes, fields: dict[str, str]) -> None:
    """Lines end at a newline only, and only two escapes mean something."""
    assert payload.parse(data) == fields


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"tool=a\xff", "payload is not utf-8"),
        (b"tool=a\n\nrm -rf", 'payload line 3 has no "=": rm -rf'),
        (b"=a", "payload line 1 has no name"),
        (b"tool=a\ntool=b", 'payload has two fields "tool"'),
    ],
)
def test_parse_refuses(data: bytes, text: str) -> None:
    """A bad payload is refused with the place."""
    with pytest.raises(PayloadError) as caught:
        payload.parse(data)
    assert str(caught.value) == text


@pytest.mark.parametrize("fields", [{"": "x"}, {"a=b": "x"}, {"a\nb": "x"}, {" a": "x"}, {"a": "\ud800"}])
def test_format_refuses(fields: dict[str, str]) -> None:
    """Fields that could not be read back are not written."""
    with pytest.raises(PayloadError):
        payload.format(fields)


def test_call() -> None:
    """Reserved fields dispatch, `env.` fields are environment, the rest are arguments."""
    fields = payload.parse(
        b"token=t\ntool=grep\nagent=a1\nagent.sandbox=strict\nsession=s1\ncwd=/src\nenv.CI=1\npattern=x y\nn=3\n"
        b'args={"pattern":"z","cwd":"/etc","deep":[1,{"a":null}]}\n'
    )
    assert payload.call(fields) == Call(
        token="t",
        tool="grep",
        agent="a1",
        sandbox="strict",
        session="s1",
        cwd="/src",
        env={"CI": "1"},
        args={"pattern": "z", "cwd": "/etc", "deep": [1, {"a": None}]},
        fields={"pattern": "x y", "n": "3"},
    )
    assert payload.call({}) == Call()


@pytest.mark.parametrize(
    ("data", "args"),
    [
        (b"args=", {}),
        (b"args= {} ", {}),
        (rb'args={"cmd":"a\\nb"}', {"cmd": "a\nb"}),
        (rb'args={"cmd":"written\nby hand"}', {"cmd": "written\nby hand"}),
        (rb'args={"cmd":"say \"hi\""}', {"cmd": 'say "hi"'}),
    ],
)
def test_args(data: bytes, args: dict[str, object]) -> None:
    """`args` is a JSON object; newlines within its strings may be escaped once or twice."""
    assert payload.call(payload.parse(data)).args == args


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"args": "{"}, "args is not JSON"),
        ({"args": "[1]"}, "args is not a JSON object"),
        ({"args": "[" * 100_000}, "args is not JSON"),
        ({"env.": "x"}, "not a variable's name"),
        ({"env.A\0": "x"}, "not a variable's name"),
        ({"env.LANG": "a\0b"}, "env.LANG contains a NUL"),
    ],
)
def test_call_refuses(fields: dict[str, str], text: str) -> None:
    """What is no argument object and no variable is refused."""
    with pytest.raises(PayloadError, match=text):
        payload.call(fields)


@pytest.mark.parametrize(
    ("arguments", "dispatch"),
    [
        ({}, Dispatch()),
        ({"bypass": True, "timeout": 5, "sandbox": "strict"}, Dispatch(True, 5.0, "strict")),
        ({"bypass": "true", "timeout": "0.5", "sandbox": "strict"}, Dispatch(True, 0.5, "strict")),
        ({"background": True}, Dispatch(background=True)),
        ({"background": "false"}, Dispatch()),
        ({"bypass": False, "timeout": None, "sandbox": None}, Dispatch()),
        ({"bypass": "false", "timeout": "", "sandbox": ""}, Dispatch()),
    ],
)
def test_take_dispatch(arguments: dict[str, object], dispatch: Dispatch) -> None:
    """Dispatch fields are taken out, as JSON values or as text; the rest stays as it is."""
    assert payload.take_dispatch({"cmd": "x", **arguments}) == (dispatch, {"cmd": "x"})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"bypass": "maybe"}, "bypass is not true or false: maybe"),
        ({"bypass": 2}, "bypass is not true or false: 2"),
        ({"bypass": [True]}, "bypass is not true or false"),
        ({"background": "later"}, "background is not true or false: later"),
        ({"timeout": "soon"}, "timeout is not a number of seconds: soon"),
        ({"timeout": 0}, "timeout is not a number of seconds: 0"),
        ({"timeout": -1}, "timeout is not a number of seconds: -1"),
        ({"timeout": True}, "timeout is not a number of seconds: True"),
        ({"timeout": math.inf}, "timeout is not a number of seconds: inf"),
        ({"timeout": math.nan}, "timeout is not a number of seconds: nan"),
        ({"timeout": 10**400}, "timeout is not a number of seconds"),
        ({"timeout": [1]}, "timeout is not a number of seconds"),
        ({"sandbox": 1}, "sandbox is not the name of a policy: 1"),
    ],
)
def test_take_dispatch_refuses(arguments: dict[str, object], text: str) -> None:
    """A dispatch field of the wrong kind is refused, never guessed."""
    with pytest.raises(PayloadError, match=text):
        payload.take_dispatch(arguments)
