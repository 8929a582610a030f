"""The server: what it has, what its root files show, and how it begins and ends."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ninep import dial
from ninep.server import Server
from ollie.backends.registry import Backends
from ollie.olliesrv import generate
from ollie.olliesrv.errors import denied
from ollie.olliesrv.lost import LostErrors
from ollie.olliesrv.process.lease import lease
from ollie.olliesrv.process.lock import Lock
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.sessions import Sessions
from ollie.olliesrv.settings.config import Config
from ollie.olliesrv.settings.directories import scratch_base, sweep_scratch
from ollie.olliesrv.settings.models import Models
from ollie.olliesrv.settings.profiles import Profiles
from ollie.olliesrv.settings.services import Services
from ollie.olliesrv.toolserver import life, places
from ollie.olliesrv.toolserver.approvals import Approvals
from ollie.olliesrv.toolserver.toolserver import ToolServer
from ollie.protocol import paths
from ollie.protocol.discovery import Broken, Catalog
from ollie.protocol.metadata import ToolInfo
from ollie.store.rows import StoreError
from ollie.store.sqlite import Store

if TYPE_CHECKING:
    from ollie.olliesrv.sessions.session import Session

_log = logging.getLogger(__name__)


class Ollie:
    """A server, without its name space and its listeners.

    Args:
        services: what its objects share.
        lock: the lease on its data directory, let go of at its end.

    Attributes:
        listener: what serves its name space, set by who makes that.
    """

    listener: Server

    def __init__(self, services: Services, lock: Lock) -> None:
        self.config = services.config
        self.store = services.store
        self.backends = services.backends
        self.services = services
        self.sessions = Sessions(services)
        self.stopping = asyncio.Event()
        self.lost = LostErrors()
        self.approvals = Approvals(self.tool_servers, services.asked)
        self._lock = lock
        self._waiting: list[Session] = []
        self._owing: list[str] = []
        self._collecting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        config: Config,
        *,
        address: str,
        yolo: bool = False,
        backends: Backends | None = None,
        profiles: Profiles | None = None,
        open_files: int | None = None,
    ) -> "Ollie":
        """A server that is ready for its listeners.

        Args:
            config: the configuration.
            address: the dial string by which clients reach it.
            yolo: run tools without a sandbox.
            backends: the providers of models; those of the configuration and the environment when not given.
            profiles: the ways of working; the built-in ones when not given.
            open_files: how many descriptors a process of a tool may have; as many as this one when not given.

        Raises:
            AddressError: the directory of the socket has too long a path for those of tool servers.
            BackendError: the backend that is asked for does not exist or cannot be used.
            PathError: one of Ollie's directories cannot be used.
            StoreError: the store is used by another server, which the text names, or cannot be used.
        """
        place = dial.parse(address)
        directory = str(Path(place.path).parent) if isinstance(place, dial.Unix) else dial.namespace_dir()
        dial.parse(f"unix!{places.socket_path(directory, '')}")  # tool servers have to find room there, too
        toolsrv = places.Settings(
            sockets=paths.private_directory(directory),
            secrets=f"{paths.data_path()}/secrets",
            address=address,
            yolo=yolo,
            start_s=config.toolsrv_start_s,
            idle_s=config.toolsrv_idle_s,
            cancel_s=config.cancel_s,
            bypass_s=config.bypass_timeout_s,
            max_runs=config.max_runs,
            max_requests=config.max_requests,
            max_connections=config.max_connections,
            open_files=open_files,
        )
        providers = backends or Backends(os.environ, config)
        data = paths.private_directory(paths.data_dir())
        lock = lease(data)
        try:
            store = await Store.open(f"{data}/ollie.db", config.store_retry_s)
        except BaseException:
            lock.release()
            raise
        services = Services(
            config=config,
            store=store,
            backends=providers,
            models=Models(providers, config.models_s, config.models_cache_s, time.monotonic),
            catalog=Catalog.from_environment(),
            profiles=profiles or Profiles(),
            toolsrv=toolsrv,
            address=address,
            scratch=scratch_base(address),
            private=(paths.config_path(), paths.data_path(), paths.cache_path(), directory),
        )
        server = cls(services, lock)
        try:
            await server._begin()
        except BaseException:
            await server.close()
            raise
        return server

    async def _begin(self) -> None:
        await self.sessions.load()
        await self._find_tool_servers()
        await asyncio.to_thread(sweep_scratch, self.services.scratch, self.sessions.ids())
        self._waiting = await self.sessions.unfinished()

    def resume(self) -> None:
        """Let go on what waited when an earlier server ended, if it is to; once clients and tools can come."""
        if self.config.resume == "queue":
            for session in self._waiting:
                session.let_go()
        self._waiting = []
        if self._owing:
            self._collecting = asyncio.get_running_loop().create_task(self._collect())

    async def close(self) -> None:
        """End in order: turns, tool servers, backends, store. Idempotent; returns when nothing of it is alive."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.stopping.set()
        if self._collecting is not None:
            self._collecting.cancel()
            await asyncio.wait({self._collecting})
        await asyncio.gather(*(session.close() for session in self.sessions.live()))
        await self.backends.close()
        try:
            await self.store.close()
        except StoreError as error:
            _log.critical("the last changes are lost: %s", error)
        finally:
            self._lock.release()

    # Tool servers.

    def tool_servers(self) -> Iterable[ToolServer]:
        """Those that have a process, or had one a moment ago."""
        return [session.toolsrv for session in self.sessions.live() if session.toolsrv.process is not None]

    async def _find_tool_servers(self) -> None:
        """Take over the tool servers that outlived an earlier server, and end those whose session is gone."""
        settings = self.services.toolsrv
        ids = {places.socket_path(settings.sockets, session): session for session in self.sessions.ids()}
        for path in places.sockets(settings):
            found = life.listener(path)
            if found is None:
                continue
            if path in ids:
                session = await self.sessions.find(ids[path], by=None)
                assert session is not None
                session.toolsrv.take_over()
            else:
                _log.warning("ending the tool server %d: its session is gone", found.pid)
                await life.end(found, self.config.cancel_s)
        places.forget_others(settings, self.sessions.ids())
        self._owing = await asyncio.to_thread(places.owing, settings, self.sessions.ids())

    async def _collect(self) -> None:
        """Have agents told of what ended while there was no server, a session at a time: each takes a tool server."""
        for session_id in self._owing:
            try:
                session = await self.sessions.find(session_id, by=None)
            except StoreError as error:
                _log.error("session %s: %s", session_id, error)
                continue
            if session is not None:
                await asyncio.wait({session.toolsrv.collect()}, timeout=self.config.toolsrv_start_s)

    # What it has.

    async def tools(self) -> list[ToolInfo | Broken]:
        """The tools of this host, sorted by name."""
        return list((await asyncio.to_thread(self.services.catalog.tools)).values())

    def generate(self, data: bytes, *, by: Agent | None) -> AsyncGenerator[bytes, None]:
        """Ask a model once, outside of any agent; see `generate.py`."""
        if by is not None and by.ceiling.max_cost_usd:
            raise denied()  # what it costs would not count against the budget of the agent
        return generate.generate(self.services, data)

    # What is done to it; the owner's alone.

    async def invalidate(self, *, by: Agent | None) -> None:
        """Forget what can be found out again: lists of models and of tools."""
        _permit(by)
        self.services.models.invalidate()
        self.services.catalog.invalidate()
        await asyncio.gather(*(session.invalidate(by=None) for session in self.sessions.live()))

    async def stop(self, *, by: Agent | None) -> None:
        """Have it end; it goes on until whoever runs it closes it."""
        _permit(by)
        self.stopping.set()


def _permit(by: Agent | None) -> None:
    if by is not None:
        raise denied()
