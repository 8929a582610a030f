"""The tool calls of one reply: which of them may run, which run now, and what they gave.

A call that cannot be run, because of what the model wrote, has an error as its result from the start, and a form that
the history can hold. Reads may run side by side; a write waits for everything before it and runs alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from ninep.errors import unknown
from ollie.engine.history import fit_id, fit_name, parse_arguments
from ollie.engine.messages import Effect, TextContent, ToolCall, ToolResult, ToolSpec

_QUOTED: Final = 500


class Call(Struct, frozen=True):
    """One call.

    Args:
        call: as it stands in the history.
        effect: what running it does.
        arguments: decoded.
        run: the number of its run, 0 before it starts.
        result: what it gave.
    """

    call: ToolCall
    effect: Effect = "write"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    run: int = 0
    result: ToolResult | None = None

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.run > 0 and self.result is None

    @property
    def waiting(self) -> bool:
        """Whether it has not begun."""
        return self.run == 0 and self.result is None

    def failed(self, text: str) -> "Call":
        """The call with an error as its result."""
        return replace(self, result=ToolResult(self.call.id, self.call.name, (TextContent(text),), is_error=True))


def receive(wanted: Sequence[ToolCall], tools: Sequence[ToolSpec], used: set[str], *, cut: bool) -> tuple[Call, ...]:
    """The calls of a complete reply, in their order.

    Args:
        wanted: as the model wrote them.
        tools: those it was offered.
        used: call ids of the history.
        cut: the reply met its length limit. Nothing of it is run: what looks complete may not be.
    """
    by_name = {tool.name: tool for tool in tools}
    taken = set(used)
    ids: set[str] = set()
    calls = []
    for one in wanted:
        problem = _problem(one, by_name, ids, cut=cut)
        arguments = parse_arguments(one.arguments)
        kept = ToolCall(
            id=fit_id(one.id, taken),
            name=fit_name(one.name),
            arguments="{}" if arguments is None or not one.arguments.strip() else one.arguments,
        )
        taken.add(kept.id)
        ids.add(one.id)
        tool = by_name.get(one.name)
        call = Call(kept, effect=tool.effect if tool else "write", arguments=arguments or {})
        calls.append(call.failed(problem) if problem else call)
    return tuple(calls)


def _problem(call: ToolCall, tools: Mapping[str, ToolSpec], ids: set[str], *, cut: bool) -> str:
    """Why a call must not run, told to the model; empty when it may."""
    if cut:
        return "not run: the reply was cut by its length limit before it was complete; send a shorter call"
    if not call.name:
        return "not run: the call names no tool"
    if call.name not in tools:
        return unknown("tool", call.name, sorted(tools))
    if call.id and call.id in ids:
        return f"not run: two calls of this reply have the id {call.id[:_QUOTED]}"
    if parse_arguments(call.arguments) is None:
        return f"not run: the arguments are not a JSON object: {call.arguments[:_QUOTED]}"
    return ""


def startable(calls: Sequence[Call], max_parallel: int) -> int | None:
    """The index of the next call that may start, barriers aside; None when none may now."""
    running = 0
    for at, call in enumerate(calls):
        if call.running:
            if call.effect == "write":
                return None
            running += 1
        elif call.waiting:
            if call.effect == "write":
                return None if running else at
            return at if running < max_parallel else None
    return None


def settled(calls: Sequence[Call]) -> tuple[ToolResult, ...]:
    """The results so far that no earlier call is still missing before."""
    results = []
    for call in calls:
        if call.result is None:
            break
        results.append(call.result)
    return tuple(results)


def current(calls: Sequence[Call]) -> str:
    """The names of those that run, or else of the next that waits, for people."""
    names = [call.call.name for call in calls if call.running]
    names = names or [call.call.name for call in calls if call.waiting][:1]
    return ", ".join(dict.fromkeys(names))


def put(calls: tuple[Call, ...], at: int, call: Call) -> tuple[Call, ...]:
    """The calls with the one at `at` replaced."""
    return (*calls[:at], call, *calls[at + 1 :])
