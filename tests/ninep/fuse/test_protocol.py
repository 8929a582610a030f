"""The kernel's structures: sizes are checked where they are defined, here that nothing is lost or mixed up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninep.fuse import protocol
from ninep.fuse.protocol import DIRENT, Layout, MalformedError, pack_dirent, parse_names

LAYOUTS = {name: value for name, value in vars(protocol).items() if isinstance(value, Layout)}
FORMATS = {"H": 16, "I": 32, "Q": 64}


def _values(layout: Layout[Any]) -> st.SearchStrategy[tuple[int, ...]]:
    """Values for each field, within its size."""
    fields = [letter for letter in layout._struct.format if letter in "HIQi"]
    ranges = [
        st.integers(-(2**31), 2**31 - 1) if letter == "i" else st.integers(0, 2 ** FORMATS[letter] - 1)
        for letter in fields
    ]
    return st.tuples(*ranges)


@pytest.mark.parametrize("name", LAYOUTS)
@given(data=st.data())
def test_parse_undoes_pack(name: str, data: st.DataObject) -> None:
    """Every structure comes back as it was packed, also from the middle of a buffer."""
    layout = LAYOUTS[name]
    record = layout._record(*data.draw(_values(layout)))
    packed = layout.pack(record)
    assert len(packed) == layout.size
    assert layout.parse(packed) == record
    assert layout.parse(b"12345" + packed + b"6", 5) == record


@pytest.mark.parametrize("name", LAYOUTS)
@given(data=st.data())
def test_pack_undoes_parse(name: str, data: st.DataObject) -> None:
    """What was parsed packs to the same bytes, but for reserved fields, which become zeros."""
    layout = LAYOUTS[name]
    record = layout.parse(data.draw(st.binary(min_size=layout.size, max_size=layout.size)))
    assert layout.parse(layout.pack(record)) == record


@pytest.mark.parametrize("name", LAYOUTS)
def test_too_short(name: str) -> None:
    """A structure that was cut off is refused."""
    layout = LAYOUTS[name]
    with pytest.raises(MalformedError):
        layout.parse(bytes(layout.size - 1))
    with pytest.raises(MalformedError):
        layout.parse(bytes(layout.size), 1)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 15), st.binary(min_size=1, max_size=255))))
def test_directory_entries(entries: list[tuple[int, int, bytes]]) -> None:
    """Entries can be taken apart again as the kernel does it: by their length, rounded up to 8 bytes."""
    data = b"".join(pack_dirent(ino, number, kind, name) for number, (ino, kind, name) in enumerate(entries, 1))
    found, at = [], 0
    while at < len(data):
        entry = DIRENT.parse(data, at)
        start = at + DIRENT.size
        found.append((entry.ino, entry.type, data[start : start + entry.namelen]))
        at = start + (entry.namelen + 7) // 8 * 8
        assert entry.off == len(found)
    assert (found, at) == (entries, len(data))


@given(st.lists(st.binary().filter(lambda name: b"\0" not in name), max_size=3))
def test_names(names: list[bytes]) -> None:
    """Names of any bytes come out as they went in."""
    data = b"head" + b"".join(name + b"\0" for name in names)
    assert [name.encode("utf-8", "surrogateescape") for name in parse_names(data, 4, len(names))] == names
    with pytest.raises(MalformedError):
        parse_names(data, 4, len(names) + 1)
