"""A ninep server of the files that the benchmark reads: python tree.py SOCKET."""

import asyncio
import sys

from files import BIG, K4, SMALL

from ninep.bell import Bell
from ninep.files import Control, Dir, Entry, Level, Peer, Role, Text, Tree, Watch
from ninep.server import Server

BELL = Bell()


class Rings:
    """Each ring of the bell, seen by one fid from its opening on."""

    async def next(self) -> bytes:
        """Wait for it."""
        await BELL.wait()
        return b"woken\n"

    def delivered(self) -> None:
        """Nobody keeps count."""

    def close(self) -> None:
        """Nothing is held."""


async def _wait(_obj: None, _peer: Peer) -> bytes:
    await BELL.wait()
    return b"woken\n"


def _poke(_obj: None, _peer: Peer, _text: str) -> str:
    BELL.ring()
    return ""


def _text(name: str, data: bytes) -> Entry[None]:
    return Text(name, 0o444, "Fixed bytes.", render=lambda _obj, _peer: data)


ROOT: tuple[Entry[None], ...] = (
    _text("status", SMALL),
    _text("k4", K4),
    _text("big", BIG),
    Dir("d", "A directory.", (Dir("e", "Another.", (_text("small", SMALL),)),)),
    Level("block", 0o444, "Waits for a poke.", wait=_wait),
    Watch("watch", 0o444, "The next poke.", watch=lambda _obj, _peer: Rings()),
    Control("poke", 0o666, "Wakes who waits.", command=_poke),
)


async def _attach(_conn: object, uname: str, aname: str, _auth: object) -> Peer:
    return Peer(uname, aname, Role.USER)


async def main() -> None:
    """Serve for ever."""
    server = Server(Tree(ROOT, None), _attach)
    await server.listen(f"unix!{sys.argv[1]}")
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
