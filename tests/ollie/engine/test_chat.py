"""The conversation files."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ollie.engine import records as r
from ollie.engine.blocks import Block, Writer, parse
from ollie.engine.chat import ChatState, blocks_of, render_chat, render_raw
from ollie.engine.messages import Assistant, ErrorKind, ImageContent, TextContent, ToolCall, ToolResult

TEXTS = st.text(alphabet="ab[\\ \n>!") | st.text()
CALLS = st.builds(ToolCall, TEXTS, TEXTS, TEXTS)
CONTENT = st.builds(TextContent, TEXTS) | st.builds(ImageContent, TEXTS, TEXTS)
RECORDS = st.one_of(
    st.builds(r.Prompted, st.integers(1, 99), TEXTS),
    st.builds(r.Injected, TEXTS),
    st.builds(r.Reminded, TEXTS),
    st.builds(r.Spoke, TEXTS),
    st.builds(r.Reasoned, TEXTS),
    st.builds(r.Answered, st.builds(Assistant, text=TEXTS, calls=st.lists(CALLS).map(tuple))),
    st.builds(r.Returned, st.builds(ToolResult, TEXTS, TEXTS, st.lists(CONTENT).map(tuple), st.booleans())),
    st.builds(r.Noted, TEXTS),
    st.builds(r.Failed, st.sampled_from(ErrorKind), TEXTS, st.none() | st.floats(0, 100)),
    st.builds(r.Ended, st.integers(1, 99), st.sampled_from(r.Reason), TEXTS),
)

CONVERSATION: list[r.Record] = [
    r.Prompted(1, "fix the bug\nin main.go\n"),
    r.Reasoned("hm"),
    r.Spoke("\n\nI look"),
    r.Spoke(" at it."),
    r.Answered(Assistant("I look at it.", "hm", (ToolCall("c1", "shell", '{"cmd":"ls"}'),))),
    r.Returned(ToolResult("c1", "shell", (TextContent("main.go\n"),))),
    r.Spoke("Half"),
    r.Failed(ErrorKind.stream_cut, "the connection was lost", 4.0),
    r.Spoke("Done.\n"),
    r.Answered(Assistant("Done.\n")),
    r.Ended(1, r.Reason.answered),
    r.Prompted(2, "again"),
    r.Failed(ErrorKind.auth, "the key was refused"),
    r.Ended(2, r.Reason.failed, "the key was refused"),
]


def chat(records: Sequence[r.Record]) -> str:
    state, out = ChatState(), b""
    for record in records:
        state, more = render_chat(state, record)
        out += more
    return out.decode()


def raw(records: Sequence[r.Record]) -> bytes:
    state, out = Writer(), b""
    for record in records:
        state, more = render_raw(state, record)
        out += more
    return out


def merged(blocks: list[Block]) -> list[Block]:
    """The blocks as they are written: pieces of text that follow one another are one block."""
    result: list[Block] = []
    for block in blocks:
        if result and block.kind == result[-1].kind and block.kind in ("assistant", "reasoning"):
            result[-1] = Block(block.kind, {}, result[-1].text + block.text)
        else:
            result.append(block)
    return result


def test_chat_is_a_conversation_to_read() -> None:
    """Prompts are quoted, the model's words stand as they are, and a cut and an end that is no answer say why."""
    assert chat(CONVERSATION) == (
        "> fix the bug\n> in main.go\n\nI look at it.\n\nHalf\n\n"
        "! cut, and asked for again: the connection was lost\n\nDone.\n\n> again\n\n! the key was refused\n"
    )


def test_chat_raw_has_everything() -> None:
    """Reasoning, calls, results, failures and ends stand in blocks of their own."""
    kinds = [block.kind for block in parse(raw(CONVERSATION))]
    assert kinds == [
        *("user", "reasoning", "assistant", "tool", "result", "assistant", "error", "assistant", "end"),
        *("user", "error", "end"),
    ]


@given(st.lists(RECORDS))
def test_the_parser_gets_every_event_back(records: Sequence[r.Record]) -> None:
    """What chat.raw holds are exactly the blocks of the records, whatever their texts are."""
    records = [*records, r.Ended(1, r.Reason.answered)]
    separate = Block("separate", {})
    blocks = [block for record in records for block in blocks_of(record) or [separate]]
    assert parse(raw(records)) == [block for block in merged(blocks) if block is not separate]


@given(st.lists(RECORDS))
def test_the_end_of_a_turn_ends_the_line(records: Sequence[r.Record]) -> None:
    """Behind an `Ended` both files end with a newline, so a new prompt begins on a line of its own."""
    records = [r.Prompted(1, "x"), *records, r.Ended(1, r.Reason.answered)]
    assert chat(records).endswith("\n")
    assert raw(records).endswith(b"\n")


@given(st.lists(RECORDS))
def test_no_tools_or_reasoning_in_chat(records: Sequence[r.Record]) -> None:
    """Results, calls, reasoning and reminders leave chat as it is."""
    shown = [one for one in records if not isinstance(one, r.Returned | r.Reasoned | r.Reminded)]
    assert chat(shown) == chat(records)
