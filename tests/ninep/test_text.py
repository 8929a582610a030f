"""Messages as lines of text."""

import pytest
from hypothesis import given
from strategies import messages

from ninep.messages import Message, Qid, Rread, Stat, Tflush, Tread, Tversion, Twalk, Twstat
from ninep.testing.script import pattern
from ninep.text import NotationError, format_message, parse_message

TABLE: list[tuple[Message, str]] = [
    (Tversion(0xFFFF, 8192, "9P2000"), 'Tversion tag=~ msize=8192 version="9P2000"'),
    (Twalk(1, 0, 1, ("session", "new")), 'Twalk tag=1 fid=0 newfid=1 wname=["session" "new"]'),
    (Twalk(1, 0, 1, ()), "Twalk tag=1 fid=0 newfid=1 wname=[]"),
    (Rread(3, b'a"b\\\n\t\r\0\xff\xc3\xa9'), r'Rread tag=3 data="a\"b\\\n\t\r\x00\xffé"'),
    (Tread(1, 0xFFFFFFFF, 2**64 - 1, 10), "Tread tag=1 fid=~ offset=~ count=10"),
    (Tflush(1, 0xFFFF), "Tflush tag=1 oldtag=~"),
    (Twstat(1, 2, Stat()), "Twstat tag=1 fid=2 stat={}"),
    (Twstat(1, 2, Stat(length=0, name="x y")), 'Twstat tag=1 fid=2 stat={length=0 name="x y"}'),
    (Twstat(1, 2, Stat(qid=Qid(0x80, 7, 0x10002))), "Twstat tag=1 fid=2 stat={qid=80.7.10002}"),
]


@pytest.mark.parametrize(("message", "line"), TABLE)
def test_notation(message: Message, line: str) -> None:
    """A message and its line, both ways."""
    assert format_message(message) == line
    assert parse_message(line) == message


@given(messages)
def test_reading_is_the_inverse_of_writing(message: Message) -> None:
    """Every message has a line of its own, and it is one line."""
    line = format_message(message)
    assert "\n" not in line
    assert parse_message(line) == message


def test_numbers_may_be_written_in_other_bases() -> None:
    """Modes are easier to read in octal."""
    assert parse_message('Tcreate tag=0x10 fid=1 name="x" perm=0o644 mode=0') == parse_message(
        'Tcreate tag=16 fid=1 name="x" perm=420 mode=0'
    )


def test_long_data_is_cut_in_a_trace() -> None:
    """The rest is counted."""
    assert format_message(Rread(1, b"x" * 10), data_limit=4) == 'Rread tag=1 data="xxxx"+6'


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("Tnothing tag=1", "no message is called 'Tnothing'"),
        ("Tclunk tag=1", "Tclunk has the fields tag, fid"),
        ("Tclunk tag=1 fid=x", "invalid literal"),
        ("Tclunk tag=1 fid", "'=' is missing after 'fid'"),
        ('Rerror tag=1 ename="x', "a string does not end"),
        (r'Rerror tag=1 ename="\q"', "is no escape"),
        ("Rerror tag=1 ename=x", "ename is a quoted string"),
        ("Rwalk tag=1 wqid=[80.0.1", "']' is missing"),
    ],
)
def test_what_is_no_message_is_refused(line: str, error: str) -> None:
    """The error says what is wrong."""
    with pytest.raises(NotationError) as raised:
        parse_message(line)
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("expected", "came", "matches"),
    [
        ("Rread tag=1 data=*", 'Rread tag=1 data="x"', True),
        ('Rread tag=1 data="*"', 'Rread tag=1 data="x"', False),
        ('Rread tag=1 data="*"', 'Rread tag=1 data="*"', True),
        ("Rstat tag=1 stat=*length=5*", 'Rstat tag=1 stat={mode=1 length=5 name="x"}', True),
        ("Rread tag=1 data=*", 'Rread tag=2 data=""', False),
    ],
)
def test_a_star_outside_of_quotes_is_anything(*, expected: str, came: str, matches: bool) -> None:
    """What scripts say of replies."""
    assert bool(pattern(expected).fullmatch(came)) is matches
