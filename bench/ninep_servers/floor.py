"""The floor: an asyncio Protocol that answers the benchmark's messages and does nothing else. python floor.py SOCKET.

It parses what it must to give the right bytes. There are no permissions, no flush, no limits, no tree, no open modes
and hardly an error: a server in Python that keeps the rules of 9P can only be slower.
"""

import asyncio
import struct
import sys

from files import BIG, K4, SMALL

HEADER = struct.Struct("<IBH")
FID = struct.Struct("<I")
READ = struct.Struct("<IQI")
WALK = struct.Struct("<IIH")
NUMBER_REPLY = struct.Struct("<IBHI")
COUNT_REPLY = struct.Struct("<IBHH")
QID = struct.Struct("<BIQ")
STAT = struct.Struct("<HHI13sIIIQ")
MSIZE = 65536

WAITING: list[tuple["Floor", int]] = []


class Node:
    """A file, its bytes in `data`, or a directory, its nodes in `names`."""

    made = 0

    def __init__(self, name: bytes, content: "bytes | dict[bytes, Node]") -> None:
        Node.made += 1
        is_dir = isinstance(content, dict)
        self.data = b"" if isinstance(content, dict) else content
        self.names = content if isinstance(content, dict) else {}
        self.qid = QID.pack(0x80 if is_dir else 0, 0, Node.made)
        self.blocks = name == b"block"
        self.wakes = name == b"poke"
        strings = b"".join(struct.pack("<H", len(text)) + text for text in (name, b"floor", b"floor", b"floor"))
        mode = 0x800001ED if is_dir else 0o644
        length = len(self.data)
        self.stat = STAT.pack(STAT.size - 2 + len(strings), 0, 0, self.qid, mode, 0, 0, length) + strings


def node(name: bytes, content: "bytes | dict[bytes, Node]") -> dict[bytes, Node]:
    """One entry of a directory."""
    return {name: Node(name, content)}


ROOT = Node(
    b"/",
    node(b"status", SMALL)
    | node(b"k4", K4)
    | node(b"big", BIG)
    | node(b"d", node(b"e", node(b"small", SMALL)))
    | node(b"block", b"")
    | node(b"poke", b""),
)


class Floor(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Nothing is open."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.rest = b""
        self.fids: dict[int, Node] = {}

    def data_received(self, data: bytes) -> None:
        """Answer every whole message, and write once."""
        if self.rest:
            data = self.rest + data
        at, size, replies = 0, len(data), []
        while size - at >= HEADER.size:
            length, kind, tag = HEADER.unpack_from(data, at)
            if length > size - at:
                break
            reply = self.answer(kind, tag, data, at + HEADER.size)
            if reply:
                replies.append(reply)
            at += length
        self.rest = data[at:]
        if replies:
            self.transport.write(b"".join(replies))

    def answer(self, kind: int, tag: int, data: bytes, at: int) -> bytes:  # noqa: C901 - in one piece it is fastest
        """The reply, nothing where it comes later."""
        fids = self.fids
        if kind == 116:
            fid, offset, count = READ.unpack_from(data, at)
            found = fids[fid]
            if found.blocks:
                WAITING.append((self, tag))
                return b""
            piece = found.data[offset : offset + min(count, MSIZE - 24)]
            return NUMBER_REPLY.pack(11 + len(piece), 117, tag, len(piece)) + piece
        if kind == 110:
            fid, newfid, count = WALK.unpack_from(data, at)
            found, qids = fids[fid], b""
            at += WALK.size
            for _ in range(count):
                end = at + 2 + data[at] + 256 * data[at + 1]
                found = found.names[data[at + 2 : end]]
                qids += found.qid
                at = end
            fids[newfid] = found
            return COUNT_REPLY.pack(9 + len(qids), 111, tag, count) + qids
        if kind == 112:
            return HEADER.pack(24, 113, tag) + fids[FID.unpack_from(data, at)[0]].qid + bytes(4)
        if kind == 120:
            del fids[FID.unpack_from(data, at)[0]]
            return HEADER.pack(7, 121, tag)
        if kind == 124:
            stat = fids[FID.unpack_from(data, at)[0]].stat
            return COUNT_REPLY.pack(9 + len(stat), 125, tag, len(stat)) + stat
        if kind == 118:
            fid, _, count = READ.unpack_from(data, at)
            if fids[fid].wakes:
                for floor, waiting in WAITING:
                    floor.transport.write(NUMBER_REPLY.pack(17, 117, waiting, 6) + b"woken\n")
                WAITING.clear()
            return NUMBER_REPLY.pack(11, 119, tag, count)
        if kind == 104:
            fids[FID.unpack_from(data, at)[0]] = ROOT
            return HEADER.pack(20, 105, tag) + ROOT.qid
        assert kind == 100, f"message of type {kind}"
        return NUMBER_REPLY.pack(19, 101, tag, MSIZE) + b"\x06\x009P2000"


async def main() -> None:
    """Serve for ever."""
    loop = asyncio.get_running_loop()
    await loop.create_unix_server(Floor, sys.argv[1], backlog=1024)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
