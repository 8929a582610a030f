"""What the model is told besides the conversation: its system prompt, and its plan again.

The system prompt holds nothing that changes from turn to turn, so that a provider or the local model can keep what it
has computed of it. For the same reason the plan comes back as a message at the end and not as a part of it.
"""

DEFAULT = (
    "You are Ollie, an agent that works in a directory of the user's computer. "
    "Use the tools to look before you answer and to do what is asked; do not guess what a tool can tell. "
    "When you are done, say in a few plain words what you found or did."
)


def assemble(text: str, cwd: str) -> str:
    """The system prompt of an agent.

    Args:
        text: the `cfg` key `system`, the profile's, or one that begins with `DEFAULT`.
        cwd: its working directory, as its tools see it.
    """
    return f"{text.strip()}\n\nWorking directory: {cwd}"


_REMINDER = "<plan>\n"


def reminder(plan: str) -> str:
    """The message that shows the model its plan again."""
    return f"{_REMINDER}{plan.strip()}\n</plan>\nThis is your plan as it stands. Keep it up to date with the plan tool."


def is_reminder(text: str) -> bool:
    """Whether a message is a reminder and not words of the user."""
    return text.startswith(_REMINDER)
