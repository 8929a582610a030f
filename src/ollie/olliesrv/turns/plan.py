"""An agent's plan: a text that is read and written by range, and is durable when a write is answered."""

from collections.abc import Callable

from ollie.engine.own import PLAN_BYTES
from ollie.olliesrv.errors import RefusedError
from ollie.store.rows import Seq
from ollie.store.sqlite import Store


class Plan:
    """The plan of one agent (a `TextBuffer` of ninep).

    Args:
        store: where it is kept.
        agent: the id of its agent.
        changed: told the new text, as the engine is to know it.
    """

    def __init__(self, store: Store, agent: str, changed: Callable[[str], None]) -> None:
        self._store = store
        self._agent = agent
        self._changed = changed
        self._version = 0

    @property
    def length(self) -> int:
        """Its bytes."""
        return len(self._store.plan(self._agent))

    @property
    def version(self) -> int:
        """Changes with the content."""
        return self._version

    @property
    def text(self) -> str:
        """The whole of it."""
        return self._store.plan(self._agent).decode(errors="replace")

    def read(self, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`."""
        return self._store.plan(self._agent)[offset : offset + count]

    async def write(self, offset: int, data: bytes) -> None:
        """Write bytes at `offset`; what lies between the end and it becomes zero bytes."""
        if offset + len(data) > PLAN_BYTES:
            raise RefusedError(f"plan is longer than {PLAN_BYTES} bytes")
        old = self._store.plan(self._agent)
        await self._put(old[:offset].ljust(offset, b"\0") + data + old[offset + len(data) :])

    async def truncate(self, length: int) -> None:
        """Cut it, or extend it with zero bytes."""
        if length > PLAN_BYTES:
            raise RefusedError(f"plan is longer than {PLAN_BYTES} bytes")
        await self._put(self._store.plan(self._agent)[:length].ljust(length, b"\0"))

    def replace(self, text: str) -> Seq:
        """Put another text in its place, as the model does; the engine has seen to its length."""
        self._version += 1
        return self._store.put_plan(self._agent, text.encode(errors="replace"))

    async def _put(self, data: bytes) -> None:
        self._version += 1
        seq = self._store.put_plan(self._agent, data)
        self._changed(data.decode(errors="replace"))
        await self._store.stored(seq)
