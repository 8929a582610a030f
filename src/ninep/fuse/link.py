"""The connection behind a mount, made again when it is needed and lost.

Nothing polls: a request that finds the connection lost makes a new one, at once or not at all.
"""

import asyncio
from collections.abc import Awaitable, Callable

from ninep.client import Client
from ninep.dial import AddressError
from ninep.errors import ConnectionLostError, NinepError

Connect = Callable[[], Awaitable[Client]]

_CONNECT_S = 5.0  # how long a request waits for a server that does not answer


class Link:
    """One client at a time.

    Args:
        connect: makes a client, attached.
        reconnect: whether to make another one when the connection is lost.
        log: gets a line for each attempt that fails.

    Attributes:
        reconnects: as given.
        server_pid: the process that serves, 0 where that is not known.
    """

    def __init__(self, connect: Connect, *, reconnect: bool, log: Callable[[str], None] | None = None) -> None:
        self._connect = connect
        self.reconnects = reconnect
        self._log = log
        self.server_pid = 0
        self._client: Client | None = None
        self._connecting: asyncio.Task[Client] | None = None

    async def start(self) -> Client:
        """Connect for the first time.

        Raises:
            OSError, NinepError: as `Client.connect`.
        """
        return self._connected(await self._connect())

    def _connected(self, client: Client) -> Client:
        self._client = client
        self.server_pid = client.calls.server_pid
        return client

    async def client(self) -> Client:
        """The client, after connecting again where that is needed and wanted; all that wait share one attempt.

        Raises:
            ConnectionLostError: there is no server.
        """
        if self._client is not None and not self._client.calls.lost:
            return self._client
        if not self.reconnects:
            raise ConnectionLostError
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._again())
            self._connecting.add_done_callback(self._attempted)
        return await asyncio.shield(self._connecting)

    async def _again(self) -> Client:
        try:
            async with asyncio.timeout(_CONNECT_S):
                return self._connected(await self._connect())
        except (OSError, NinepError, AddressError) as error:
            if self._log is not None:
                self._log(f"connect: {error}")
            raise ConnectionLostError from None

    def _attempted(self, task: asyncio.Task[Client]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # whoever waited may have gone

    async def gone(self) -> None:
        """Wait until the present connection ends."""
        if self._client is not None:
            await self._client.calls.gone()

    async def close(self) -> None:
        """End the connection, and an attempt to make one."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})
        if self._client is not None:
            self._client.calls.abort()  # nothing is left to say, and a server that does not read is not waited for
            await self._client.calls.gone()
