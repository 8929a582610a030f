"""Something to wait for: whoever waits is woken by the next ring, and looks for itself what has changed."""

import asyncio


class Bell:
    """Wakes all that wait for it."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self) -> None:
        """Until it is rung."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)

    def ring(self) -> None:
        """Wake them."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
