"""The bounds of a turn, and the note with which it ends when it meets one."""

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Bounds of a turn and its requests. 0 means no bound for the first three.

    Args:
        max_steps: requests to the model in one turn, repeated ones not counted.
        max_cost_usd: what the agent may cost in all its turns together, in US dollars.
        max_turn_s: seconds from prompt to end of a turn.
        max_retries: how often one request is repeated after it failed.
        max_retry_after_s: the longest wait that a provider may ask for; a longer one ends the turn.
        max_parallel: tool calls of one reply that run at the same time.
        plan_rounds: tool rounds after which the plan is shown to the model again; 0 never.
        stop_s: seconds that a stop waits for the calls it cancelled before the turn ends without them.
    """

    max_steps: int = 100
    max_cost_usd: float = 0.0
    max_turn_s: float = 0.0
    max_retries: int = 5
    max_retry_after_s: float = 120.0
    max_parallel: int = 8
    plan_rounds: int = 10
    stop_s: float = 30.0


def exceeded(limits: Limits, steps: int, cost_usd: float) -> str:
    """Why no further request may be made, as a note for the user; empty when one may."""
    if limits.max_steps and steps >= limits.max_steps:
        return f"ended after {steps} steps (max_steps={limits.max_steps}); prompt again to go on"
    if limits.max_cost_usd and cost_usd >= limits.max_cost_usd:
        return f"the budget of ${limits.max_cost_usd:.2f} is used up (max_cost_usd); raise it to go on"
    return ""


def overtime(limits: Limits) -> str:
    """The note of a turn that took too long."""
    return f"ended after {limits.max_turn_s:g} seconds (max_turn_s); prompt again to go on"
