"""The notation of chat.raw."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.engine.blocks import Block, BlockError, Writer, parse, tail, written
from ollie.engine.reader import Reader

PAYLOADS = st.text(alphabet=st.sampled_from('[[[]\\\n\n a="é\r\u2028')) | st.text()
BLOCKS = st.builds(
    Block,
    kind=st.sampled_from(["user", "assistant", "tool", "end"]),
    attributes=st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), st.text(), max_size=3),
    text=PAYLOADS,
)


@given(st.lists(BLOCKS))
def test_every_block_comes_back(blocks: list[Block]) -> None:
    """Whatever the payloads and attributes hold, the parser gives the same blocks."""
    assert parse("".join(map(written, blocks)).encode()) == blocks


@given(st.lists(PAYLOADS))
def test_a_payload_in_pieces_is_the_payload(pieces: list[str]) -> None:
    """A block written in pieces is, byte for byte, the block written at once."""
    writer, out = Writer().begin("assistant")
    for piece in pieces:
        writer, more = writer.more(piece)
        out += more
    assert out + writer.end()[1] == written(Block("assistant", {}, "".join(pieces)))


@given(st.lists(PAYLOADS, min_size=1))
def test_a_file_is_valid_at_every_moment(pieces: list[str]) -> None:
    """After each piece the parser sees one block, whose text is the beginning of the payload."""
    writer, out = Writer().begin("assistant")
    for piece in pieces:
        writer, more = writer.more(piece)
        out += more
        (block,) = parse(out.encode())
        assert "".join(pieces).startswith(block.text)


@given(st.lists(BLOCKS))
def test_no_payload_line_looks_like_a_marker(blocks: list[Block]) -> None:
    r"""Without its marker lines a file is as many payloads as it was, so `grep -v '^\\[\\[\\['` keeps them whole."""
    lines = "".join(map(written, blocks)).split("\n")
    assert sum(line.startswith("[[[") for line in lines) == len(blocks)


@pytest.mark.parametrize(
    ("payload", "line"),
    [
        ("[[[x", "\\[[[x"),
        ("\\[[[x", "\\\\[[[x"),
        ("\\\\[[[x", "\\\\\\[[[x"),
        ("[[x", "[[x"),
        (" [[[x", " [[[x"),
        ("\\x", "\\x"),
    ],
)
def test_lines_like_markers_are_escaped(payload: str, line: str) -> None:
    """Only a line that begins like a marker gets a backslash."""
    assert written(Block("user", {}, payload)) == f"[[[user]]]\n{line}\n"


def test_odd_values_are_quoted() -> None:
    """Values with blanks, brackets, quotes or newlines stand as JSON strings on the marker's line."""
    block = Block("tool", {"id": 'a ]]]\n"b"', "name": "file_read"})
    assert written(block) == '[[[tool id="a ]]]\\n\\"b\\"" name=file_read]]]\n'


@pytest.mark.parametrize(
    "data",
    [
        b"hello\n[[[user]]]\n",
        b"[[[user\n",
        b"[[[user]]] \n",
        b"[[[user a=]]]\n",
        b'[[[user a="\\x"]]]\n',
        b"[[[user]]]\n\xff",
    ],
)
def test_what_is_no_block_is_refused(data: bytes) -> None:
    """Damaged files are an error and not a guess."""
    with pytest.raises(BlockError):
        parse(data)


@given(st.binary())
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    """The parser raises nothing but its own error."""
    with contextlib.suppress(BlockError):
        parse(data)


@pytest.mark.parametrize(
    ("limit_bytes", "expected"),
    [
        (100, b"[[[user]]]\nhello\n[[[end]]]\nbye\n"),
        (31, b"[[[user]]]\nhello\n[[[end]]]\nbye\n"),
        (30, b"[[[end]]]\nbye\n"),
        (14, b"[[[end]]]\nbye\n"),
        (13, b"bye\n"),
        (4, b"bye\n"),
        (3, b""),
    ],
)
def test_tail_begins_at_a_block(limit_bytes: int, expected: bytes) -> None:
    """A cut file is read from its first whole marker on, else from a whole line on."""
    assert tail(b"[[[user]]]\nhello\n[[[end]]]\nbye\n", limit_bytes) == expected
    assert len(tail(b"no newline at all", limit_bytes)) <= limit_bytes


@given(st.lists(BLOCKS), st.lists(st.integers(0)))
def test_a_reader_gives_the_same_wherever_the_file_is_cut(blocks: list[Block], cuts: list[int]) -> None:
    """Its markers, and the payload behind each."""
    data = "".join(map(written, blocks)).encode()
    reader, found = Reader(), list[tuple[str, dict[str, str], str]]()
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for part in itertools.chain.from_iterable(reader.feed(data[a:b]) for a, b in itertools.pairwise(places)):
        if isinstance(part, str):
            found[-1] = (*found[-1][:2], found[-1][2] + part)
        else:
            found.append((part.kind, part.attributes, ""))
    assert found == [(block.kind, block.attributes, block.text) for block in blocks]
