"""Servers that are killed at any moment, and what must be there then: python tests/ollie/crash.py [ROUNDS [SEED]].

In each round clients work on a server with real tools, and note what was answered, until olliesrv, its tool servers or
both get SIGKILL. Then the store is read, a server is started again, and everything that was answered must be there. The
clients go on where they were. Runs in a PID namespace of its own, which `house.py` makes.
"""

import asyncio
import collections
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ninep.client import Client
from ninep.errors import ConnectionLostError
from ollie.engine import blocks, cut
from ollie.engine.history import problem
from ollie.engine.messages import Message, ToolResult, User
from ollie.engine.system import is_reminder

SCRIPT = """
turns:
  - match: "^mark "
    replies:
      - {text: I mark it., calls: [{name: shell, arguments: {cmd: "echo '{prompt}' >>marks; sleep 0.02"}}]}
      - {text: "so it is: {result}", usage: {input_tokens: 10, output_tokens: 5, cost_usd: 0.01}}
  - match: "^look "
    replies:
      - calls: [{name: file_read, arguments: {path: marks}}, {name: file_read, arguments: {path: none}}]
      - {text: "I have looked."}
  - match: "^talk "
    replies: [{reasoning: let me see, text: "I say\\n[[[this]]] and that\\nand {prompt}, all of it", pace_s: 0.004}]
"""
KINDS = ("mark", "look", "talk", "talk")
SESSIONS = ("one", "two")
AGENTS = 2  # of each session
LONGEST_S = 1.0  # of a round's work
START_S = 60


@dataclass
class Value:
    """Something that is replaced as a whole: what was answered last, and what may have come after it."""

    known: str
    maybe: list[str] = field(default_factory=list)

    async def put(self, value: str, writing: Awaitable[object]) -> None:
        """Replace it; unless the answer comes, nobody knows."""
        self.maybe.append(value)
        await writing
        self.known, self.maybe = value, []

    def settle(self, found: str, what: str) -> None:
        """Hold it against what is there after a restart."""
        assert found in {self.known, *self.maybe}, f"{what}: {found!r} is neither {self.known!r} nor of {self.maybe}"
        self.known, self.maybe = found, []


@dataclass
class Agent:
    """An agent as its clients know it."""

    session: str
    id: str
    name: Value
    plan: Value = field(default_factory=lambda: Value(""))
    steps: Value = field(default_factory=lambda: Value("100"))
    asked: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    settled: bytes = b""  # of its chat, when it had ended its turns
    read: int = 0  # so much of its chat was seen at any time

    @property
    def path(self) -> str:
        """Its directory, by ids."""
        return f"session/{self.session}/agent/{self.id}"


@dataclass
class Ledger:
    """What was asked of the server, and what it answered."""

    agents: list[Agent] = field(default_factory=list)
    sessions: dict[str, Value] = field(default_factory=dict)
    writes: int = 0


