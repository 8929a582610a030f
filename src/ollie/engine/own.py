"""Tools that the engine answers itself: they act on the conversation, not on the host."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

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


class _AskUser(Struct, forbid_unknown_fields=True):
    question: str


class _Plan(Struct, forbid_unknown_fields=True):
    text: str | None = None


SPECS: Final[dict[str, ToolSpec]] = {
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
"""What a model is told about each. They touch nothing that a barrier protects, hence `read`."""


def answer(name: str, arguments: Mapping[str, Any], plan: str) -> Answer:
    """Answer a call of the own tool `name`; `plan` is the plan as it stands."""
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
