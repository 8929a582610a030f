"""The result of a run, from how it ended and what it printed."""

import pytest

from ollie.protocol.limits import RESULT_BYTES
from ollie.protocol.result import ResultError, TextContent
from ollie.sandbox.launcher import Exit
from ollie.toolsrv.output import Kept
from ollie.toolsrv.report import block_result, ending, remarks, shown, text_result

ENDS = [
    (Exit(0, None, "exited", 0, ()), "", []),
    (Exit(0, None, "exited", 1, ("a note",)), "", ["a note", "1 process was still running"]),
    (Exit(3, None, "exited", 2, ()), "exit status 3", ["2 processes were still running"]),
    (Exit(None, 11, "exited", 0, ()), "killed by signal 11", []),
    (Exit(None, 15, "timed out", 0, ()), "timed out after 2.5 s", []),
    (Exit(0, None, "timed out", 0, ()), "timed out after 2.5 s", []),
    (Exit(None, 9, "memory", 0, ()), "killed by signal 9", ["ended for using more memory"]),
    (Exit(None, 9, "processes", 0, ()), "killed by signal 9", ["ended for having more processes"]),
    (Exit(None, None, "lost", 0, ()), "killed by signal 9", ["the launcher of tools ended"]),
    (Exit(None, 15, "cancelled", 0, ()), "killed by signal 15", ["it was stopped"]),
]


@pytest.mark.parametrize(("end", "last", "said"), ENDS)
def test_every_end_has_its_words(end: Exit, last: str, said: list[str]) -> None:
    """Exit status, signal and time-out are told apart, and each reason and note has a remark."""
    assert ending(end, 2.5) == last
    found = remarks(end, ())
    assert len(found) == len(said)
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True))


RESULTS = [
    ("", [], "", "", False),
    ("out", [], "", "out", False),
    ("out\n", ["note"], "", "out\n[note]", False),
    ("out", ["note"], "exit status 1", "out\n[note]\nexit status 1", True),
    ("", [], "exit status 1", "exit status 1", True),
]


@pytest.mark.parametrize(("printed", "said", "last", "text", "is_error"), RESULTS)
def test_remarks_stand_between_the_output_and_its_end(
    printed: str, said: list[str], last: str, text: str, *, is_error: bool
) -> None:
    """Each on a line of its own; nothing is added to what ended well without a remark."""
    given = text_result(printed, 0, last, said, lambda: "never called")
    assert (given.text, given.is_error) == (text, is_error)


def test_a_cut_result_names_the_file_and_keeps_its_last_line() -> None:
    """What is left out is in the file; how it ended stays the last line."""
    given = text_result("x" * 2 * RESULT_BYTES, 0, "exit status 1", ["note"], lambda: "/kept")
    assert len(given.text.encode()) <= RESULT_BYTES
    assert "/kept" in given.text
    assert given.text.endswith("x\n[note]\nexit status 1")


def test_a_result_that_fits_names_the_file_when_something_is_missing() -> None:
    """Output that was mostly escape sequences may fit though not all of it was looked at."""
    given = text_result("x", 10, "", [], lambda: "/kept")
    assert given.text == "x\n[all that was kept of the output is in /kept]"


@pytest.mark.parametrize(("printed", "lost"), [("x", 10), ("x" * 2 * RESULT_BYTES, 0)])
def test_a_result_that_could_not_be_kept_says_so(printed: str, lost: int) -> None:
    """What fits is shown all the same."""
    given = text_result(printed, lost, "exit status 1", [], lambda: None)
    assert given.text.endswith("x\n[what is left out of the output could not be kept]\nexit status 1")
    assert len(given.text.encode()) <= RESULT_BYTES


def test_what_is_missing_is_shown_in_its_place() -> None:
    """One line between head and tail."""
    assert shown(Kept(b"a", 5, b"b")) == "a\n[... 5 bytes left out ...]\nb"


def test_blocks_get_their_remarks_as_another_text() -> None:
    """The tool's own content stays as it is."""
    given = block_result(
        Kept(b'{"content":[{"type":"text","text":"a"}]}', 0, b""), "", ["note"], lambda: "never called"
    )
    assert given.content == (TextContent("a"), TextContent("[note]"))
    assert not given.is_error


@pytest.mark.parametrize("printed", [Kept(b"oops", 0, b""), Kept(b'{"content":[', 7, b"]}")])
def test_blocks_that_are_none_or_incomplete_are_refused(printed: Kept) -> None:
    """No result is guessed."""
    with pytest.raises(ResultError):
        block_result(printed, "", [], lambda: "never called")
