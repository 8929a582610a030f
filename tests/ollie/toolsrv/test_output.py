"""What is kept of an output, and what its readers see."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.toolsrv.output import PIECE_BYTES, Output, OutputReader, left_out

LIMIT = 4 * PIECE_BYTES
HALF = LIMIT // 2


async def _read_all(reader: OutputReader, count: int = 8192) -> bytes:
    """What a client that reads from the start to the end of file gets."""
    pieces = []
    offset = 0
    while data := await reader.read(offset, count):
        pieces.append(data)
        offset += len(data)
    return b"".join(pieces)


def _numbered(size: int) -> bytes:
    """Bytes in which each position can be told from its neighbours."""
    return b"".join(b"%07d\n" % line for line in range(size // 8 + 1))[:size]


async def test_output_within_the_limit_is_kept_whole() -> None:
    """Nothing is dropped while the output fits."""
    output = Output(LIMIT)
    data = _numbered(LIMIT)
    output.append(data)
    assert output.kept() == (data[:HALF], 0, data[HALF:])
    assert await _read_all(OutputReader(output)) == data


@given(pieces=st.lists(st.integers(0, 3 * PIECE_BYTES), max_size=12))
def test_what_is_kept_is_the_true_head_and_tail(pieces: list[int]) -> None:
    """However the output arrives, head, dropped count and tail add up to it, and the tail keeps its share."""
    output = Output(LIMIT)
    whole = _numbered(sum(pieces))
    start = 0
    for size in pieces:
        output.append(whole[start : start + size])
        start += size
    head, missing, tail = output.kept()
    assert output.length == len(whole)
    assert head == whole[:HALF]
    assert missing == max(0, len(whole) - LIMIT)
    assert tail == whole[HALF + missing :]
    assert output.kept_bytes == len(head) + len(tail)
    assert b"".join(output.everything()) == head + (left_out(missing) if missing else b"") + tail


@given(size=st.integers(0, 3 * LIMIT), at_most=st.integers(1, LIMIT))
def test_less_than_what_is_kept_can_be_had(size: int, at_most: int) -> None:
    """So much of each end, the rest is counted as missing; all of it when that is no more."""
    output = Output(LIMIT)
    whole = _numbered(size)
    output.append(whole)
    head, missing, tail = output.kept(at_most)
    assert head == whole[: len(head)]
    assert tail == whole[len(head) + missing :]
    if output.kept_bytes <= 2 * at_most:
        assert output.kept() == (head, missing, tail)
    else:
        assert len(head) == min(at_most, HALF)
        assert len(tail) == min(at_most, HALF if output.kept().missing else at_most)


async def test_a_reader_gets_one_line_for_what_was_dropped() -> None:
    """A sequential reader sees the head, the notice and the tail, without a break."""
    output = Output(LIMIT)
    whole = _numbered(10 * LIMIT)
    output.append(whole)
    head, dropped, tail = output.kept()
    assert await _read_all(OutputReader(output)) == head + left_out(dropped) + tail


async def test_a_first_read_at_an_offset_begins_at_that_position_of_the_whole_output() -> None:
    """Offsets are positions in everything that was written, also behind the dropped part."""
    output = Output(LIMIT)
    whole = _numbered(10 * LIMIT)
    output.append(whole)
    position = len(whole) - 100
    assert await OutputReader(output).read(position, 50) == whole[position : position + 50]


async def test_a_reader_that_goes_back_finds_what_it_read_before() -> None:
    """The offsets of one reader mean the same bytes the second time."""
    output = Output(LIMIT)
    output.append(_numbered(10 * LIMIT))
    reader = OutputReader(output)
    whole = await _read_all(reader)
    notice = left_out(output.kept().missing)
    for offset in (0, HALF - 10, HALF + len(notice) + 5):
        assert whole[offset:].startswith(await reader.read(offset, 64))


async def test_a_slow_reader_is_told_of_each_gap_it_meets() -> None:
    """Data that was dropped under a reader in the tail is announced too, and reading goes on."""
    output = Output(LIMIT)
    output.append(_numbered(3 * LIMIT))
    reader = OutputReader(output)
    offset = 0
    while offset < HALF + 100:
        offset += len(await reader.read(offset, 1000))
    output.append(bytes(2 * LIMIT))
    assert b"bytes left out" in await reader.read(offset, 8192)


async def test_a_waiting_reader_wakes_on_output_and_on_its_end() -> None:
    """`more` is True as soon as there is data past the offset, False once the output is closed."""
    output = Output(LIMIT)
    reader = OutputReader(output)
    waiting = asyncio.create_task(reader.more(0))
    await asyncio.sleep(0)
    output.append(b"x")
    assert await waiting is True
    waiting = asyncio.create_task(reader.more(1))
    await asyncio.sleep(0)
    output.close()
    assert await waiting is False


async def test_a_cancelled_reader_leaves_nothing_behind() -> None:
    """A reader that goes away while it waits is forgotten."""
    output = Output(LIMIT)
    waiting = asyncio.create_task(output.beyond(0))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not output._waiters
