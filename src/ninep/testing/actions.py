"""What scripts may do to the sample they talk to: `!log a one` is a line of the log of the thing `a`."""

from typing import Any

from ninep.testing.script import Action
from ninep.testing.things import Sample, Thing


def sample_actions(sample: Sample) -> dict[str, Action]:
    """The actions of a script, by name."""
    actions = _Actions(sample)
    return {name: getattr(actions, name) for name in vars(_Actions) if not name.startswith("_")}


def _is(found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{found!r} instead of {expected!r}")


class _Actions:
    """The first word that follows names the thing, mostly."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def _thing(self, name: str) -> Thing:
        if name not in self._sample.things:
            raise AssertionError(f"no thing is called {name}")
        return self._sample.things[name]

    async def thing(self, name: str) -> None:
        """A new thing."""
        self._sample.add(name)

    async def rename(self, name: str, new: str) -> None:
        """A thing gets another name."""
        await self._sample.rename(self._thing(name), new)

    async def gone(self, name: str) -> None:
        """A thing is removed."""
        await self._sample.remove(self._thing(name))

    async def change(self, name: str, *words: str) -> None:
        """A change of its watch."""
        self._thing(name).changes.add(" ".join(words).encode() + b"\n")

    async def log(self, name: str, *words: str) -> None:
        """A line of its log."""
        self._thing(name).log.append(" ".join(words).encode() + b"\n")

    async def logend(self, name: str) -> None:
        """No more of its log."""
        self._thing(name).log.end()

    async def ready(self, name: str) -> None:
        """Its level holds."""
        self._thing(name).ready.set()

    async def release(self, name: str) -> None:
        """Its answers end."""
        self._thing(name).released.set()

    async def put(self, name: str, *words: str) -> None:
        """An entry of its queue."""
        self._thing(name).queue.append(" ".join(words).encode())

    async def long(self, name: str, length: str) -> None:
        """Its note has so many bytes."""
        self._thing(name).note.data = bytearray(b"x" * int(length))

    async def took(self, name: str, *words: str) -> None:
        """All messages so far, each with its blanks removed."""
        _is([b"".join(message.split()).decode() for message in self._thing(name).messages], list(words))

    async def stopped(self, name: str, count: str) -> None:
        """So many answers were closed before their end."""
        _is(self._thing(name).closed, int(count))

    async def watchers(self, name: str, count: str) -> None:
        """So many fids watch it."""
        _is(self._thing(name).changes.watchers, int(count))

    async def errors(self, path: str, *words: str) -> None:
        """The last error that was kept."""
        await self._sample.failing.wait()
        _is(self._sample.errors[-1], ("glenda", path, " ".join(words)))

    async def attached(self, uname: str, aname: str) -> None:
        """The last attach."""
        _is(self._sample.attaches[-1:], [(uname, aname)])
