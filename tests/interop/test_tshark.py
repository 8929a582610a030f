"""Wireshark's dissector as the judge of our frames, client's and server's."""

import asyncio
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ninep.client import Client
from ninep.errors import NinepError
from ninep.messages import Stat
from ninep.testing import Sample, sample_server

PORT = 564
SEGMENT_BYTES = 1400
_ADDRESSES = bytes((127, 0, 0, 1)), bytes((127, 0, 0, 2))


class Tap:
    """Between a client and a server: passes everything on, and keeps it."""

    def __init__(self, path: str) -> None:
        self.passed: list[tuple[bool, bytes]] = []  # whether from the client, and the bytes
        self._path = path
        self._ended: list[asyncio.Task[None]] = []

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        from_server, to_server = await asyncio.open_unix_connection(self._path)
        await asyncio.gather(self._pass(reader, to_server, True), self._pass(from_server, writer, False))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_client: bool) -> None:
        while data := await reader.read(65536):
            self.passed.append((from_client, data))
            writer.write(data)
            await writer.drain()
        writer.close()


def capture(passed: list[tuple[bool, bytes]]) -> bytes:
    """What was passed on, as a file of captured IP packets: a TCP connection between two addresses."""
    link_type_ip = 101
    records = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type_ip)]
    sent = [1, 1]
    for from_client, data in passed:
        for at in range(0, len(data), SEGMENT_BYTES):
            piece = data[at : at + SEGMENT_BYTES]
            ports = (40000, PORT) if from_client else (PORT, 40000)
            source, target = _ADDRESSES if from_client else _ADDRESSES[::-1]
            side = int(from_client)
            tcp = struct.pack(">HHIIBBHHH", *ports, sent[side], sent[1 - side], 0x50, 0x18, 65535, 0, 0)
            ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(piece), 0, 0, 64, 6, 0) + source + target
            records += [struct.pack("<IIII", len(records), 0, 40 + len(piece), 40 + len(piece)), ip, tcp, piece]
            sent[side] += len(piece)
    return b"".join(records)


async def converse(address: str) -> None:
    """A conversation with every message that our client sends and our server answers."""
    async with await Client.connect(address, uname="glenda") as client:
        await client.ls("/")
        await client.stat("thing/a/note")
        await client.write("thing/a/note", b"text\n" * 2000)
        await client.read("thing/a/note")
        await client.rename("thing/a", "b")
        async with await client.open("thing/b/level") as level:
            blocked = asyncio.ensure_future(level.read())
            await client.rdwr("thing/b/ctl", b"echo some words")
            blocked.cancel()
            await asyncio.wait({blocked})
        with pytest.raises(NinepError):
            await client.fwstat(0, Stat(mode=0o777))
        await client.remove("thing/b")


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed: apt-get install tshark")
async def test_no_frame_is_malformed(tmp_path: Path) -> None:
    """Every message of a conversation is one to Wireshark, of the type it should be, and none is malformed."""
    sample = Sample()
    sample.add("a")
    server = sample_server(sample)
    await server.listen(f"unix!{tmp_path}/server")
    tap = Tap(f"{tmp_path}/server")
    listener = await asyncio.start_unix_server(tap.connected, f"{tmp_path}/tap")
    await converse(f"unix!{tmp_path}/tap")
    await server.until(lambda now: now.connections == 0)
    listener.close()
    await server.close()

    file = tmp_path / "capture.pcap"
    file.write_bytes(capture(tap.passed))
    command = ["tshark", "-r", str(file), "-d", f"tcp.port=={PORT},9p", "-T", "fields"]
    command += ["-e", "9p.msgtype", "-e", "_ws.malformed", "-e", "_ws.expert.message"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    seen = [line.split("\t") for line in done.stdout.splitlines()]
    assert not any(malformed for _, malformed, _ in seen), done.stdout
    types = [int(number) for numbers, _, _ in seen for number in numbers.split(",") if number]
    assert types == sent_types(tap.passed), done.stdout
    assert set(range(100, 128)) - set(types) <= {102, 103, 106, 114, 115}  # Tauth, Terror, Tcreate are not sent


def sent_types(passed: list[tuple[bool, bytes]]) -> list[int]:
    """The types of the messages, in the order in which they ended."""
    rest, types = {True: b"", False: b""}, []
    for from_client, data in passed:
        stream = rest[from_client] + data
        while len(stream) >= 7 and len(stream) >= (size := int.from_bytes(stream[:4], "little")):
            types.append(stream[4])
            stream = stream[size:]
        rest[from_client] = stream
    return types
