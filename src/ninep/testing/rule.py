"""What the rules of the conformance suite are made of."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ninep.errors import ProtocolError
from ninep.messages import Message, Rerror
from ninep.testing.line import Line

_TIME_S = 10


@dataclass(frozen=True, slots=True)
class Check:
    """One rule.

    Args:
        name: what has to hold.
        failure: what came instead; None when it holds.
    """

    name: str
    failure: str | None


class Tested:
    """How the rules reach the server: fresh connections for each.

    Args:
        connect: makes one.
        uname, aname: for the attach.
    """

    def __init__(self, connect: Callable[[], Awaitable[Line]], uname: str, aname: str) -> None:
        self._connect = connect
        self._lines: list[Line] = []
        self.uname = uname
        self.aname = aname

    async def connect(self) -> Line:
        """Nothing was said yet."""
        line = await self._connect()
        self._lines.append(line)
        return line

    async def close(self) -> None:
        """End them all."""
        while self._lines:
            await self._lines.pop().close()

    async def begin(self, msize: int = 8192) -> Line:
        """With fid 0 at the root."""
        line = await self.connect()
        await line.begin(msize=msize, uname=self.uname, aname=self.aname)
        return line


Rule = Callable[[Tested], Awaitable[None]]


async def run_rule(name: str, rule: Rule, server: Tested) -> Check:
    """Whether it holds; a server that says nothing has a while."""
    try:
        async with asyncio.timeout(_TIME_S):
            await rule(server)
    except TimeoutError:
        return Check(name, f"nothing came within {_TIME_S} s")
    except (AssertionError, EOFError, ProtocolError) as error:
        return Check(name, str(error) or "it does not hold")
    finally:
        await server.close()
    return Check(name, None)


def same(reply: Message, expected: Message) -> None:
    """Nothing else came."""
    assert reply == expected, f"{reply} instead of {expected}"


def refused(reply: Message) -> None:
    """Whatever the words."""
    assert isinstance(reply, Rerror), f"{reply} instead of Rerror"
