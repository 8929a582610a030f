"""The bounds of a turn, and the note with which it ends when it meets one."""

from typing import Annotated

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
Dollars = Annotated[float, Meta(ge=0)]


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of a turn and its requests, as they are configured, too. 0 means no bound for the first three.

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

    max_steps: Count = 100
    max_cost_usd: Dollars = 0.0
    max_turn_s: Seconds = 0.0
    max_retries: Count = 5
    max_retry_after_s: Seconds = 120.0
    max_parallel: Annotated[int, Meta(ge=1)] = 8
    plan_rounds: Count = 10
    stop_s: Seconds = 30.0


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
