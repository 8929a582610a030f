"""Valid histories, calls, retries, counts: the small pure parts of the engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.engine import own
from ollie.engine.calls import receive
from ollie.engine.cost import Totals, counted, estimate
from ollie.engine.history import call_ids, fit_id, fit_name, parse_arguments, problem
from ollie.engine.limits import Limits
from ollie.engine.messages import (
    Assistant,
    CallDelta,
    ErrorKind,
    ImageContent,
    Message,
    Request,
    TextContent,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    User,
)
from ollie.engine.partial import Partial, joined
from ollie.engine.retry import RETRIED, delay
from ollie.engine.system import assemble, is_reminder, reminder

CALL = ToolCall("a", "f", "{}")
RESULT = ToolResult("a", "f", ())


@pytest.mark.parametrize(
    ("history", "wrong"),
    [
        ((), ""),
        ((User("x"), User("y"), Assistant("z")), ""),
        ((Assistant(calls=(CALL, ToolCall("b", "f", ""))), RESULT, ToolResult("b", "f", ())), ""),
        ((Assistant(calls=(CALL,)),), "a call has no result: a"),
        ((Assistant(calls=(CALL,)), User("x"), RESULT), "message 1 stands where a result should be: a"),
        ((Assistant(calls=(CALL,)), RESULT, RESULT), "message 2 is a result that nothing waits for: a"),
        (
            (Assistant(calls=(ToolCall("b", "f", "{}"), CALL)), RESULT),
            "message 1 is a result that nothing waits for: a",
        ),
        ((Assistant(calls=(CALL,)), RESULT, Assistant(calls=(CALL,)), RESULT), "has a call whose id is not unique: a"),
        ((Assistant(calls=(ToolCall("a", "f g", "{}"),)), RESULT), "message 0 has a malformed call: a"),
        ((Assistant(calls=(ToolCall("a", "f", "{"),)), RESULT), "message 0 has a malformed call: a"),
        ((Assistant(),), "message 0 is empty"),
    ],
)
def test_what_is_wrong_with_a_history(history: tuple[Message, ...], wrong: str) -> None:
    """Every way in which a history can be invalid has its sentence; a valid one has none."""
    assert problem(history).endswith(wrong)
    assert bool(problem(history)) == bool(wrong)


@given(
    st.lists(st.builds(ToolCall, st.text(max_size=2), st.text(max_size=3), st.text(max_size=5)), max_size=5),
    st.booleans(),
)
def test_any_calls_make_a_valid_history(wanted: list[ToolCall], cut: bool) -> None:
    """Whatever a model writes as calls has a form that providers accept, with one result each."""
    history: list[Message] = [Assistant(calls=(ToolCall("0", "f", "{}"),)), ToolResult("0", "f", ())]
    calls = receive(wanted, [ToolSpec("f", "", {})], call_ids(history), cut=cut)
    results = [call.result or ToolResult(call.call.id, call.call.name, ()) for call in calls]
    message = [Assistant("x", calls=tuple(call.call for call in calls))]
    assert len(calls) == len(wanted)
    assert problem([*history, *message, *results]) == ""
    assert not cut or all(call.result and call.result.is_error for call in calls)


@given(st.text())
def test_names_fit(name: str) -> None:
    """Any name becomes one that providers accept, and one that they accept stays."""
    assert problem([Assistant(calls=(ToolCall("a", fit_name(name), ""),)), RESULT]) == ""
    assert fit_name(fit_name(name)) == fit_name(name)


@given(st.text(max_size=3), st.sets(st.text(max_size=5)))
def test_ids_fit(wanted: str, used: set[str]) -> None:
    """An id is used once, and stays as it is where it can."""
    assert fit_id(wanted, used) not in used
    assert fit_id(wanted, used) == wanted or wanted in used or not wanted


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        (" \n", {}),
        ('{"a":[1]}', {"a": [1]}),
        ("[]", None),
        ("null", None),
        ("{}{}", None),
        ('{"a":NaN}', None),
        ("[" * 100_000, None),
    ],
)
def test_arguments(text: str, arguments: dict[str, object] | None) -> None:
    """Arguments are a JSON object and nothing else; no text is an empty one."""
    assert parse_arguments(text) == arguments


@given(st.lists(st.text(max_size=9)))
def test_pieces_stay_few(texts: list[str]) -> None:
    """Pieces hold the whole text in a number that grows with its logarithm only."""
    pieces: tuple[str, ...] = ()
    for text in texts:
        pieces = joined(pieces, text)
    assert "".join(pieces) == "".join(texts)
    assert len(pieces) <= 2 + len("".join(texts)).bit_length()


def test_calls_are_put_together_by_index() -> None:
    """Pieces of calls that come interleaved and in any order make whole calls in order of their index."""
    partial = Partial()
    for delta in (CallDelta(1, "b", "g", "{"), CallDelta(0, "a", "f", "{}"), CallDelta(1, "x", "y", "}")):
        partial = partial.with_call(delta)
    assert partial.calls == (ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"))
    assert partial.characters == 4


@pytest.mark.parametrize("kind", ErrorKind)
def test_only_what_may_pass_is_repeated(kind: ErrorKind) -> None:
    """Overload and lost connections are repeated; what would fail again is not."""
    assert (delay(Limits(), kind, 0, None, 0.5) is not None) == (kind in RETRIED)


@given(st.integers(0, 20), st.none() | st.floats(0, 1e9), st.floats(0, 1))
def test_waits_are_finite_and_bounded(attempt: int, asked_s: float | None, jitter: float) -> None:
    """A wait is never shorter than asked for, never much longer than the bound, and the attempts are counted."""
    wait_s = delay(Limits(max_retries=9), ErrorKind.rate_limited, attempt, asked_s, jitter)
    if attempt >= 9 or (asked_s or 0) > 120:
        assert wait_s is None
    else:
        assert wait_s is not None
        assert (asked_s or 0) <= wait_s <= 126


def test_jitter_spreads_the_waits() -> None:
    """Agents that failed together come back spread over half of the wait."""
    waits = [delay(Limits(), ErrorKind.unavailable, 3, None, jitter) for jitter in (0.0, 0.5, 1.0)]
    assert waits == [4.0, 6.0, 8.0]


def test_counts() -> None:
    """Totals add up, and the context is that of the newest request."""
    totals = counted(counted(Totals(), Usage(10, 4, 3, 1), 0.5, estimated=False), Usage(1, 0, 2), 0.0, estimated=True)
    assert totals.usage == Usage(11, 4, 5, 1)
    assert (totals.cost_usd, totals.estimated, totals.context_tokens) == (0.5, 1, 3)


def test_estimates() -> None:
    """Tokens that nobody reported are estimated from all that was sent, images and calls included."""
    history = (
        User("x" * 40),
        Assistant("x" * 36, calls=(CALL, ToolCall("b", "g", "x"))),
        ToolResult("a", "f", (TextContent("x" * 15), ImageContent("data", "image/png"))),
    )
    assert estimate(Request("m", "x" * 4, history), 40) == Usage(1025, 0, 10, 0)


def test_own_tools_say_what_is_wrong() -> None:
    """An empty question is an error for the model."""
    assert own.answer("ask_user", {"question": " "}, "").is_error
    assert own.answer("ask_user", {}, "").is_error
    assert own.answer("plan", {}, "").text == "there is no plan yet"


def test_system_prompts() -> None:
    """The prompt has its parts in order; the plan is shown in a message that can be told from words of the user."""
    assert assemble("Be brief.\n", "/project") == "Be brief.\n\nWorking directory: /project"
    assert is_reminder(reminder("steps"))
    assert not is_reminder("plan")
