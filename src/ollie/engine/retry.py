"""When a failed request to the model is repeated. Nobody else repeats one."""

from typing import Final

from ollie.engine.limits import Limits
from ollie.engine.messages import ErrorKind

RETRIED: Final = frozenset({ErrorKind.rate_limited, ErrorKind.overloaded, ErrorKind.unavailable, ErrorKind.stream_cut})
"""Failures that may pass by themselves."""

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 60.0


def delay(limits: Limits, kind: ErrorKind, attempt: int, retry_after_s: float | None, jitter: float) -> float | None:
    """Seconds until the request is repeated; None when it is given up.

    Args:
        limits: `max_retries` and `max_retry_after_s`.
        kind: how it failed.
        attempt: how often it was repeated already.
        retry_after_s: the wait that the provider asked for.
        jitter: a random number from 0 to 1. The wait doubles with each attempt and is spread over half of itself, so
            that many agents that failed together do not come back together.
    """
    if kind not in RETRIED or attempt >= limits.max_retries:
        return None
    spread = min(_FIRST_S * 2.0**attempt, _LONGEST_S) * (0.5 + 0.5 * jitter)
    if retry_after_s is None:
        return spread
    if retry_after_s > limits.max_retry_after_s:
        return None
    return max(retry_after_s, 0.0) + spread * 0.1