class Server:
    """An olliesrv that is started again and again on the same data."""

    def __init__(self, place: Path) -> None:
        self.address = f"unix!{place}/ns/ollie"
        self.data = place / "data"
        self._place = place
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> bool:
        """Start it; False when it was killed before it was ready."""
        command = [sys.executable, "-P", "-m", "ollie.cli.olliesrv", "serve"]
        with (self._place / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        assert self.process.stdout is not None
        async with asyncio.timeout(START_S):
            ready = await self.process.stdout.readline()
        return ready.startswith(b"olliesrv is running")

    async def client(self) -> Client:
        """One more connection to it."""
        return await Client.connect(self.address)

    async def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal, and return when it has ended."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        await self.process.wait()

    def tool_servers(self) -> list[int]:
        """The processes of its tool servers; there are no others in this namespace."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if b"ollie.cli.toolsrv" in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found


class Stored:
    """The store as it was left on the disk, read from a copy."""

    def __init__(self, data: Path) -> None:
        copy = data.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for path in data.glob("ollie.db*"):
            shutil.copy(path, copy)
        self._database = sqlite3.connect(copy / "ollie.db")

    def _rows(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        return self._database.execute(statement, values).fetchall()

    def history(self, agent: str) -> list[Message]:
        """The history of an agent."""
        rows = self._rows(
            "SELECT data FROM record JOIN agent ON agent.number = record.agent WHERE id = ? ORDER BY position", agent
        )
        return [msgspec.json.decode(data, type=Message) for (data,) in rows]  # type: ignore[arg-type]  # bytes

    def queue(self, agent: str) -> list[object]:
        """The prompts that wait."""
        rows = self._rows(
            "SELECT text FROM prompt JOIN agent ON agent.number = prompt.agent WHERE id = ? ORDER BY entry", agent
        )
        return [text for (text,) in rows]

    def busy(self) -> int:
        """How many agents are in the middle of a turn."""
        return len(self._rows("SELECT id FROM agent WHERE busy"))

    def close(self) -> None:
        """Let go of the copy."""
        self._database.close()


# What clients do, each until the server is gone.


async def prompting(client: Client, agent: Agent, ledger: Ledger, rng: random.Random) -> None:
    """Prompts one after the other, or several at once; sometimes waits for the end of all turns."""
    while True:
        for _ in range(rng.choice((1, 1, 1, 3))):
            prompt = f"{rng.choice(KINDS)} {agent.id} {len(agent.asked)}"
            agent.asked.append(prompt)
            await client.write(f"{agent.path}/prompt", prompt.encode())
            agent.answered.append(prompt)
            ledger.writes += 1
        if rng.random() < 0.7:
            assert await client.read(f"{agent.path}/wait") == b"idle\n"
            agent.settled = await client.read(f"{agent.path}/chat")


async def following(client: Client, agent: Agent) -> None:
    """Reads the chat as it comes."""
    while True:
        async for piece in client.stream(f"{agent.path}/chat"):
            agent.read += len(piece)
        await client.read(f"{agent.path}/statewait")


async def changing(client: Client, agent: Agent, ledger: Ledger, rng: random.Random) -> None:
    """Writes the plan, settings and the name."""
    while True:
        number = str(rng.randrange(50, 10**6))
        match rng.randrange(3):
            case 0:
                plan = number * rng.choice((1, 50, 5000))
                await agent.plan.put(plan, rewrite(client, f"{agent.path}/plan", plan.encode()))
            case 1:
                await agent.steps.put(number, client.write(f"{agent.path}/cfg", f"max_steps={number}".encode()))
            case 2:
                await agent.name.put(f"n{number}", client.write(f"{agent.path}/name", f"n{number}".encode()))
        ledger.writes += 1


async def rewrite(client: Client, path: str, data: bytes) -> None:
    """Replace a stored text in one write, so that there is no state between the old and the new."""
    async with await client.open(path, 1) as file:
        old = len(await client.read(path))
        await file.write(data.ljust(old))


async def making(client: Client, ledger: Ledger, rng: random.Random) -> None:
    """Makes sessions, and kills some."""
    while True:
        living = [name for name, value in ledger.sessions.items() if value.known == "made" and not value.maybe]
        if living and rng.random() < 0.5:
            name = rng.choice(living)
            await ledger.sessions[name].put("killed", client.write(f"session/{name}/ctl", b"kill"))
        else:
            name = f"s{len(ledger.sessions)}"
            ledger.sessions[name] = Value("killed")
            await ledger.sessions[name].put("made", client.write("session/new", f"name={name}".encode()))
        ledger.writes += 1


async def populate(client: Client, work: Path) -> Ledger:
    ledger = Ledger()
    for name in SESSIONS:
        await client.write("session/new", f"name={name}".encode())
        session = (await client.read(f"session/{name}/id")).decode().strip()
        for number in range(AGENTS):
            made = await client.rdwr(f"session/{name}/agent/new", f"name=a{number} cwd={work}".encode())
            ledger.agents.append(Agent(session, made.decode().strip(), Value(f"a{number}")))
    return ledger


# What must hold.


def check_disk(stored: Stored, ledger: Ledger) -> None:
    """Each prompt that was answered is on the disk once, in order, and none is there twice."""
    for agent in ledger.agents:
        said = [message.text for message in stored.history(agent.id) if isinstance(message, User)]
        kept = [*(text for text in said if not is_reminder(text)), *map(str, stored.queue(agent.id))]
        twice = [prompt for prompt, count in collections.Counter(kept).items() if count > 1]
        assert not twice, f"twice: {twice}"
        answered = set(agent.answered)
        assert [prompt for prompt in kept if prompt in answered] == agent.answered, f"lost: {answered - set(kept)}"
        assert set(kept) <= set(agent.asked), f"nobody asked: {set(kept) - set(agent.asked)}"


async def check_server(client: Client, ledger: Ledger) -> None:
    """What was answered is shown as it was answered."""
    rows = [line.split("\t") for line in (await client.read("session/idx")).decode().splitlines()]
    names = {row[1] for row in rows}
    for name, value in ledger.sessions.items():
        value.settle("made" if name in names else "killed", f"session {name}")
    assert set(SESSIONS) <= names <= {*SESSIONS, *ledger.sessions}
    for agent in ledger.agents:
        agent.name.settle((await client.read(f"{agent.path}/name")).decode().strip(), "name")
        agent.plan.settle((await client.read(f"{agent.path}/plan")).decode().rstrip(" "), "plan")
        settings = dict(line.split("=", 1) for line in (await client.read(f"{agent.path}/cfg")).decode().splitlines())
        agent.steps.settle(settings["max_steps"], "max_steps")
        chat = await client.read(f"{agent.path}/log")
        assert chat == b"" or blocks.parse(chat)
        async with await client.open(f"{agent.path}/chat") as file:
            start = await file.read(len(agent.settled)) if agent.settled else b""
        assert start == agent.settled[: len(start)], "the chat has changed"


def check_end(stored: Stored, ledger: Ledger, marks: list[str]) -> int:
    """Histories are valid, nothing is left to do, and no tool ran twice; how many turns were cut."""
    assert stored.busy() == 0
    cuts = 0
    for agent in ledger.agents:
        history = stored.history(agent.id)
        assert problem(history) == "", problem(history)
        assert stored.queue(agent.id) == []
        cuts += sum(isinstance(one, ToolResult) and one.content[0].text == cut.RESULT for one in history)  # type: ignore[union-attr]  # texts
    twice = [mark for mark, count in collections.Counter(marks).items() if count > 1]
    assert not twice, f"ran twice: {twice}"
    return cuts


# A round.


@contextlib.asynccontextmanager
async def clients(server: Server, ledger: Ledger, rng: random.Random) -> AsyncIterator[None]:
    """Work that goes on until the server is gone."""
    connections = [await server.client() for _ in range(3)]
    one, two, three = connections
    work = [making(three, ledger, rng)]
    for agent in ledger.agents:
        work += [prompting(one, agent, ledger, rng), changing(two, agent, ledger, rng), following(three, agent)]
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            if server.process is not None and server.process.returncode is None:
                task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        faults = [end for end in ends if not isinstance(end, ConnectionLostError | OSError | asyncio.CancelledError)]
        assert not faults, faults
        for client in connections:
            await client.close()


def victims(rng: random.Random) -> Iterator[str]:
    """What is killed in one round; the last one is the server."""
    yield from rng.choices((("server",), ("tools", "server"), ("both",)), (4, 1, 1))[0]


async def crash(server: Server, ledger: Ledger, rng: random.Random) -> None:
    """Work for a while, and kill."""
    for victim in victims(rng):
        async with clients(server, ledger, rng):
            await asyncio.sleep(rng.uniform(0, LONGEST_S))
            tools = server.tool_servers() if victim != "server" else []
            order = [*tools, 0] if rng.random() < 0.5 else [0, *tools]
            for pid in order:
                if pid:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                elif victim != "tools":
                    await server.kill()


async def restart(server: Server, rng: random.Random) -> None:
    """Start the server again; now and then it is killed while it starts."""
    while rng.random() < 0.1:
        starting = asyncio.ensure_future(server.start())
        await asyncio.sleep(rng.uniform(0.1, 0.8))
        await server.kill()
        await starting
    assert await server.start(), (server.data.parent / "log").read_text()


async def run(place: Path, rounds: int, seed: int) -> None:
    """So many rounds."""
    rng = random.Random(seed)
    work = place / "project"
    server = Server(place)
    began = time.monotonic()
    assert await server.start()
    client = await server.client()
    ledger = await populate(client, work)
    await client.close()
    for number in range(rounds):
        try:
            await crash(server, ledger, rng)
            stored = Stored(server.data)
            check_disk(stored, ledger)
            stored.close()
            await restart(server, rng)
            client = await server.client()
            await check_server(client, ledger)
            await client.close()
        except AssertionError:
            say(f"round {number} of seed {seed}")
            raise
    client = await server.client()
    for agent in ledger.agents:
        assert await client.read(f"{agent.path}/wait") == b"idle\n"
        assert (await client.read(f"{agent.path}/chat")).startswith(agent.settled)
        blocks.parse(await client.read(f"{agent.path}/chat.raw"))
    await client.close()
    await server.kill(signal.SIGTERM)
    stored = Stored(server.data)
    check_disk(stored, ledger)
    marks = (work / "marks").read_text().splitlines()
    cuts = check_end(stored, ledger, marks)
    say(
        f"{rounds} rounds in {time.monotonic() - began:.0f} s: {ledger.writes} answered writes, "
        f"{sum(len(agent.answered) for agent in ledger.agents)} of them prompts; {len(marks)} tools ran, "
        f"{cuts} were cut; {len(ledger.sessions)} sessions made"
    )


def say(text: str) -> None:
    """For whoever runs it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Run inside of a house, or make one and run there."""
    if "CRASH_PLACE" in os.environ:
        rounds, seed = map(int, sys.argv[1:3])
        asyncio.run(run(Path(os.environ["CRASH_PLACE"]), rounds, seed))
        return
    from house import House

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    say(f"seed {seed}")
    house = House()
    script = house.path / "script.yaml"
    script.write_text(SCRIPT)
    environ = {
        "CRASH_PLACE": str(house.path),
        "OLLIE_DATA_PATH": str(house.path / "data"),
        "OLLIE_BACKEND": "replay",
        "OLLIE_REPLAY": str(script),
    }
    done = house.run(sys.executable, __file__, str(rounds), str(seed), **environ)
    say((done.stdout + done.stderr).rstrip())
    if done.returncode:
        kept = Path(f"{house.path}.kept")
        shutil.copytree(house.path, kept, ignore=shutil.ignore_patterns("ns"))
        say(f"seed {seed} fails; kept: {kept}")
    house.close()
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
