"""Agent profiles: a name for a way of working, which an agent takes its system prompt and its tools from."""

import msgspec

from ollie.olliesrv.errors import unknown


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile.

    Args:
        name: as in `agents` and in the key `agent` of `cfg`.
        system: its system prompt; empty for the built-in one.
        tools: the names of the tools it begins with.
    """

    name: str
    system: str = ""
    tools: tuple[str, ...] = ()


_HOST = ("shell", "file_read", "file_write", "file_edit", "glob", "grep", "fetch", "image_view")
_OWN = ("agent_spawn", "ask_user", "plan")
DEFAULT = Profile(name="default", tools=_HOST + _OWN)
"""Everything that ships. The embedded model does its everyday tasks no worse with all of it (bench/local_tasks.py)."""


class Profiles:
    """The profiles of a server, by name."""

    def __init__(self, *profiles: Profile) -> None:
        self._profiles = {profile.name: profile for profile in profiles or (DEFAULT,)}

    def names(self) -> list[str]:
        """Their names, sorted."""
        return sorted(self._profiles)

    def get(self, name: str) -> Profile:
        """The profile of a name; `unknown profile: …` when there is none."""
        if name not in self._profiles:
            raise unknown("profile", name, self._profiles)
        return self._profiles[name]
