"""Scripts of turns: played, recorded, and played again."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollie.backends import replay, script
from ollie.backends.interface import BackendError, ErrorKind, Request, stream
from ollie.backends.record import Recorder
from ollie.backends.replay import ReplayBackend
from ollie.backends.script import Reply, Script, ScriptError, Turn
from ollie.engine.messages import (
    Activity,
    Assistant,
    CallDelta,
    End,
    Message,
    ReasoningDelta,
    StreamEvent,
    TextContent,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageReport,
    User,
)
from ollie.engine.system import reminder

SCRIPT = """
model: actor
turns:
  - prompt: list the files
    replies:
      - text: I look.
        reasoning: hm
        calls: [{name: shell, arguments: {cmd: "ls {prompt}"}}]
        usage: {input_tokens: 5, output_tokens: 2, cost_usd: 0.25}
      - text: ["There is ", "{result}"]
  - prompt: again
    replies: [{text: once}]
  - prompt: again
    replies: [{text: twice}]
  - match: ^say (?P<word>.*)
    replies: [{text: "you said {prompt} {unknown}", activity: ready}]
  - prompt: fail
    replies: [{text: one two three, error: {kind: overloaded, message: busy, retry_after_s: 2, times: 1, after: 2}}]
  - prompt: cut
    replies: [{text: half, cut: true}]
  - prompt: raw
    replies: [{calls: [{name: f, arguments: '{"a', id: x}], stop: length}]
