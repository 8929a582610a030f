"""The environment of a tool: an allow-list, so that no secret of the server reaches a process that a model steers."""

from collections.abc import Iterable, Mapping

ALLOWED = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "TERM", "TZ"})
ALLOWED_PREFIX = "LC_"


def tool_environment(
    inherited: Mapping[str, str], allowed: Iterable[str], *, tmpdir: str, session: str, agent: str
) -> dict[str, str]:
    """The variables a tool gets.

    Args:
        inherited: The server's environment, overlaid with what the request supplies.
        allowed: The `env` list of the policy: names that pass too, and `NAME=value` that are set.
        tmpdir: The session's own directory for temporary files.
        session: The session's id, left out when empty.
        agent: The agent's id, left out when empty.
    """
    names = set(ALLOWED)
    fixed = {"TMPDIR": tmpdir}
    for entry in allowed:
        name, assigned, value = entry.partition("=")
        if assigned:
            fixed[name] = value
        else:
            names.add(name)
    passed = {name: value for name, value in inherited.items() if name in names or name.startswith(ALLOWED_PREFIX)}
    identity = {"OLLIE_SESSION_ID": session, "OLLIE_AGENT_ID": agent}
    return passed | fixed | {name: value for name, value in identity.items() if value}
