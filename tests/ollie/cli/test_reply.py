"""The model's words, out of `chat.raw` cut anywhere."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ollie.cli.reply import Reply
from ollie.engine.blocks import Block, written

TURN = [
    Block("user", {"turn": "1"}, "which file?\n"),
    Block("reasoning", {}, "hm"),
    Block("assistant", {}, "I look.\n"),
    Block("tool", {"id": "1", "name": "shell"}, '{"cmd": "ls"}'),
    Block("result", {"id": "1", "name": "shell"}, "[[[assistant]]]\nnot said"),
    Block("assistant", {}, "It is\n[[[this]]]\n\\[[[ and that.\n\nBye"),
    Block("end", {"turn": "1", "reason": "answered"}),
]
SAID = "I look.\n\nIt is\n[[[this]]]\n\\[[[ and that.\n\nBye"


def said(data: bytes, cuts: list[int]) -> tuple[str, Reply]:
    """What is given for the data, fed in pieces."""
    reply = Reply()
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return "".join(reply.feed(data[a:b]) for a, b in itertools.pairwise(places)), reply


@given(st.lists(st.integers(0)))
def test_the_words_of_a_turn(cuts: list[int]) -> None:
    """Wherever the data is cut, the assistant's words come out, and nothing of tools, users or reasoning."""
    text, reply = said("".join(map(written, TURN)).encode(), cuts)
    assert text == SAID
    assert reply.ok


blocks = st.lists(
    st.builds(
        Block,
        st.sampled_from(["assistant", "result", "error", "end"]),
        st.just({}),
        st.text(st.sampled_from("[\\\n é")) | st.text(),
    )
)


@given(blocks, st.lists(st.integers(0)))
def test_any_blocks(turn: list[Block], cuts: list[int]) -> None:
    """Every payload of the assistant comes out exactly, with at most newlines between two."""
    data = "".join(map(written, turn)).encode(errors="replace")
    payloads = [block.text.encode(errors="replace").decode() for block in turn if block.kind == "assistant"]
    text, _ = said(data, cuts)
    for payload in payloads:
        assert text.lstrip("\n").startswith(payload.lstrip("\n"))
        text = text.lstrip("\n").removeprefix(payload.lstrip("\n"))
    assert not text


@given(st.binary(), st.lists(st.integers(0)))
def test_any_bytes(data: bytes, cuts: list[int]) -> None:
    """Whatever comes, something is made of it."""
    said(data, cuts)


def test_words_come_at_once() -> None:
    """A piece of a line is given before the line has ended, unless it may be a marker."""
    reply = Reply()
    assert reply.feed(b"[[[assistant]]]\nHel") == "Hel"
    assert reply.feed(b"lo\n") == "lo"
    assert reply.feed(b"[") == ""
    assert reply.feed(b"x") == "\n[x"


def test_values_may_have_blanks() -> None:
    """And look like other pairs."""
    turn = [Block("end", {"model": "a reason=failed", "reason": "answered"})]
    assert said("".join(map(written, turn)).encode(), [])[1].reason == "answered"


def test_why_a_turn_failed() -> None:
    """The end and the last error are told."""
    turn = [Block("error", {"kind": "rate_limited"}, "too fast\nreally"), Block("end", {"reason": "failed"}, "gave up")]
    text, reply = said("".join(map(written, turn)).encode(), [])
    assert (text, reply.ok, reply.reason, reply.note, reply.error) == (
        "",
        False,
        "failed",
        "gave up",
        "too fast\nreally",
    )


CUT = [
    Block("assistant", {}, "I look.\n"),
    Block("tool", {"id": "1", "name": "shell"}, "{}"),
    Block("assistant", {}, "half"),
    Block("reasoning", {}, "hm"),
    Block("assistant", {}, " a reply"),
    Block("error", {"kind": "stream_cut", "retry_s": "0.5"}, "broke off"),
    Block("assistant", {}, "a reply"),
]


@given(st.lists(st.integers(0)), st.booleans())
def test_a_reply_that_begins_again(cuts: list[int], whole: bool) -> None:
    """Whole messages have nothing of the half; otherwise a line tells it from what counts."""
    turn = [*CUT, Block("end", {"reason": "answered"})]
    reply = Reply(whole=whole)
    data = "".join(map(written, turn)).encode()
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    text = "".join(reply.feed(data[a:b]) for a, b in itertools.pairwise(places))
    half = "half\n\n a reply\n[that was cut, and begins again]\n\n"
    assert text == f"I look.\n\n{'' if whole else half}a reply"
    assert reply.ok


def test_a_reply_that_stays_a_half() -> None:
    """What was said before an error that ended the turn is given."""
    turn = [Block("assistant", {}, "half"), Block("error", {"kind": "auth"}, "no"), Block("end", {"reason": "failed"})]
    assert Reply(whole=True).feed("".join(map(written, turn)).encode()) == "half"
