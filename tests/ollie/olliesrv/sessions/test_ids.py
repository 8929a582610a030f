"""Ids and names."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.sessions.ids import check_name, is_id, new_id


def test_ids_are_uuids_of_version_7_that_sort_by_time() -> None:
    """Version and variant bits are where RFC 9562 wants them."""
    made = [new_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert {uuid.UUID(text).version for text in made} == {7}
    assert {uuid.UUID(text).variant for text in made} == {uuid.RFC_4122}
    milliseconds = [text[:13] for text in made]
    assert milliseconds == sorted(milliseconds)


@pytest.mark.parametrize("name", ["a", "myproj", "0", "A.b-c_d", "x" * 64, "new.", "newer"])
def test_a_good_name_is_taken(name: str) -> None:
    """Letters, digits and three signs, a letter or digit first."""
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "new",
        "idx",
        ".",
        "..",
        "-a",
        "_a",
        "a/b",
        "a b",
        "ä",
        "a\n",
        "x" * 65,
        "a\0",
        "eb0e9a3c-4018-43a4-b38e-9671fd034eb3",
        "0" * 32,
    ],
)
def test_a_bad_name_is_refused(name: str) -> None:
    """Among them whatever could be taken for an id."""
    with pytest.raises(RefusedError, match=r"^bad name: "):
        check_name(name)


@given(st.uuids())
def test_no_id_is_a_name(value: uuid.UUID) -> None:
    """In none of its notations."""
    for text in (str(value), value.hex, value.urn, f"{{{value}}}", str(value).upper()):
        assert is_id(text)
        with pytest.raises(RefusedError):
            check_name(text)
