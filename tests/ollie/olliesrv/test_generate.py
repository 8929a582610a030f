"""One question to a model, without an agent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from served import write

from ninep.errors import NinepError
from ollie.olliesrv.generate import parse
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions import subagents


async def ask(ollie: Ollie, data: bytes) -> bytes:
    return b"".join([piece async for piece in ollie.generate(data, by=None)])


@pytest.mark.parametrize(
    "data",
    [
        b"say hello\n",
        b'{"prompt": "say hello"}',
        b'{"prompt": "say hello", "system": "be brief", "temperature": 0.5}\n',
    ],
)
async def test_a_prompt_is_answered_in_pieces(ollie: Ollie, data: bytes) -> None:
    """As text or as JSON; the answer ends in one newline."""
    assert await ask(ollie, data) == b"you said: say hello\n"
    assert len([piece async for piece in ollie.generate(data, by=None)]) > 2


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", r"^prompt is empty$"),
        (b"{}", r"^prompt is empty$"),
        (b"\xff", r"^prompt is not UTF-8$"),
        (b'{"prompt": 1}', r"^prompt: expected `str`, got `int`$"),
        (b'{"prompt": "x", "modle": "m"}', r"^unknown key: modle \(did you mean model\? known: prompt system "),
        (b'{"prompt": "x", "temperature": "hot"}', r"^temperature: expected `float`, got `str`$"),
        (b'{"prompt": "x", "backend": "nope"}', r"^unknown backend: nope "),
        (b'{"prompt": " "}', r"^prompt is empty$"),
        (b'{"prompt": "x",}', r"^request is not valid JSON: "),
    ],
)
async def test_a_request_that_cannot_be_says_why(ollie: Ollie, data: bytes, error: str) -> None:
    """Before anything is asked."""
    with pytest.raises(NinepError, match=error):
        await ask(ollie, data)


def test_a_text_that_only_begins_like_json_is_a_prompt() -> None:
    """As code often does."""
    assert parse(b"{x} is what?\n", 100) == {"prompt": "{x} is what?"}


async def test_a_failing_model_gives_its_reason(serve: Callable[..., Any]) -> None:
    """Behind whatever it had said."""
    ollie = await serve("turns: [{replies: [{text: half, error: {kind: auth, message: no key, after: 1}}]}]")
    pieces = ollie.generate(b"x", by=None)
    assert await anext(pieces) == b"half"
    with pytest.raises(NinepError, match=r"^no key$"):
        await anext(pieces)


async def test_a_request_that_fails_before_it_speaks_is_repeated(serve: Callable[..., Any]) -> None:
    """By the engine's rule."""
    error = "{kind: unavailable, message: gone, times: 1, retry_after_s: 0}"
    ollie = await serve(f"turns: [{{replies: [{{text: hi, error: {error}}}]}}]")
    assert await ask(ollie, b"x") == b"hi\n"


async def test_an_agent_with_a_budget_may_not_spend_beside_it(ollie: Ollie, place: Path) -> None:
    """What it asked here would not count."""
    session = await ollie.sessions.create(name="s", cwd=str(place / "project"), by=None)
    agent = await subagents.start(session, {}, by=None)
    assert [piece async for piece in ollie.generate(b"x", by=agent)]
    await write(agent, "cfg", "max_cost_usd=1")
    with pytest.raises(NinepError, match=r"^permission denied$"):
        ollie.generate(b"x", by=agent)
