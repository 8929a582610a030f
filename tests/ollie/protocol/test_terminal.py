"""Terminal output as text: a table, and that pieces do not matter."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollie.protocol.terminal import LINE_CHARACTERS, Plain, plain

_SMALL = [
    *(b"a", b"bc", "é".encode(), "😀".encode(), b"\xff", b"\xc3", b"\n", b"\r", b"\r\n", b"\b", b"\t", b"\0", b"\x07"),
    *(b"\x1b", b"\x1b[", b"1;31m", b"\x1b]", b"0;title", b"\\", b"P", b"(", b"B", b"_", b"\x9d", b"m", b"?"),
]
_PARTS = [*_SMALL, b"x" * 4100, b"3" * 70, b"y" * (LINE_CHARACTERS - 3)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"plain\ttext\n", "plain\ttext\n"),
        (b"no newline", "no newline"),
        (b"\x1b[1;31mred\x1b[0m\n", "red\n"),
        (b"\x1b[?25l\x1b[2Kx\x1b[?25h", "x"),
        (b"\x1b[38:2::255:0:0mx", "x"),
        (b"\x1b]0;title\x07x", "x"),
        (b"\x1b]8;;http://h/\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]52;c;cut off\nnext line", "\nnext line"),
        (b"\x1bPq#0;2;0;0;0\x1b\\x", "x"),
        (b"\x1b_apc\x1b\\x\x1b^pm\x1b\\y\x1bXsos\x1b\\z", "xyz"),
        (b"\x1b(B\x1b)0\x1b7\x1b8\x1b=\x1bcx", "x"),
        (b"\x1b[\xc3\xa9x", "éx"),
        (b"\x1b\x1b[0mx", "x"),
        (b"\x1b\nx", "\nx"),
        (b"x\x1b[31", "x"),
        (b"x\x1b", "x"),
        (b"\x1b]" + b"a" * 5000, "a" * 5000),
        (b"\x1b[" + b"1" * 100 + b"m", "1" * 100 + "m"),
        (b"a\x00b\x07c\x7fd\x0ce", "abcde"),
        ("a\x9b31mb\x85c".encode(), "a31mbc"),
        (b"\xff\xfe binary \xc3", "\ufffd\ufffd binary \ufffd"),
        (b"a\r\nb\r\r\nc", "a\nb\nc"),
        (b"10%\r20%\r100%\ndone\n", "100%\ndone\n"),
        (b"10%\r20%\r", "20%"),
        (b"long line\rshort\n", "short\n"),
        (b"10%\r\x1b[K20%\r\n", "20%\n"),
        (b"|\b/\b-\b\\\bdone", "done"),
        (b"b\bbo\bol\bld _\bu", "bold u"),
        (b"ab\b\b\b\bc", "c"),
        (b"ab\r\b\b\n", "ab\n"),
        (b"up\x1b[A\x1b[2Jx", "upx"),
    ],
)
def test_plain(data: bytes, text: str) -> None:
    """What a reader of text wants stays, and nothing else does."""
    assert plain(data) == text


@settings(deadline=None)
@given(st.lists(st.integers(0, len(_PARTS) - 1), max_size=12), st.lists(st.integers(0, 2**20), max_size=20))
def test_pieces_do_not_matter(parts: list[int], cuts: list[int]) -> None:
    """However the bytes arrive, the text is the same."""
    data = b"".join(_PARTS[part] for part in parts)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    reader = Plain()
    found = "".join(reader.feed(data[start:end]) for start, end in pairwise(places))
    assert found + reader.finish() == plain(data)


@given(st.binary(max_size=200) | st.lists(st.sampled_from(_SMALL), max_size=12).map(b"".join))
def test_byte_by_byte(data: bytes) -> None:
    """One byte at a time gives what all at once gives, and no control character is left."""
    reader = Plain()
    found = "".join(reader.feed(data[n : n + 1]) for n in range(len(data))) + reader.finish()
    assert found == plain(data)
    assert all(character in "\t\n" or character >= " " for character in found)
    assert "\x7f" not in found


def test_lines_come_when_they_end() -> None:
    """A line is held until its end, since it may be written over; then it is given at once."""
    reader = Plain()
    assert reader.feed(b"10%\r20%") == ""
    assert reader.feed(b"\nnext") == "20%\n"
    assert reader.finish() == "next"


def test_a_line_without_end_is_not_kept() -> None:
    """Of a line without end only a bounded part is held back."""
    reader = Plain()
    got = sum(len(reader.feed(b"x" * 10_000)) for _ in range(1000))
    assert 10_000_000 - got < LINE_CHARACTERS
    assert got + len(reader.finish()) == 10_000_000


def test_large_output_is_read_in_one_pass() -> None:
    """Hostile megabytes end: nothing looks at the same bytes again and again."""
    assert len(plain(b"\x1b]" * 50_000)) == 0
    assert len(plain(b"\x1b" * 100_000)) == 0
    assert plain(b"\r" * 100_000 + b"x") == "x"
