"""How fast what is answered is on the disk, and what it costs to have a lot of it: python bench/store.py [--quick].

Each figure is a ratio of two times that are measured in the same run, one in turn with the other, so that it says
something on any machine. The server runs in a PID namespace of its own. `--quick` takes a conversation of 64 MB in
place of 1 GB. Needs room for it in the temporary directory.
"""

import argparse
import asyncio
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parent.parent / "tests/ollie"))

from house import House

from ninep import _wire
from ninep.client import Client
from ollie.store.rows import AgentRow, LogName, SessionRow
from ollie.store.sqlite import Store

SCRIPT = "turns: [{replies: [{text: ok}]}]\n"
SESSIONS = 10_000
WRITERS = 1000
RSS_LIMIT_MB = 100
PAGE_BYTES = 4096
READ_BYTES = 64 * 1024


class Figure(NamedTuple):
    """What was measured, and what it may be at most."""

    name: str
    value: float
    limit: float
    unit: str = "times"
    note: str = ""

    def line(self) -> str:
        """As a row of a table in Markdown."""
        return f"| {self.name} | {self.value:.2f} {self.unit} | {self.limit:g} | {self.note} |"


async def timed(what: Callable[[], Awaitable[object]]) -> float:
    """How long it takes, in seconds."""
    began = time.perf_counter()
    await what()
    return time.perf_counter() - began


def row(number: int, session: str) -> AgentRow:
    """An agent of a session."""
    return AgentRow(
        id=f"agent-{number}",
        number=number,
        session=session,
        name=f"a{number}",
        cwd="/",
        profile="default",
        settings={"max_steps": 10},
        ceiling=b'{"directory":"/"}',
    )


class Disk:
    """The disk below a directory: how long it takes to make a page durable that is added to a file."""

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory / "pages", os.O_CREAT | os.O_RDWR)
        self._pages = 0

    async def sync(self) -> None:
        """Add a page."""
        os.pwrite(self._fd, os.urandom(PAGE_BYTES), self._pages * PAGE_BYTES)
        self._pages += 1
        os.fsync(self._fd)


async def acknowledged(address: str, directory: Path) -> Figure:
    """A prompt over 9P: from the commit to its answer, to an agent of a paused session."""
    client = await Client.connect(address)
    await client.write("session/new", b"name=one")
    await client.write("session/one/agent/new", f"name=a cwd={directory}".encode())
    await client.write("session/one/ctl", b"pause")
    disk = Disk(directory)
    syncs, prompts = [], []
    for _ in range(20):
        syncs += [await timed(disk.sync) for _ in range(15)]
        for _ in range(15):
            async with await client.open("session/one/agent/a/prompt", _wire.OWRITE) as file:
                await file.write(b"what is in this directory, and how large is it?")
                prompts.append(await timed(file.commit))
    await client.close()
    sync_s, prompt_s = statistics.median(syncs), statistics.median(prompts)
    note = f"{prompt_s * 1e6:.0f} µs; one fsync {sync_s * 1e6:.0f} µs"
    return Figure("a prompt is acknowledged, in fsyncs of this disk", prompt_s / sync_s, 3, note=note)


async def at_once(directory: Path) -> Figure:
    """Agents that append to their chats and wait until it is stored, all at the same time, against one that does."""
    store = await Store.open(str(directory / "at-once.db"))
    store.put_session(SessionRow(id="s", number=store.next_number(), name="s"))
    for number in range(2, WRITERS + 2):
        store.put_agent(row(number, "s"))

    async def append(number: int) -> None:
        await store.stored(store.append_log(f"agent-{number}", LogName.CHAT, b"a few words of the model\n" * 4))

    async def all_of_them() -> None:
        await asyncio.gather(*(append(number) for number in range(2, WRITERS + 2)))

    alone, together = [], []
    for _ in range(10):
        alone += [await timed(lambda: append(2)) for _ in range(10)]
        together.append(await timed(all_of_them))
    await store.close()
    alone_s, together_s = statistics.median(alone), statistics.median(together)
    note = f"{together_s * 1e3:.0f} ms, one alone {alone_s * 1e3:.2f} ms"
    return Figure(
        f"{WRITERS} agents append at once, in times of one of them each", together_s / alone_s / WRITERS, 1, note=note
    )


async def fill(path: Path, sessions: int) -> None:
    """A store with so many sessions, an agent each that has said something."""
    store = await Store.open(str(path))
    for number in range(sessions):
        session = f"01a2-{number:012d}"
        store.put_session(SessionRow(id=session, number=store.next_number(), name=f"s{number}", cwd="/tmp"))
        agent = row(store.next_number(), session)
        store.put_agent(agent)
        store.append_log(agent.id, LogName.CHAT, b"> hello\n\nhello to you\n")
        store.append_records(agent.id, [b"{}"] * 10)
        store.release_session(session)
    await store.close()


