"""A file that takes commands."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ninep import errors
from ninep._session import OpenFile
from ninep.errors import NinepError
from ninep.files.inbox import MESSAGE_LIMIT_BYTES
from ninep.files.text import Render, rendered
from ninep.tree import Entry, Place

T = TypeVar("T")

_QUOTED = 80  # characters of an argument


@dataclass(frozen=True, slots=True, eq=False)
class Command(Generic[T]):
    """A command of a table.

    Args:
        word: what is written, `kill`; of two words where several belong together, `proc kill`.
        argument: as shown to people. `[name]` may be left out and is the rest of the line; `TEXT…` is that, too, and
            needed; `AGENT TOOL` are as many words as it has, which are needed; empty takes none.
        about: what it does, a phrase.
        run: `(obj, peer, argument)`: do it and give the response, to which a newline is added where it has none; at
            once, or when what it gives has been awaited.
    """

    word: str
    argument: str
    about: str
    run: Callable[[T, Any, str], str | Awaitable[str]]

    @property
    def usage(self) -> str:
        """What is written, as shown to people: `proc kill PID`."""
        return f"{self.word} {self.argument}".rstrip()


@dataclass(frozen=True, slots=True, eq=False)
class Control(Entry[T]):
    """Each Twrite is one command, and its error is the reply to that write.

    Offsets of writes mean nothing. A write that fills the iounit goes on in the next one. The first read after a write
    gives that command's response, wherever its offset; before any command there is the file's own text.

    What may be written is a table of commands, which is the file's own text, too, and the answer to `help`; or
    whatever `command` takes. One of the two is given.

    Args:
        name: as served.
        mode: permission bits.
        about: one sentence.
        command: `(obj, peer, text)`: run it and give the response, as it is to be read; at once, or when what it gives
            has been awaited. `text` is without its last newline. Commands of one fid run one after another.
        text: `(obj, peer)`: what is read before any command; without it the list of `commands`.
        commands: the table.
    """

    kind = "control"
    name: str
    mode: int
    about: str
    command: Callable[[T, Any, str], str | Awaitable[str]] | None = None
    text: Render[T] | None = None
    commands: Sequence[Command[T]] = ()

    def __post_init__(self) -> None:
        """One of the two."""
        assert (self.command is None) is bool(self.commands), f"{self.name} takes commands of a table, or any command"

    @property
    def table(self) -> Sequence[Command[T]]:
        """Its commands, `help` included; none where `command` takes whatever is written."""
        return (*self.commands, Command("help", "", "list the commands", self._help)) if self.commands else ()

    def own_text(self, obj: T, peer: Any) -> bytes | Awaitable[bytes]:
        """What is read before any command."""
        return self._listing().encode() if self.text is None else self.text(obj, peer)

    def run(self, obj: T, peer: Any, text: str) -> str | Awaitable[str]:
        """Run one command; its response, as it is read.

        Raises:
            NinepError: `unknown command: stopp (did you mean stop? known: …)`, `stop takes no argument: now`, or what
                the command itself refuses.
        """
        if self.command is not None:
            return self.command(obj, peer, text)
        command, argument = _find(self.table, text)
        response = command.run(obj, peer, argument)
        return _ended(response) if isinstance(response, str) else _ended_later(response)

    def _help(self, _obj: T, _peer: Any, _argument: str) -> str:
        return self._listing()

    def _listing(self) -> str:
        width = max((len(command.usage) for command in self.table), default=0)
        return "".join(f"{command.usage:<{width}}  {command.about}\n" for command in self.table)

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile:
        """Nothing is rendered yet."""
        return ControlFile(self, place, iounit)


class ControlFile(OpenFile):
    """The command being written and the response being read."""

    __slots__ = ("_base", "_control", "_held", "_iounit", "_lock", "_place", "_response", "_turns")

    def __init__(self, control: Control[Any], place: Place, iounit: int) -> None:
        super().__init__()
        self._control = control
        self._place = place
        self._iounit = iounit
        self._held = bytearray()  # the beginning of a command whose rest comes with the next write
        self._response: bytes | None = None
        self._base: int | None = 0  # the offset at which the response begins; None: where the next read is
        self._lock = asyncio.Lock()
        self._turns = 0  # under way or waiting for theirs

    async def read(self, offset: int, count: int) -> bytes:
        """The last response, or the file's own text."""
        async with self._turn():
            await self._run_held()
            if self._response is None:
                self._response = await self._own_text()
            if self._base is None:
                self._base = offset
            elif offset < self._base:
                self._base = 0
            return self._response[offset - self._base : offset - self._base + count]

    def write(self, offset: int, data: bytes) -> int | Awaitable[int]:
        """Run the command; one that is too long is forgotten, so that no part of it is run."""
        if self._held or self._turns or not 0 < len(data) < self._iounit:
            return self._write_in_turn(data)
        response = self._response_to(data)
        if isinstance(response, str):  # this is what wakes blocked readers, most often
            self._response = response.encode()
            return len(data)
        return self._write(data, response)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        self._turns += 1  # a free lock may be somebody's who was just woken
        try:
            async with self._lock:
                yield
        finally:
            self._turns -= 1

    async def _write(self, data: bytes, response: Awaitable[str]) -> int:
        async with self._turn():
            self._response = (await response).encode()
        return len(data)

    async def _write_in_turn(self, data: bytes) -> int:
        async with self._turn():
            if len(data) == self._iounit:
                self._hold(data)
            elif self._held:
                self._hold(data)
                await self._run_held()
            elif data:
                await self._run(data)
        return len(data)

    def _hold(self, data: bytes) -> None:
        if len(self._held) + len(data) > MESSAGE_LIMIT_BYTES:
            self._forget_held()
            raise NinepError(errors.MESSAGE_TOO_LONG)
        self._place.attached.held.add(len(data))
        self._held += data

    async def commit(self) -> None:
        """Run a command that filled the iounit exactly."""
        async with self._turn():
            await self._run_held()

    def close(self, *, commit: bool) -> Awaitable[None] | None:
        """As `commit`, or forget it."""
        if commit and self._held:
            return self.commit()
        self._forget_held()
        return None

    def _forget_held(self) -> None:
        self._place.attached.held.drop(len(self._held))
        self._held = bytearray()

    async def _own_text(self) -> bytes:
        self._place.check()
        content = self._control.own_text(self._place.obj, self._place.peer)
        return content if isinstance(content, bytes) else await rendered(content, self._place)

    async def _run_held(self) -> None:
        if self._held:
            data = bytes(self._held)
            self._forget_held()
            await self._run(data)

    async def _run(self, data: bytes) -> None:
        response = self._response_to(data)
        self._response = (response if isinstance(response, str) else await response).encode()

    def _response_to(self, data: bytes) -> str | Awaitable[str]:
        place = self._place
        place.check()
        self._response, self._base = b"", None
        return self._control.run(place.scope.obj, place.attached.peer, command_text(data))


