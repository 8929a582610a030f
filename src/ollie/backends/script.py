"""Scripts of turns: what the replay backend says, and what recording writes.

    turns:
      - prompt: list the files            # the user's words; or `match:` a regular expression; or neither: any words
        replies:                          # one for each request of the turn
          - text: I look.
            calls:
              - {name: shell, arguments: {cmd: ls}}
          - text: "There is this: {result}"
      - match: ^say
        replies:
          - {text: "you said {prompt}", pace_s: 0.05}
          - {error: {kind: overloaded, message: busy, times: 2}, text: then it went}

`{prompt}` stands for the user's words and `{result}` for the text of the newest tool result. Where several turns fit
the same words, the first is for the first time that they are said in a conversation, and so on; the last one stays.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from ollie.engine.messages import ErrorKind, StopReason
from ollie.protocol import yaml_text


class ScriptError(ValueError):
    """A script cannot be used; its text says what is wrong, and where."""


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool call; `arguments` are a mapping, or the text that the model wrote. Without an id one is made."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""


class ScriptedError(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a reply fails.

    Args:
        kind: the kind of failure.
        message: for people.
        retry_after_s: the wait that is asked for.
        times: how often it fails before it succeeds, counted over all conversations; 0: it always fails.
        after: pieces of reasoning and text that come before it.
    """

    kind: ErrorKind
    message: str = "the script says so"
    retry_after_s: float | None = None
    times: int = 0
    after: int = 0


class ScriptedUsage(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a reply used."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None


class Reply(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One reply of the model.

    Args:
        text: streamed word by word; a list is streamed piece by piece.
        reasoning: streamed before it.
        calls: behind it.
        activity: said first of all.
        pace_s: seconds before each piece.
        stop: why it ends; by itself `tool_calls` with calls and else `stop`.
        usage: what it used; the engine estimates it when it is missing.
        error: how it fails.
        cut: the stream ends without a stop reason.
    """

    text: str | list[str] = ""
    reasoning: str = ""
    calls: list[ScriptedCall] = []
    activity: str = ""
    pace_s: float = 0.0
    stop: StopReason | None = None
    usage: ScriptedUsage | None = None
    error: ScriptedError | None = None
    cut: bool = False

    @property
    def pieces(self) -> list[str]:
        """Its text as it is streamed."""
        return re.findall(r"\s*\S+\s*$|\s*\S+|\s+", self.text) if isinstance(self.text, str) else self.text


class Turn(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The replies to some words of the user."""

    replies: list[Reply]
    prompt: str | None = None
    match: str | None = None

    def fits(self, text: str) -> bool:
        """Whether this turn is for these words of the user."""
        if self.prompt is not None:
            return self.prompt.strip() == text.strip()
        return self.match is None or re.search(self.match, text) is not None


class Script(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A script; `model` is the name of the model that it plays."""

    turns: list[Turn]
    model: str = "replay"


def parse(text: str) -> Script:
    """The script in a YAML text.

    Raises:
        ScriptError: it is not YAML, or has what no script has.
    """
    try:
        script = msgspec.convert(yaml_text.load(text), Script)
        for turn in script.turns:
            re.compile(turn.match or "")
    except yaml_text.YamlError as error:
        raise ScriptError(f"the script is not YAML: {error}") from None
    except msgspec.ValidationError as error:
        raise ScriptError(f"the script is wrong: {error}") from None
    except re.error as error:
        raise ScriptError(f"the script has a bad regular expression: {error}: {error.pattern!r}") from None
    return script


def dump(script: Script) -> str:
    """The script as YAML; `parse` gives it back."""
    return yaml.safe_dump(msgspec.to_builtins(script), sort_keys=False, allow_unicode=True, width=100)


def filled(value: Any, words: Mapping[str, str]) -> Any:
    """A text of the script, or a structure of them, with each `{name}` of `words` replaced."""
    match value:
        case str():
            return re.sub(r"\{(\w+)\}", lambda found: words.get(found[1], found[0]), value)
        case dict():
            return {key: filled(item, words) for key, item in value.items()}
        case list():
            return [filled(item, words) for item in value]
        case _:
            return value
