"""Numbers that are never used twice."""

from pathlib import Path

import pytest

from ollie.toolsrv.counter import BLOCK, Counter


def test_numbers_grow_by_one_from_one(tmp_path: Path) -> None:
    """A new counter gives 1, 2, 3."""
    counter = Counter(tmp_path / "n")
    assert [counter.next() for _ in range(3)] == [1, 2, 3]
    counter.close()


def test_a_closed_counter_goes_on_where_it_was(tmp_path: Path) -> None:
    """A clean restart wastes no number."""
    for expected in range(1, 4):
        counter = Counter(tmp_path / "n")
        assert counter.next() == expected
        counter.close()


@pytest.mark.parametrize("used", [1, BLOCK, BLOCK + 1])
def test_a_killed_counter_never_repeats_a_number(tmp_path: Path, used: int) -> None:
    """Without a close, the next one starts behind the whole block."""
    path = tmp_path / "n"
    counter = Counter(path)
    last = [counter.next() for _ in range(used)][-1]
    stored = path.read_bytes()
    counter.close()
    path.write_bytes(stored)
    again = Counter(path)
    assert again.next() > last
    again.close()


def test_two_servers_cannot_share_a_counter(tmp_path: Path) -> None:
    """The second one is refused while the first one lives."""
    path = tmp_path / "n"
    counter = Counter(path)
    with pytest.raises(BlockingIOError):
        Counter(path)
    counter.close()