def _ended(response: str) -> str:
    return response and response.removesuffix("\n") + "\n"


async def _ended_later(response: Awaitable[str]) -> str:
    return _ended(await response)


def command_text(data: bytes) -> str:
    """The command without its last newline; NinepError when it is not UTF-8."""
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise NinepError(errors.NOT_UTF8) from None


def _find(table: Sequence[Command[T]], text: str) -> tuple[Command[T], str]:
    """The command of a table that a text begins with, of several the one of more words, and its argument."""
    found: tuple[Command[T], str] | None = None
    for command in table:
        words = command.word.split()
        written = text.split(maxsplit=len(words))
        if written[: len(words)] == words and (found is None or len(command.word) > len(found[0].word)):
            found = command, "".join(written[len(words) :]).rstrip()
    if found is None:
        first = dict.fromkeys(command.word.split()[0] for command in table)
        raise NinepError(errors.unknown("command", "".join(text.split(maxsplit=1)[:1]), first))
    command, argument = found
    if _fits(command.argument, argument):
        return command, argument
    below = [other.word.split()[-1] for other in table if other.word.startswith(f"{command.word} ")]
    if below:
        raise NinepError(errors.unknown(f"command of {command.word}", argument.split(maxsplit=1)[0], below))
    given = f": {argument[:_QUOTED]}" if argument else ""
    raise NinepError(f"{command.word} takes {command.argument or 'no argument'}{given}")


def _fits(wanted: str, argument: str) -> bool:
    """Whether an argument is what a command takes; see `Command.argument`."""
    needed = len(wanted.split())
    words = len(argument.split(maxsplit=needed))
    return wanted.startswith("[") or words == needed or (wanted.endswith("…") and words > needed)


async def done(work: Awaitable[object], response: str = "") -> str:
    """The response of a command that has none of its own, when its work is done."""
    await work
    return response
