"""A mount as a whole: connection, descriptor and bridge, from mounting to unmounting."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Self

from ninep import _wire
from ninep.errors import ConnectionLostError
from ninep.fuse import mounting
from ninep.fuse.bridge import Bridge
from ninep.fuse.callers import Judge, same_user
from ninep.fuse.link import Connect, Link
from ninep.fuse.mounting import MountError


class Mount:
    """A 9P tree, mounted on a directory.

    The process that serves it must not use it: it would wait for itself.

    Attributes:
        bridge: what serves it.
    """

    def __init__(self, place: str, device: str, link: Link, bridge: Bridge) -> None:
        self.bridge = bridge
        self._place = place
        self._device = device
        self._link = link

    @classmethod
    async def start(
        cls,
        directory: str,
        connect: Connect,
        *,
        source: str,
        reconnect: bool = True,
        judge: Judge | None = None,
        log: Callable[[str], None] | None = None,
    ) -> Self:
        """Connect, mount, and return when the mount can be used.

        Args:
            directory: empty, and nothing mounted on it.
            connect: makes a client, attached; called again after the connection was lost, when somebody uses the mount.
            source: what `df` and `mount` show as the device, the server's address usually.
            reconnect: False ends the mount with its server.
            judge: which callers may use it; by default those of this process's user outside of any sandbox.
            log: gets a line for every request that fails.

        Raises:
            MountError: it cannot be mounted.
            OSError, NinepError: as `Client.connect`.
        """
        place = await asyncio.to_thread(mounting.prepare, directory)
        link = Link(connect, reconnect=reconnect, log=log)
        try:
            judge = judge or same_user()
            client = await link.start()
            fd, device = await _mounted(place, source)
        except BaseException:
            await link.close()
            raise
        bridge = Bridge(
            fd,
            link,
            judge=judge,
            owner=(os.getuid(), os.getgid()),
            max_write=client.calls.msize - _wire.IO_HEADER_BYTES,
            log=log,
        )
        mount = cls(place, device, link, bridge)
        try:
            await _first(bridge.ready.wait(), bridge.ended.wait())
            if not bridge.ready.is_set():
                raise MountError(f"cannot mount on {directory}: this kernel's FUSE is too old, or it was unmounted")
        except BaseException:
            await mount.unmount()
            raise
        return mount

    async def wait(self) -> None:
        """Until it is unmounted, by whomever.

        Raises:
            ConnectionLostError: the server has gone, and the mount was not to come back.
        """
        if self._link.reconnects:
            await self.bridge.ended.wait()
        else:
            await _first(self.bridge.ended.wait(), self._link.gone())
            if not self.bridge.ended.is_set():
                await self.unmount()
                raise ConnectionLostError
        await self._close()

    async def unmount(self) -> None:
        """Take it from the directory, although it is in use: whoever waits gets EINTR. What was written is taken.

        Where somebody else was quicker, what has been mounted there since is left alone. As long as the file system is
        there, no other has the number of its device.
        """
        if self.bridge.mounted:
            with suppress(MountError):
                await asyncio.to_thread(mounting.unmount, self._place, lazy=True, device=self._device)
        await self._close()

    async def _close(self) -> None:
        await self.bridge.close()
        await self._link.close()


async def _mounted(place: str, source: str) -> tuple[int, str]:
    """As `mounting.mount`, in a thread. When this is cancelled that goes on, and what it mounts is taken back."""
    working = asyncio.ensure_future(asyncio.to_thread(mounting.mount, place, source))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        with suppress(MountError, OSError):
            fd, _ = await working
            await asyncio.to_thread(mounting.abandon, place, fd)
        raise


async def _first(*waiting: Coroutine[object, object, object]) -> None:
    """Until one of them has ended."""
    tasks = {asyncio.ensure_future(one) for one in waiting}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
