"""Tools that need no host: they act on the conversation and on other agents.

`plan` and `ask_user` are answered here at once. `agent_spawn` runs like a tool of the host, only that the server of
agents runs it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from ollie.engine.messages import ToolSpec

PLAN_BYTES: Final = 1024 * 1024
"""The longest plan."""


class Answer(Struct, frozen=True):
    """What a call of an own tool gave.

    Args:
        text: for the model.
        is_error: whether it is told as an error.
        plan: the plan that it wrote.
        question: what it asks the user.
    """

    text: str
    is_error: bool = False
    plan: str | None = None
    question: str = ""


class _Spawn(Struct, forbid_unknown_fields=True):
    prompt: str
    agent: str | None = None
    name: str | None = None
    cwd: str | None = None
    backend: str | None = None
    model: str | None = None


class _AskUser(Struct, forbid_unknown_fields=True):
    question: str


class _Plan(Struct, forbid_unknown_fields=True):
    text: str | None = None


AGENT_SPAWN: Final = "agent_spawn"

SPECS: Final[dict[str, ToolSpec]] = {
    AGENT_SPAWN: ToolSpec(
        name=AGENT_SPAWN,
        description="Give a task to a sub-agent, which does it by itself and gives you its reply. "
        "It knows nothing of this conversation, so its prompt must say all that it needs. "
        "Several that you spawn in one reply work side by side.",
        input_schema={
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "The whole task, and what to reply with."},
                "agent": {"type": "string", "description": "Its profile; yours if not given."},
                "name": {"type": "string", "description": "Keeps it afterwards, under this name."},
                "cwd": {"type": "string", "description": "Its working directory, yours or one below."},
                "backend": {"type": "string", "description": "Its provider of models; yours if not given."},
                "model": {"type": "string", "description": "Its model; yours if not given."},
            },
            "required": ["prompt"],
            "additionalProperties": False,
        },
        effect="read",
    ),
    "ask_user": ToolSpec(
        name="ask_user",
        description="Ask the user a question that only they can answer. "
        "It ends your turn; their next message is the answer.",
        input_schema={
            "type": "object",
            "properties": {"question": {"type": "string", "description": "The question, complete in itself."}},
            "required": ["question"],
            "additionalProperties": False,
        },
        effect="read",
    ),
    "plan": ToolSpec(
        name="plan",
        description="Write your plan for a longer task, replacing the old one, or read it by giving no text. "
        "It outlives the conversation and is shown to you again from time to time.",
        input_schema={
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The whole plan, for example a list of steps."}},
            "additionalProperties": False,
        },
        effect="read",
    ),
}
"""What a model is told about each.

They are `read`: nothing that a barrier protects is touched by them, so they run beside others. What a sub-agent writes
waits for a barrier of its own, which the call of its maker lies before.
"""

ANSWERED: Final = frozenset(SPECS) - {AGENT_SPAWN}
"""Those that `answer` answers."""


def spawn(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The arguments of `agent_spawn` as the keys of `agent/new`; a ValueError says what is wrong with them."""
    try:
        wanted = msgspec.convert(arguments, _Spawn)
    except msgspec.ValidationError as error:
        raise ValueError(f"bad arguments: {error}") from None
    fields = {key: value for key, value in structs.asdict(wanted).items() if value}
    if not wanted.prompt.strip():
        raise ValueError("the prompt is empty")
    return fields


def answer(name: str, arguments: Mapping[str, Any], plan: str) -> Answer:
    """Answer a call of one of `ANSWERED`; `plan` is the plan as it stands."""
    try:
        if name == "ask_user":
            question = msgspec.convert(arguments, _AskUser).question.strip()
            if not question:
                return Answer("the question is empty", is_error=True)
            return Answer("the user was asked; their next message is the answer", question=question)
        text = msgspec.convert(arguments, _Plan).text
    except msgspec.ValidationError as error:
        return Answer(f"bad arguments: {error}", is_error=True)
    if text is None:
        return Answer(plan or "there is no plan yet")
    if len(text.encode(errors="replace")) > PLAN_BYTES:
        return Answer(f"plan is longer than {PLAN_BYTES} bytes", is_error=True)
    return Answer("the plan is written", plan=text)
