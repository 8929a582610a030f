"""The models of every backend, asked for at the same time and remembered for a while."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ollie.backends.registry import Backends
from ollie.engine.messages import BackendError

_log = logging.getLogger(__name__)


class Models:
    """The list of models.

    Args:
        backends: who is asked.
        wait_s: how long each of them may take.
        keep_s: how long their answers count.
        clock: seconds, growing.
    """

    def __init__(self, backends: Backends, wait_s: float, keep_s: float, clock: Callable[[], float]) -> None:
        self._backends = backends
        self._wait_s = wait_s
        self._keep_s = keep_s
        self._clock = clock
        self._known: Sequence[tuple[str, str]] = ()
        self._until = 0.0
        self._asking: asyncio.Task[Sequence[tuple[str, str]]] | None = None

    def invalidate(self) -> None:
        """Forget what was answered."""
        self._until = 0.0

    async def known(self) -> Sequence[tuple[str, str]]:
        """Backend and name of each model; a backend that does not answer has none."""
        if self._clock() < self._until:
            return self._known
        if self._asking is None:  # those who ask at the same time share the answers
            self._asking = asyncio.get_running_loop().create_task(self._ask())
            self._asking.add_done_callback(self._asked)
        return await asyncio.shield(self._asking)

    def _asked(self, task: asyncio.Task[Sequence[tuple[str, str]]]) -> None:
        self._asking = None
        if not task.cancelled() and task.exception() is None:
            self._known = task.result()
            self._until = self._clock() + self._keep_s

    async def _ask(self) -> Sequence[tuple[str, str]]:
        names = list(self._backends.names)
        answers = await asyncio.gather(*(self._models(name) for name in names))
        return [(name, model) for name, models in zip(names, answers, strict=True) for model in models]

    async def _models(self, name: str) -> list[str]:
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._backends.get(name).models()
        except (BackendError, TimeoutError) as error:
            _log.info("backend %s lists no models: %s", name, error or "it does not answer")
            return []
