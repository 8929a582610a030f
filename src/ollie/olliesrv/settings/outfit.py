"""What an agent works with: what was set for it, else its profile's, else the server's, else the backend's.

Everything here is computed from the stored row of the agent and what the server has; nothing is kept.
"""

import platform
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ollie.backends.interface import PARAMETERS, Backend
from ollie.engine import own, system
from ollie.engine.events import Setup
from ollie.engine.limits import Limits
from ollie.engine.messages import ToolSpec
from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.settings import choice, keys
from ollie.olliesrv.settings.ceilings import Ceiling, ceiling
from ollie.olliesrv.settings.directories import working_directory
from ollie.olliesrv.settings.profiles import Profile
from ollie.olliesrv.settings.services import Services
from ollie.store.rows import AgentRow, Setting

_LOADED, _UNLOADED = TOOLS = ("tools_loaded", "tools_unloaded")
"""What an agent has beyond its profile's tools, and what it lacks of them: kept with its settings, no keys of `cfg`."""


class Outfit:
    """What an agent works with.

    Args:
        row: the agent as it is stored.
        services: what the server has.
    """

    def __init__(self, row: AgentRow, services: Services) -> None:
        self.row = row
        self._services = services

    @property
    def profile(self) -> Profile:
        """Its profile."""
        return self._services.profiles.get(self.row.profile)

    @property
    def backend_name(self) -> str:
        """The name of its backend."""
        return self._text("backend") or self._services.backends.default

    def backend(self) -> Backend:
        """Its backend; a `RefusedError` when there is none of that name, or it cannot be used."""
        return choice.backend(self._services.backends, self.backend_name)

    @property
    def model(self) -> str:
        """The name of its model; empty when nothing names one."""
        return choice.model(self._services.backends, self.backend_name, self._text("model"))

    @property
    def sandbox(self) -> str:
        """The sandbox of its tools; empty: each tool's own."""
        return self._text("sandbox") or self._services.config.sandbox

    @property
    def ceiling(self) -> Ceiling:
        """Its upper bound."""
        return msgspec.json.decode(self.row.ceiling, type=Ceiling)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it is to have, by name: its profile's, without those unloaded, and those loaded besides."""
        unloaded = self._tools(_UNLOADED)
        return (*(name for name in self.profile.tools if name not in unloaded), *self._tools(_LOADED))

    @property
    def host_tools(self) -> tuple[str, ...]:
        """Those of them that its host is to offer."""
        return tuple(name for name in self.tools if name not in own.SPECS)

    @property
    def system(self) -> str:
        """The system prompt that its model gets."""
        builtin = f"{system.DEFAULT} The computer runs {platform.system()}."
        return system.assemble(self._text("system").strip() or self.profile.system or builtin, self.row.cwd)

    def limits(self) -> Limits:
        """The bounds of its turns."""
        kept, config = self.row.settings, self._services.config
        return msgspec.convert({key: kept.get(key, getattr(config, key)) for key in Limits.__struct_fields__}, Limits)

    def setup(self, specs: Sequence[ToolSpec]) -> Setup:
        """What its model is asked with. The same from turn to turn while nothing was changed, byte by byte."""
        takes = self.backend().parameters
        own_specs = tuple(own.SPECS[name] for name in self.tools if name in own.SPECS)
        parameters = {key: value for key, value in self.row.settings.items() if key in PARAMETERS and key in takes}
        return Setup(self.model, self.system, (*specs, *own_specs), parameters, self.limits())

    def shown(self) -> dict[str, str]:
        """Every key of `cfg` with what counts for it, as it is written."""
        limits = self.limits()
        values: dict[str, Setting | None] = {
            "backend": self.backend_name,
            "model": self.model,
            "agent": self.row.profile,
            "cwd": self.row.cwd,
            "system": self._text("system") or self.profile.system,
            "sandbox": self.sandbox,
            "max_steps": limits.max_steps,
            "max_cost_usd": limits.max_cost_usd,
            "max_turn_s": limits.max_turn_s,
        }
        return {key: keys.show(values.get(key, self.row.settings.get(key))) for key in keys.KEYS}

    def changed(self, pairs: Mapping[str, str]) -> "Outfit":
        """The agent with other settings; all of them, or none when one of them cannot be.

        Another profile begins with its own tools: what was loaded and unloaded before is forgotten.

        Raises:
            RefusedError: an unknown key, or a value that cannot be.
        """
        values = keys.read(pairs)
        row = self.row
        if "cwd" in values:
            row = replace(row, cwd=working_directory(str(values.pop("cwd") or ""), self._services.private))
        if "agent" in values:
            profile = str(values.pop("agent") or self._services.config.profile)
            row = replace(row, profile=self._services.profiles.get(profile).name)
            values |= {_LOADED: None, _UNLOADED: None}
        if "backend" in values:
            values.setdefault("model", None)  # the models of one backend are not those of another
        kept = {key: value for key, value in {**row.settings, **values}.items() if value is not None}
        after = Outfit(replace(row, settings=kept), self._services)
        choice.check(after.backend(), [key for key, value in values.items() if value is not None])
        return after

    def with_tool(self, name: str) -> "Outfit":
        """The agent with a tool more, or as it is when it has that."""
        if name in self.tools:
            return self
        if name in self.profile.tools:
            return self._with_tools(_UNLOADED, [tool for tool in self._tools(_UNLOADED) if tool != name])
        return self._with_tools(_LOADED, [*self._tools(_LOADED), name])

    def without_tool(self, name: str) -> "Outfit":
        """The agent with a tool less; `tool not loaded: …` when it does not have that."""
        if name not in self.tools:
            raise RefusedError(f"tool not loaded: {name} (loaded: {' '.join(sorted(self.tools)) or 'none'})")
        if name in self.profile.tools:
            return self._with_tools(_UNLOADED, [*self._tools(_UNLOADED), name])
        return self._with_tools(_LOADED, [tool for tool in self._tools(_LOADED) if tool != name])

    def bounded(self) -> "Outfit":
        """The agent with an upper bound that is just what the agent has now."""
        bound = ceiling(
            self.row.cwd,
            self.sandbox,
            self.tools,
            self.limits().max_cost_usd,
            yolo=self._services.toolsrv.yolo,
        )
        return Outfit(replace(self.row, ceiling=msgspec.json.encode(bound)), self._services)

    def _with_tools(self, key: str, names: list[str]) -> "Outfit":
        return Outfit(replace(self.row, settings={**self.row.settings, key: names}), self._services)

    def _tools(self, key: str) -> list[str]:
        names = self.row.settings.get(key, [])
        assert isinstance(names, list)
        return names

    def _text(self, key: str) -> str:
        return str(self.row.settings.get(key) or "")
