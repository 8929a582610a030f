"""What an agent has used: tokens and money, as `stats` shows them."""

from msgspec import Struct
from msgspec.structs import replace

from ollie.engine.messages import Assistant, ImageContent, Message, Request, TextContent, Usage, User

_CHARACTERS_A_TOKEN = 4
_IMAGE_TOKENS = 1000


class Totals(Struct, frozen=True):
    """Counts over the life of an agent.

    Args:
        turns: turns begun.
        requests: requests made, repeated ones counted.
        tool_calls: calls that the model asked for.
        errors: requests that failed, repeated ones counted.
        usage: tokens of all requests.
        estimated: requests whose tokens were estimated, since the provider reported none (it was cut, say).
        cost_usd: as far as backends report it.
        context_tokens: the size of the newest request with its reply.
    """

    turns: int = 0
    requests: int = 0
    tool_calls: int = 0
    errors: int = 0
    usage: Usage = Usage()
    estimated: int = 0
    cost_usd: float = 0.0
    context_tokens: int = 0


def add(one: Usage, other: Usage) -> Usage:
    """The sum of two usages."""
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        cached_input_tokens=one.cached_input_tokens + other.cached_input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
    )


def counted(totals: Totals, usage: Usage, cost_usd: float, *, estimated: bool) -> Totals:
    """The totals after one more request."""
    return replace(
        totals,
        usage=add(totals.usage, usage),
        cost_usd=totals.cost_usd + cost_usd,
        estimated=totals.estimated + estimated,
        context_tokens=usage.input_tokens + usage.output_tokens,
    )


def estimate(request: Request, reply_characters: int) -> Usage:
    """The tokens of a request whose provider reported none, from the number of characters."""
    asked = len(request.system) + sum(_characters(message) for message in request.messages)
    return Usage(input_tokens=asked // _CHARACTERS_A_TOKEN, output_tokens=reply_characters // _CHARACTERS_A_TOKEN)


def _characters(message: Message) -> int:
    match message:
        case User(text):
            return len(text)
        case Assistant(text=text, calls=calls):
            return len(text) + sum(len(call.name) + len(call.arguments) for call in calls)
        case _:
            texts = sum(len(item.text) for item in message.content if isinstance(item, TextContent))
            images = sum(isinstance(item, ImageContent) for item in message.content)
            return texts + images * _IMAGE_TOKENS * _CHARACTERS_A_TOKEN
