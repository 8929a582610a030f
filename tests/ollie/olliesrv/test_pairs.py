"""Records of `new` files: a table of examples, and properties."""

import contextlib
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.pairs import format_record, parse_record

KEYS = ("name", "cwd", "agent", "prompt")

TABLE = {
    b"": {},
    b" \n\t\n": {},
    b"name=myproj\n": {"name": "myproj"},
    b"name=coding cwd=/home/user/project\n": {"name": "coding", "cwd": "/home/user/project"},
    b"cwd=/home/user/project\nprompt=fix the failing tests\n": {
        "cwd": "/home/user/project",
        "prompt": "fix the failing tests",
    },
    b"  name=a\r\n\tcwd=b": {"name": "a", "cwd": "b"},
    b"cwd='/with blank' name=a": {"cwd": "/with blank", "name": "a"},
    b'cwd="/with \\"quotes\\" and \\n"': {"cwd": '/with "quotes" and \\n'},
    b"cwd=/with\\ blank": {"cwd": "/with blank"},
    b"cwd=a'b c'\"d e\"f": {"cwd": "ab cd ef"},
    b"cwd='two\nlines' name=x": {"cwd": "two\nlines", "name": "x"},
    b"name=": {"name": ""},
    b"name='' cwd=x": {"name": "", "cwd": "x"},
    b"name=a=b": {"name": "a=b"},
    b"cwd=end\\": {"cwd": "end"},
    b"prompt=it's name=x \"as it stands\nname=a": {"prompt": "it's name=x \"as it stands", "name": "a"},
    b"prompt=one\\ntwo": {"prompt": "one\ntwo"},
    b"prompt=C:\\\\new \\t": {"prompt": "C:\\new \\t"},
    b"prompt=": {"prompt": ""},
    b"prompt=  indented": {"prompt": "  indented"},
    "name=é".encode(): {"name": "é"},
}

ERRORS = {
    b"nmae=x": "unknown key: nmae (did you mean name? known: name cwd agent prompt)",
    b"=x": "unknown key:  (known: name cwd agent prompt)",
    b"name": "expected key=value: name",
    b"name=a b=": "unknown key: b (known: name cwd agent prompt)",
    b"name=my proj": "expected key=value: proj",
    b"name=a name=b": "key given twice: name",
    b"name='a": "unclosed quote: name",
    b'cwd="a\\"': "unclosed quote: cwd",
    b"name=\xff": "record is not UTF-8",
    b"name=a\0": "NUL in record",
}


@pytest.mark.parametrize("data", TABLE)
def test_record(data: bytes) -> None:
    """A record has these pairs."""
    assert parse_record(data, KEYS) == TABLE[data]


@pytest.mark.parametrize("data", ERRORS)
def test_refused_record(data: bytes) -> None:
    """A record that cannot be understood is refused with what is wrong."""
    with pytest.raises(RefusedError) as caught:
        parse_record(data, KEYS)
    assert str(caught.value) == ERRORS[data]


values = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@given(st.dictionaries(st.sampled_from(KEYS), values))
def test_written_and_read(record: dict[str, str]) -> None:
    """What was formatted is parsed to the same pairs in the same order."""
    assert list(parse_record(format_record(record), KEYS).items()) == list(record.items())


@given(values)
def test_quoted_as_in_a_shell(value: str) -> None:
    """A value that a shell's quoting protects arrives as it was."""
    assert parse_record(b"cwd=" + shlex.quote(value).encode(), KEYS) == {"cwd": value}


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    """Any bytes are a record or a refusal."""
    with contextlib.suppress(RefusedError):
        assert set(parse_record(data, KEYS)) <= set(KEYS)