def start_s(house: House, data: Path) -> tuple[float, float]:
    """How long a server takes until it answers, and what it holds in memory then, in MB."""
    began = time.perf_counter()
    line = house.ok("olliesrv", "start", OLLIE_DATA_PATH=str(data))
    taken_s = time.perf_counter() - began
    pid = re.search(r"pid (\d+)", line)
    assert pid
    status = house.ok("cat", f"/proc/{pid[1]}/status")
    rss = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert rss
    house.ok("olliesrv", "stop")
    return taken_s, int(rss[1]) / 1000


async def starts(house: House) -> list[Figure]:
    """A start with many stored sessions against one with none."""
    none, many = house.path / "none", house.path / "many"
    for data, sessions in ((none, 0), (many, SESSIONS)):
        data.mkdir(mode=0o700)
        await fill(data / "ollie.db", sessions)
    times: dict[Path, list[float]] = {none: [], many: []}
    sizes: dict[Path, float] = {}
    start_s(house, none)  # everything that is imported is in the page cache
    for _ in range(7):
        for data, taken in times.items():
            taken_s, sizes[data] = start_s(house, data)
            taken.append(taken_s)
    none_s, many_s = (statistics.median(times[data]) for data in (none, many))
    return [
        Figure(
            f"a start with {SESSIONS} sessions, in starts with none",
            many_s / none_s,
            1.5,
            note=f"{none_s:.2f} s with none",
        ),
        Figure(f"memory with {SESSIONS} sessions", sizes[many], RSS_LIMIT_MB, "MB", f"{sizes[none]:.0f} MB with none"),
    ]


async def ends(directory: Path, long_bytes: int) -> list[Figure]:
    """Reading the end of a long conversation against that of a short one, when nothing of either is in memory."""
    store = await Store.open(str(directory / "ends.db"))
    lengths = {"short": 1 << 20, "long": long_bytes}
    for number, (session, length) in enumerate(lengths.items(), 2):
        store.put_session(SessionRow(id=session, number=store.next_number(), name=session))
        store.put_agent(row(number, session))
        piece = os.urandom(1 << 19)
        for _ in range(length // len(piece)):
            await store.stored(store.append_log(f"agent-{number}", LogName.CHAT, piece))
        store.release_session(session)
    reads: dict[str, list[float]] = {session: [] for session in lengths}
    opens: dict[str, list[float]] = {session: [] for session in lengths}
    for _ in range(30):
        for number, (session, length) in enumerate(lengths.items(), 2):

            async def opened(session: str = session) -> None:
                await store.open_session(session)

            async def read(agent: str = f"agent-{number}", offset: int = length - READ_BYTES) -> None:
                assert len(await store.read_log(agent, LogName.CHAT, offset, READ_BYTES)) == READ_BYTES

            opens[session].append(await timed(opened))
            reads[session].append(await timed(read))
            store.release_session(session)
    await store.close()
    figures = []
    for name, times in (("reading the end", reads), ("opening the session", opens)):
        short_s, long_s = (statistics.median(times[session]) for session in ("short", "long"))
        title = f"{name} of a conversation of {long_bytes / 1e6:.0f} MB, in those of 1 MB"
        figures.append(Figure(title, long_s / short_s, 1.2, note=f"{long_s * 1e6:.0f} µs"))
    return figures


async def measured(house: House, address: str, long_bytes: int) -> list[Figure]:
    """All figures."""
    directory = Path(tempfile.mkdtemp(prefix="ollie-bench-"))
    try:
        prompt = await acknowledged_inside(house, address)
        return [prompt, await at_once(directory), *await starts(house), *await ends(directory, long_bytes)]
    finally:
        shutil.rmtree(directory)


async def acknowledged_inside(house: House, address: str) -> Figure:
    """The server knows its clients by their processes, so this one runs where it does."""
    house.ok("olliesrv", "start")
    said = house.ok(sys.executable, __file__, "--inside", address)
    house.ok("olliesrv", "stop")
    value, _, note = said.rstrip("\n").partition(" ")
    return Figure("a prompt is acknowledged, in fsyncs of this disk", float(value), 3, note=note)


def main() -> None:
    """Print a table; fail when a figure is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--inside", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        figure = asyncio.run(acknowledged(options.inside, Path.cwd()))
        print(figure.value, figure.note)
        return
    house = House()
    script = house.path / "script.yaml"
    script.write_text(SCRIPT)
    house.environ |= {"OLLIE_BACKEND": "replay", "OLLIE_REPLAY": str(script)}
    try:
        figures = asyncio.run(measured(house, f"unix!{house.socket}", (1 << 26) if options.quick else 1 << 30))
    finally:
        house.close()
    print("| | measured | at most | |\n|---|---|---|---|")
    for figure in figures:
        print(figure.line())
    sys.exit(any(figure.value > figure.limit for figure in figures))


if __name__ == "__main__":
    main()
