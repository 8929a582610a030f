"""The upper bound of an agent: a directory, a sandbox policy, a set of tools and a budget.

The owner sets it by making the agent, and changes it by changing the agent. An agent that makes another can give it no
more than it has itself, and may prompt or command only agents whose bound lies within its own. Whether one bound lies
within another is decided in `covers`, a pure function, and nowhere else.
"""

from collections.abc import Sequence

import msgspec

from ollie.olliesrv.errors import RefusedError
from ollie.protocol import expand, policy, policy_files, within
from ollie.protocol.paths import config_path

_TMPDIR = "/tmp/ollie-session"  # noqa: S108  a name that stands for each session's own directory, never opened


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """An upper bound.

    Args:
        directory: where it may work, resolved.
        policy: what its tools may do there: an expanded policy, encoded; empty without a sandbox (`--yolo`).
        tools: the names of the tools it may load, sorted.
        max_cost_usd: what it may cost; 0 means no bound.
    """

    directory: str
    policy: str = ""
    tools: tuple[str, ...] = ()
    max_cost_usd: float = 0.0


def covers(outer: Ceiling, inner: Ceiling) -> bool:
    """Whether all that `inner` allows is allowed by `outer` too."""
    return (
        within.covers(outer.directory, inner.directory)
        and set(inner.tools) <= set(outer.tools)
        and _no_dearer(inner.max_cost_usd, outer.max_cost_usd)
        and within.within(_policy(inner), _policy(outer))
    )


def ceiling(directory: str, sandbox: str, tools: Sequence[str], max_cost_usd: float, *, yolo: bool) -> Ceiling:
    """The bound of an agent that is made so.

    Args:
        directory: its working directory, resolved.
        sandbox: the name of its sandbox; empty stands for `default`.
        tools: its tools.
        max_cost_usd: its budget; 0 means no bound.
        yolo: whether tools run without a sandbox.

    Raises:
        RefusedError: there is no such sandbox, or its file cannot be used.
    """
    encoded = ""
    if not yolo:
        try:
            named = policy_files.load(sandbox or "default", config_path())
            encoded = policy.encode(expand.expand(named, expand.placeholders(directory, _TMPDIR)))
        except policy.PolicyError as error:
            raise RefusedError(str(error)) from None
    return Ceiling(directory=directory, policy=encoded, tools=tuple(sorted(tools)), max_cost_usd=max_cost_usd)


def _policy(bound: Ceiling) -> policy.Policy | None:
    return policy.decode(bound.policy) if bound.policy else None


def _no_dearer(inner: float, outer: float) -> bool:
    return outer == 0 or 0 < inner <= outer
