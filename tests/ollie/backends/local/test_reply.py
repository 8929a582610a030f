"""Replies of the embedded model, in any pieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.backends.local.reply import Reply
from ollie.engine.messages import CallDelta, StreamEvent, TextDelta


def events(pieces: list[str], *, plain: bool = False) -> list[StreamEvent]:
    reply = Reply("id", plain=plain)
    fed = [event for piece in pieces for event in reply.feed(piece)]
    return [*fed, *reply.finish()]


def words(found: list[StreamEvent]) -> str:
    return "".join(event.text for event in found if isinstance(event, TextDelta))


def calls(found: list[StreamEvent]) -> list[CallDelta]:
    return [event for event in found if isinstance(event, CallDelta)]


@st.composite
def pieces(draw: st.DrawFn, source: str) -> list[str]:
    """`source`, cut anywhere."""
    cuts = sorted(draw(st.lists(st.integers(0, len(source)), max_size=8)))
    return [source[start:end] for start, end in zip([0, *cuts], [*cuts, len(source)], strict=True)]


@given(st.data(), st.text(), st.sampled_from([True, False]), st.sampled_from(["", '"about": "talk", ']))
def test_the_text_of_an_answer_is_passed_on_whole(data: st.DataObject, text: str, escaped: object, about: str) -> None:
    """Escapes and surrogate pairs come out as characters, wherever the reply is cut."""
    source = f'{{{about}"answer": {json.dumps(text, ensure_ascii=bool(escaped))}}}'
    found = events(data.draw(pieces(source)))
    assert words(found) == text
    assert not calls(found)


@given(st.data(), st.text(min_size=1), st.dictionaries(st.text(), st.text() | st.integers() | st.booleans()))
def test_a_call_is_passed_on_once_with_its_arguments_as_written(
    data: st.DataObject, name: str, arguments: dict[str, object]
) -> None:
    """Its name is decoded, its arguments are the very JSON text."""
    written = json.dumps(arguments)
    source = f'{{"about": "computer", "tool": {json.dumps(name)}, "arguments": {written}}}'
    found = events(data.draw(pieces(source)))
    assert found == [CallDelta(0, "id", name, written)]


@given(st.data(), st.text())
def test_a_reply_without_tools_is_its_text(data: st.DataObject, text: str) -> None:
    """Plain text is passed on as it is, JSON or not."""
    assert words(events(data.draw(pieces(text)), plain=True)) == text


@given(st.lists(st.text()))
def test_any_text_gives_events(texts: list[str]) -> None:
    """A reply that is neither an answer nor a call raises nothing and loses nothing that is no JSON."""
    found = events(texts)
    joined = "".join(texts)
    assert "{" in joined or words(found) == joined


def test_an_answer_comes_while_it_is_generated() -> None:
    """Each piece gives what it completes, at once."""
    reply = Reply("id")
    given_back = [words(reply.feed(piece)) for piece in ['{"answer"', ': "Hel', "lo\\", "n", "the", 're"}']]
    assert given_back == ["", "Hel", "lo", "\n", "the", "re"]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"\ud83d\ude00", "\N{GRINNING FACE}"),
        (r"\ud83d!", "\ufffd!"),
        (r"\ud83d\n", "\ufffd\n"),
        (r"\ude00", "\ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd\N{GRINNING FACE}"),
        (r"\uzzzz", "\ufffd"),
        (r"\x", "\ufffd"),
    ],
)
def test_what_is_no_character_is_replaced(written: str, text: str) -> None:
    """Lone surrogates and unknown escapes become U+FFFD, cut or not."""
    source = f'{{"answer": "{written}"}}'
    assert words(events([source])) == words(events(list(source))) == text


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('{"tool": "shell", "arguments": {"cmd": "l', [CallDelta(0, "id", "shell", '{"cmd": "l')]),
        ('{"about": "computer", "tool": "shell", ', [TextDelta('{"about": "computer", "tool": "shell", ')]),
        ('{"answer": "half', [TextDelta("half")]),
        ("", []),
    ],
)
def test_what_was_cut_is_passed_on_as_far_as_it_came(source: str, found: list[StreamEvent]) -> None:
    """Cut arguments stay cut, so that whoever runs the call sees that they are no JSON."""
    assert events([source]) == found
