"""Cutting what is too long: exact sizes, whole characters, one line that says so."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.protocol.limits import RESULT_BYTES, cut, cut_result
from ollie.protocol.result import ImageContent, TextContent, ToolResult

_LINE = re.compile(r"\[\.\.\. (\d+) bytes left out; all of it: /tmp/out \.\.\.\]")


@pytest.mark.parametrize("size", [0, 1, RESULT_BYTES - 1, RESULT_BYTES])
def test_what_fits_is_unchanged(size: int) -> None:
    """Up to the limit, the limit included, nothing happens."""
    assert cut("x" * size, path="/tmp/out") == "x" * size


def test_one_byte_too_many() -> None:
    """Above the limit head and tail are kept, and the line counts exactly what is missing."""
    text = "".join(f"line {n}\n" for n in range(10_000))
    found = cut(text, path="/tmp/out")
    assert len(found.encode()) <= RESULT_BYTES
    assert len(found.encode()) > RESULT_BYTES - 16
    line = _LINE.search(found)
    assert line
    head, tail = found[: line.start()], found[line.end() :]
    assert text.startswith(head.rstrip("\n"))
    assert text.endswith(tail.removeprefix("\n"))
    assert found.splitlines().count(line[0]) == 1
    assert abs(len(head) - len(tail)) < 16


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50),
    st.integers(1, 60),
    st.integers(128, 400),
)
def test_cut_is_exact(piece: str, times: int, limit: int) -> None:
    """At any limit whole characters are kept, the result fits, and the number adds up."""
    text = piece * times
    found = cut(text, path="/tmp/out", limit_bytes=limit)
    assert len(found.encode()) <= limit
    if len(text.encode()) <= limit:
        assert found == text
        return
    line = _LINE.search(found)
    assert line
    head, tail = found[: line.start()], found[line.end() :]
    # The line stands on its own: a newline may have been added on either side.
    sizes = {
        len(text.encode()) - len(h.encode()) - len(t.encode())
        for h in (head, head.removesuffix("\n"))
        for t in (tail, tail.removeprefix("\n"))
        if text.startswith(h) and text.endswith(t)
    }
    assert int(line[1]) in sizes


@pytest.mark.parametrize("limit", [0, 1, 20, 60, 127])
def test_tiny_limits(limit: int) -> None:
    """Where not even the line fits, its beginning is what is left."""
    assert len(cut("é" * 1000, path="/tmp/é" * 10, limit_bytes=limit).encode()) <= limit


@pytest.mark.parametrize(
    ("path", "lost", "line"),
    [
        (None, 0, "[... 1900 bytes left out ...]"),
        ("/f", 0, "bytes left out; all of it: /f ...]"),
        ("/f", 5000, "bytes left out, 5000 of them not kept; the rest: /f ...]"),
        (None, 5000, "bytes left out, 5000 of them not kept ...]"),
    ],
)
def test_the_line(path: str | None, lost: int, line: str) -> None:
    """The line says what was never kept, and where the rest is."""
    found = cut("x" * 2000, path=path, lost_bytes=lost, limit_bytes=131)
    assert line in found
    number = re.search(r"\d+", found)
    assert number
    assert int(number[0]) == 2000 + lost - found.count("x")


def test_last_line_survives() -> None:
    """What a failing tool says last is kept."""
    assert cut("x\n" * 100_000 + "exit status 2", path="/f").endswith("\nexit status 2")


def test_result_that_fits() -> None:
    """Texts that fit together stay as they are."""
    value = ToolResult((TextContent("a"), ImageContent(b"x" * 100_000, "image/png"), TextContent("b")))
    assert cut_result(value, path=None) is value


def test_result_that_does_not_fit() -> None:
    """Texts that are too long together become one; images and the error flag stay."""
    image = ImageContent(b"x" * 100_000, "image/png")
    found = cut_result(ToolResult((TextContent("a" * 20_000), image, TextContent("b" * 20_000)), True), path="/tmp/out")
    text, rest = found.content
    assert isinstance(text, TextContent)
    assert text.text.startswith("aaa")
    assert text.text.endswith("bbb")
    assert len(text.text) <= RESULT_BYTES
    assert rest == image
    assert found.is_error