"""

LS = (User("list the files"), Assistant("I look.", calls=(ToolCall("call_1", "shell", "{}"),)))


def result(text: str) -> ToolResult:
    return ToolResult("call_1", "shell", (TextContent(text),))


async def play(backend: ReplayBackend | Recorder, *history: Message) -> list[StreamEvent]:
    return [event async for event in stream(backend, Request("actor", "", history))]


async def said(backend: ReplayBackend | Recorder, *history: Message) -> str:
    return "".join(event.text for event in await play(backend, *history) if isinstance(event, TextDelta))


@pytest.fixture
def actor() -> ReplayBackend:
    return ReplayBackend(script.parse(SCRIPT))


async def test_a_turn_with_a_tool(actor: ReplayBackend) -> None:
    """The replies of a turn come one after another, with calls, usage and the words that they repeat."""
    assert await play(actor, User("list the files")) == [
        ReasoningDelta("hm"),
        TextDelta("I"),
        TextDelta(" look."),
        CallDelta(0, "call_1", "shell", '{"cmd":"ls list the files"}'),
        UsageReport(Usage(5, 0, 2), 0.25),
        End("tool_calls"),
    ]
    assert await play(actor, *LS, result("a.txt")) == [TextDelta("There is "), TextDelta("a.txt"), End("stop")]
    assert await actor.models() == ["actor"]


@pytest.mark.parametrize(
    ("history", "text"),
    [
        ([User("again")], "once"),
        ([User(" again\n")], "once"),
        ([User("again"), Assistant("once"), User("again")], "twice"),
        ([User("again"), Assistant(), User("again"), Assistant(), User("again")], "twice"),
        ([User("say hi")], "you said say hi {unknown}"),
        ([User("say a"), Assistant(), User("again")], "once"),
        ([*LS, result("a"), User("never mind")], "There is a"),
        ([*LS, result("b"), User(reminder("say no"))], "There is b"),
    ],
)
async def test_which_reply_comes(actor: ReplayBackend, history: Sequence[Message], text: str) -> None:
    """The conversation says which turn and which of its replies; words no turn is for are passed over."""
    assert await said(actor, *history) == text


async def test_failures(actor: ReplayBackend) -> None:
    """A reply may fail behind some of its pieces, so often, and then succeed; or end without a stop reason."""
    events = stream(actor, Request("actor", "", (User("fail"),)))
    assert [await anext(events), await anext(events)] == [TextDelta("one"), TextDelta(" two")]
    with pytest.raises(BackendError, match="busy") as caught:
        await anext(events)
    assert (caught.value.kind, caught.value.retry_after_s) == (ErrorKind.overloaded, 2)
    assert await said(actor, User("fail")) == "one two three"
    with pytest.raises(BackendError, match="without a stop reason"):
        await play(actor, User("cut"))


async def test_odd_calls(actor: ReplayBackend) -> None:
    """A script can play what models do wrong."""
    assert await play(actor, User("raw")) == [CallDelta(0, "x", "f", '{"a'), End("length")]
    assert (await play(actor, User("say x")))[0] == Activity("ready")


@pytest.mark.parametrize(
    ("history", "text"),
    [
        ([User("what\nis this")], "the script has no turn for: what is this"),
        ([], "the script has no turn for: "),
        ([User("again"), Assistant()], "the script has no reply 2 to: again"),
    ],
)
async def test_what_the_script_lacks(actor: ReplayBackend, history: Sequence[Message], text: str) -> None:
    """Words that no turn is for, and a reply too many, are clear errors that are not repeated."""
    with pytest.raises(BackendError) as caught:
        await play(actor, *history)
    assert (caught.value.kind, caught.value.message) == (ErrorKind.bad_request, text)


async def test_fifty_conversations_share_a_script(actor: ReplayBackend) -> None:
    """Conversations that run at the same time get each its own words."""
    texts = await asyncio.gather(*(said(actor, User(f"say {n}")) for n in range(50)))
    assert texts == [f"you said say {n} {{unknown}}" for n in range(50)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("turns: [", "the script is not YAML"),
        ("", "the script is wrong: Expected `object`, got `null`"),
        ("turns: []\nother: 1", "the script is wrong: Object contains unknown field `other`"),
        ("turns: [{replies: [{text: 5}]}]", "the script is wrong: Expected `str | array`, got `int`"),
        ("turns: [{match: '(', replies: []}]", "the script has a bad regular expression"),
        ("turns: [{replies: [{error: {kind: tired}}]}]", "the script is wrong: Invalid enum value 'tired'"),
    ],
)
def test_scripts_that_are_none(text: str, problem: str) -> None:
    """A script with a mistake says which and where."""
    with pytest.raises(ScriptError, match="^" + problem.replace("(", r"\(").replace("|", r"\|")):
        script.parse(text)


def test_scripts_that_cannot_be_read(tmp_path: Path) -> None:
    """A script that is not named, not there or none is one clear line."""
    bad = tmp_path / "bad.yaml"
    bad.write_bytes(b"\xff")
    for path, text in (("", "set OLLIE_REPLAY"), (f"{tmp_path}/none", "no such file"), (str(bad), str(bad))):
        with pytest.raises(BackendError, match=text):
            replay.create(path)


TEXTS = st.text(alphabet="ab {}\n:'\"-é\u2028", max_size=12)
REPLIES = st.builds(
    Reply,
    text=TEXTS,
    reasoning=TEXTS,
    calls=st.lists(
        st.builds(
            script.ScriptedCall, TEXTS.filter(bool), st.dictionaries(TEXTS, TEXTS | st.integers(-9, 9)), st.just("i")
        ),
        max_size=2,
    ),
    usage=st.none() | st.builds(script.ScriptedUsage, st.integers(0, 9), cost_usd=st.none() | st.floats(0, 1)),
)


@settings(max_examples=25)
@given(st.lists(st.builds(Turn, st.lists(REPLIES, max_size=3), TEXTS), max_size=3))
def test_a_script_survives_yaml(turns: list[Turn]) -> None:
    """A script that was written is read as it was."""
    assert script.parse(script.dump(Script(turns))) == Script(turns)


@given(TEXTS)
def test_pieces_are_the_text(text: str) -> None:
    """A text streamed word by word is that text."""
    assert "".join(Reply(text).pieces) == text


async def test_what_was_recorded_is_played(tmp_path: Path, actor: ReplayBackend) -> None:
    """A recorded conversation, a failure in it included, is played again event by event."""
    path = tmp_path / "script.yaml"
    recorder = Recorder(actor, str(path))
    histories: list[tuple[Message, ...]] = [
        (User("list the files"),),
        (*LS, result("a.txt")),
        (*LS, result("a.txt"), Assistant("There is a.txt"), User("again")),
        (User("again"), Assistant("once"), User("again")),
        (User("raw"),),
    ]
    recorded = [await said(recorder, *history) for history in histories]
    with pytest.raises(BackendError, match="busy"):
        await play(recorder, User("fail"))
    assert await said(recorder, User("fail")) == "one two three"

    player = replay.create(str(path))
    assert [await said(player, *history) for history in histories] == recorded
    assert await play(player, User("raw")) == [CallDelta(0, "x", "f", '{"a'), End("length")]
    assert UsageReport(Usage(5, 0, 2), 0.25) in await play(player, User("list the files"))
    with pytest.raises(BackendError, match="busy"):
        await play(player, User("fail"))
    assert await said(player, User("fail")) == "one two three"
    assert await player.models() == await recorder.models()
    await recorder.close()
