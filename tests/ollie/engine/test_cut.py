"""Closing a turn that was cut, whatever was stored of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.engine import cut
from ollie.engine.blocks import Writer, parse
from ollie.engine.chat import render_raw
from ollie.engine.history import problem
from ollie.engine.messages import Assistant, ErrorKind, Message, TextContent, ToolCall, ToolResult, User
from ollie.engine.records import (
    Answered,
    Failed,
    Noted,
    Prompted,
    Reasoned,
    Record,
    Returned,
    Spoke,
    message_of,
)

CALLS = (ToolCall("1", "shell", "{}"), ToolCall("2", "shell", "{}"))


def returned(call: ToolCall) -> Returned:
    return Returned(ToolResult(call.id, call.name, (TextContent("done"),)))


# What was appended of a turn, step by step: it can be cut behind each.
STEPS: list[tuple[Record, ...]] = [
    (Prompted(1, "go"),),
    (Reasoned("hm\n"),),
    (Spoke("I"),),
    (Failed(ErrorKind.overloaded, "busy", 1.0),),
    (Spoke("I look\n"),),
    (Spoke("[[[now"),),
    (Answered(Assistant("I look\n[[[now", "", CALLS)),),
    (returned(CALLS[0]),),
    (Noted("by the way"),),
    (returned(CALLS[1]),),
    (Spoke("It is"),),
    (Reasoned("or is it"),),
]
# What the model is told that it said, for each.
SAID = ["", "", "I", "", "I look", "I look\n[[[now", "", "", "", "", "It is", ""]


def stored(records: list[Record]) -> tuple[list[Message], bytes, Writer]:
    """The history and the file, and the writer that was lost."""
    history = [message for record in records if (message := message_of(record)) is not None]
    writer, file = Writer(), b""
    for record in records:
        writer, more = render_raw(writer, record)
        file += more
    return history, file, writer


@pytest.mark.parametrize("count", range(1, len(STEPS) + 1))
def test_a_turn_that_was_cut(count: int) -> None:
    """The history is valid, each call has one result, the file is blocks, and what was written is not changed."""
    history, file, _ = stored([record for step in STEPS[:count] for record in step])
    left = cut.look(history, file)
    assert left.said == SAID[count - 1]
    writer, closed = left.writer, file
    for record in cut.close(history, left.said, 1, 0.5):
        writer, more = render_raw(writer, record)
        closed += more
        if (message := message_of(record)) is not None:
            history.append(message)
    assert problem(history) == ""
    before, after = parse(file), parse(closed)
    assert after[: len(before) - 1] == before[:-1]
    assert after[len(before) - 1].text.startswith(before[-1].text)
    assert (after[-1].kind, after[-1].attributes["reason"], after[-1].text) == ("end", "stopped", cut.NOTE)
    results = [message for message in history if isinstance(message, ToolResult)]
    assert [result.call_id for result in results] == (["1", "2"] if count >= 7 else [])
    assert [result.is_error for result in results] == [count < 8, count < 10][: len(results)]
    assert writer == Writer()


@given(st.text(max_size=30), st.integers(0, 120))
def test_the_end_of_a_file_is_enough(text: str, count: int) -> None:
    """Wherever it is cut off: what follows is on a line of its own."""
    history, file, _ = stored([Prompted(1, text), Spoke(text or "x")])
    end = file[max(len(file) - count, 0) :]
    left = cut.look(history, end)
    writer, more = left.writer, b""
    for record in cut.close(history, left.said, 1, 0.0):
        writer, piece = render_raw(writer, record)
        more += piece
    if b"\n[[[assistant]]]" in end:
        assert [block.kind for block in parse(file + more)] == ["user", "assistant", "end"]


@pytest.mark.parametrize(
    ("history", "words"),
    [([], ""), ([User("x")], ""), ([User("x"), Assistant("a"), User("y"), Assistant("", "", CALLS)], "a")],
)
def test_last_words(history: list[Message], words: str) -> None:
    """The newest text of the model, whatever came after it."""
    assert cut.last_words(history) == words
