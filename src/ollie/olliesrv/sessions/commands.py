"""Control files: a command is a word and perhaps an argument, and a table says what it does."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from ollie.olliesrv.errors import RefusedError, unknown

if TYPE_CHECKING:
    from ollie.olliesrv.sessions.agent import Agent

_T = TypeVar("_T")


@dataclass(frozen=True)
class Command(Generic[_T]):
    """A command.

    Args:
        name: its word.
        argument: its argument as shown to people, `[name]` when it may be left out; empty when it takes none.
        about: what it does, a phrase.
        run: does it, given the object, the argument and who asks; returns its response, without a newline.
    """

    name: str
    argument: str
    about: str
    run: "Callable[[_T, str, Agent | None], Awaitable[str]]"


async def dispatch(table: Sequence[Command[_T]], obj: _T, text: str, by: "Agent | None") -> str:
    """Carry out one command; its response, which ends in a newline unless it is empty.

    Raises:
        RefusedError: there is no such command, or it takes no argument; or what the command itself refuses.
    """
    word, _, argument = text.strip().partition(" ")
    argument = argument.strip()
    command = next((command for command in table if command.name == word), None)
    if command is None:
        raise unknown("command", word, [command.name for command in table])
    if argument and not command.argument:
        raise RefusedError(f"{word} takes no argument: {argument[:80]}")
    response = await command.run(obj, argument, by)
    return response and response.removesuffix("\n") + "\n"


def listing(table: "Sequence[Command[_T]]") -> str:
    """A line for each command: its name and argument, and what it does."""
    width = max(len(f"{command.name} {command.argument}") for command in table)
    return "".join(f"{f'{command.name} {command.argument}':<{width}}  {command.about}\n" for command in table)
