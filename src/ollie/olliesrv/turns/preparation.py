"""A turn that is made ready: its prompt is in hand, and words and stops that come meanwhile are kept for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ollie.engine import events as ev
from ollie.store.rows import Queued


class Preparation:
    """A turn that is made ready.

    Args:
        queued: its prompt, in hand.

    Attributes:
        trouble: what is waited for, for people; empty for nothing.
    """

    def __init__(self, queued: Queued) -> None:
        self.queued = queued
        self.trouble = ""
        self._fetching: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._words: list[ev.Inject] = []
        self._stop: list[ev.Stop] = []

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do what makes it ready, and begins it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        return task

    def fetch(self, fetching: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Get the tools of its agent, which a stop cancels."""
        self._fetching = self.run(fetching)
        if self._stop:
            self._fetching.cancel()
        return self._fetching

    def wait_for(self, why: str) -> None:
        """Note what is waited for."""
        self.trouble = why

    def inject(self, words: ev.Inject) -> None:
        """Keep words for the turn."""
        self._words.append(words)

    def stop(self, note: str) -> None:
        """End the turn as soon as it begins, which is soon."""
        self._stop = [ev.Stop(note)]
        if self._fetching is not None:
            self._fetching.cancel()

    async def cancel(self) -> None:
        """Begin no turn; when this returns nothing is done for it any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def events(self, setup: ev.Setup) -> list[ev.Event]:
        """What the turn begins with."""
        return [ev.Configure(setup), ev.Prompt(self.queued.text), *self._words, *self._stop]
