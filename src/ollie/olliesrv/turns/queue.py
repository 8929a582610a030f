"""The prompts of one agent that wait. They are in the store; here it is known which of them somebody has in hand.

One in hand is still in the store, so that it is lost to nobody, and yet is neither run nor given to anyone else: that
whose turn is being made ready, and those that readers of `fifo` are reading.

Words injected into a turn are stored here as well, beside the queue: when the server ends before the model was given
them, they are a prompt.
"""

import asyncio
import contextlib
from collections.abc import Callable

from ollie.store.rows import Queued, Seq, StoreError
from ollie.store.sqlite import Store


class Queue:
    """The prompts of one agent that wait.

    Args:
        store: where they are.
        agent: the id of the agent.
        settled: called when a reader has read one whole, or has given it back.

    Attributes:
        length: how many there are, those in hand included and injected words not.
        held: none may be run for now.
    """

    def __init__(self, store: Store, agent: str, settled: Callable[[], None]) -> None:
        self._store = store
        self._agent = agent
        self._settled = settled
        self._in_hand: set[int] = set()
        self._injected: set[int] = set()
        self._storing: set[asyncio.Task[None]] = set()
        self._closed = False
        self.length = len(store.queue(agent))
        self.held = self.length > 0

    @property
    def ready(self) -> bool:
        """Whether there is one that may be run: that nobody has in hand, in a queue that is not held."""
        return self._free and not self.held

    @property
    def _free(self) -> bool:
        return self.length > len(self._in_hand)

    def add(self, text: str) -> Seq:
        """Add one at the end."""
        self.length += 1
        return self._store.enqueue(self._agent, text)

    def take(self) -> Queued:
        """Take the oldest in hand that nobody has; there is one."""
        taken = self._in_hand | self._injected
        queued = next(queued for queued in self._store.queue(self._agent) if queued.entry not in taken)
        self._in_hand.add(queued.entry)
        return queued

    def remove(self, entry: int) -> Seq:
        """Remove one that is in hand."""
        self._in_hand.remove(entry)
        self.length -= 1
        return self._store.dequeue(self._agent, entry)

    def inject(self, text: str) -> tuple[int, Seq]:
        """Keep words beside the queue; their entry, and the number of the change."""
        seq = self._store.enqueue(self._agent, text)
        entry = self._store.queue(self._agent)[-1].entry
        self._injected.add(entry)
        return entry, seq

    def given(self, entry: int) -> Seq:
        """The model has been given injected words."""
        self._injected.remove(entry)
        return self._store.dequeue(self._agent, entry)

    def lease(self) -> "Lease | None":
        """The oldest that nobody has in hand, for a reader; None when there is none."""
        return Lease(self, self.take()) if self._free else None

    def settle(self, entry: int, *, taken: bool) -> None:
        """A reader has read one whole, or not; after `close` that means nothing."""
        if self._closed:
            return
        if taken:
            self._store_soon(self.remove(entry))
        else:
            self._in_hand.remove(entry)
        self._settled()

    def close(self) -> None:
        """Its agent ends, or is gone."""
        self._closed = True

    def _store_soon(self, seq: Seq) -> None:
        """Have a change stored now, though nobody waits for it; what fails is tried again by the store."""
        task = asyncio.get_running_loop().create_task(_stored(self._store, seq))
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)


class Lease:
    """A prompt that a reader of `fifo` has in hand (a `Head` of ninep)."""

    def __init__(self, queue: Queue, queued: Queued) -> None:
        self._queue = queue
        self._entry = queued.entry
        self.data = f"{queued.text}\n".encode()

    def taken(self) -> None:
        """It was read whole."""
        self._queue.settle(self._entry, taken=True)

    def release(self) -> None:
        """It was not."""
        self._queue.settle(self._entry, taken=False)


async def _stored(store: Store, seq: Seq) -> None:
    with contextlib.suppress(StoreError):
        await store.stored(seq)
