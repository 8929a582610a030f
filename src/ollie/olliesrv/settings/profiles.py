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


DEFAULT = Profile(name="default", tools=("shell", "file_read", "file_write", "file_edit", "glob", "grep"))


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
