"""Conversations as text files.

    # a comment
    !begin                                  Tversion and Tattach as fid 0; `!begin member kernel` names uname, aname
    -> Tread tag=1 fid=1 offset=0 count=10  sent to the server
    <- Rread tag=1 data=*                   must be the next message that comes; `*` stands for anything
    => 03000000                             bytes sent as they are, in hexadecimal
    <- closed                               the server ends the connection
    !change idle                            anything else with `!` is an action: `change("idle")`; see `actions.py`
    b-> Tversion …                          a name before the arrow is another connection

A message that does not come within ten seconds, or another one that comes instead, fails the script. That nothing comes
is said by sending something else and expecting its reply next.
"""

import asyncio
import inspect
import re
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ninep import text
from ninep.errors import NinepError, ProtocolError
from ninep.messages import encode
from ninep.testing.line import Line

Action = Callable[..., Awaitable[None]]

_STEP: Final = re.compile(r"(?P<who>\w*)(?P<arrow>->|<-|=>|!)\s*(?P<rest>.*)")
_ANYTHING: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\*')
_TIME_S = 10
_BEGIN: Final = ("glenda", "")


class ScriptError(AssertionError):
    """A conversation went another way; its text has the line and what came."""


class StepError(ScriptError):
    """A line that is no step, or cannot be taken: nothing is said about the server."""


async def run_script(
    script: str, connect: Callable[[], Awaitable[Line]], actions: Mapping[str, Action] | None = None
) -> None:
    """Play a script.

    Args:
        script: the whole text.
        connect: makes each connection when its name is first used.
        actions: by name; they get the words that follow.

    Raises:
        ScriptError: something else came than what the script says.
        StepError: a line is no step, or nobody attaches.
        OSError: no connection can be made.
    """
    lines: dict[str, Line] = {}
    try:
        for number, written in enumerate(script.splitlines(), 1):
            line = written.strip()
            if line and not line.startswith("#"):
                await _step(number, line, lines, connect, actions or {})
    finally:
        for connection in lines.values():
            connection.abort()


async def _step(
    number: int,
    line: str,
    lines: dict[str, Line],
    connect: Callable[[], Awaitable[Line]],
    actions: Mapping[str, Action],
) -> None:
    match = _STEP.fullmatch(line)
    if match is None:
        raise StepError(f"line {number} is no step: {line}")
    who, arrow, rest = match["who"], match["arrow"], match["rest"]
    name, *words = rest.split() or [""]
    if arrow == "!" and name != "begin":
        await _act(number, name, words, actions)
        return
    if who not in lines:
        lines[who] = await connect()
    connection = lines[who]
    if arrow == "!":
        await _begin(number, words, connection)
    elif arrow == "<-":
        await _expect(number, rest, connection)
    else:
        try:
            await connection.send(_message(number, arrow, rest))
        except EOFError as error:
            raise ScriptError(f"line {number}: {error}") from None


async def _act(number: int, name: str, words: list[str], actions: Mapping[str, Action]) -> None:
    if name not in actions:
        raise StepError(f"line {number}: no action is called {name} (known: {' '.join(sorted(actions)) or 'none'})")
    try:
        inspect.signature(actions[name]).bind(*words)
    except TypeError as error:
        raise StepError(f"line {number}: {name}: {error}") from None
    try:
        async with asyncio.timeout(_TIME_S):
            await actions[name](*words)
    except TimeoutError:
        raise ScriptError(f"line {number}: {name}: it did not happen within {_TIME_S} s") from None
    except (AssertionError, NinepError, ValueError) as error:
        raise ScriptError(f"line {number}: {name}: {error}") from None


async def _begin(number: int, words: list[str], connection: Line) -> None:
    if len(words) > len(_BEGIN):
        raise StepError(f"line {number}: begin takes a uname and an aname: {' '.join(words)}")
    try:
        async with asyncio.timeout(_TIME_S):
            uname, aname = (*words, *_BEGIN[len(words) :])
            await connection.begin(uname=uname, aname=aname)
    except TimeoutError:
        raise StepError(f"line {number}: begin: no reply came within {_TIME_S} s") from None
    except (AssertionError, EOFError, ProtocolError) as error:
        raise StepError(f"line {number}: begin: {error}") from None


def _message(number: int, arrow: str, written: str) -> bytes:
    try:
        return bytes.fromhex(written) if arrow == "=>" else encode(text.parse_message(written))
    except struct.error:
        raise StepError(f"line {number}: a number does not fit its field: {written}") from None
    except ValueError as error:
        raise StepError(f"line {number}: {error}") from None


async def _expect(number: int, expected: str, connection: Line) -> None:
    try:
        async with asyncio.timeout(_TIME_S):
            came = text.format_message(await connection.receive())
    except EOFError:
        came = "closed"
    except (TimeoutError, ProtocolError) as error:
        raise ScriptError(f"line {number}: expected {expected}\nnothing came: {error!r}") from None
    if not pattern(expected).fullmatch(came):
        raise ScriptError(f"line {number}: expected {expected}\n{' ' * len(f'line {number}:')}     came {came}")


def pattern(expected: str) -> re.Pattern[str]:
    """What matches an expected line: `*` outside of quotes is anything."""
    parts, at = [], 0
    for match in _ANYTHING.finditer(expected):
        parts.append(re.escape(expected[at : match.start()]))
        parts.append(".*" if match[1] is None else re.escape(match[1]))
        at = match.end()
    parts.append(re.escape(expected[at:]))
    return re.compile("".join(parts), re.DOTALL)
