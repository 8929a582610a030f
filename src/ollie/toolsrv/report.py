"""The result of a run, for the model: what it printed, what went wrong, and how it ended.

The last line says how a run ended unless it ended well: `exit status N`, `killed by signal N` or `timed out after N s`.
Lines above it in brackets are ours: what was left running, what the policy refused, what was not enforced.
"""

import signal
from collections.abc import Callable, Sequence

from ollie.protocol import limits, result, terminal
from ollie.protocol.result import TextContent, ToolResult
from ollie.sandbox.launcher import Exit
from ollie.toolsrv.output import Kept, left_out

# As much of each end of an output as is rendered for the sake of 32 KiB: escape sequences and redrawn lines may be most
# of it, and rendering 16 MiB would take a second.
EXCERPT_BYTES = 256 * 1024

_REASONS = {
    "cancelled": "it was stopped",
    "memory": "ended for using more memory than limits.memory of its policy allows",
    "processes": "ended for having more processes than limits.processes of its policy allows",
    "lost": "the launcher of tools ended, and this run with it; it may be called again",
}


def ending(end: Exit, timeout_s: float | None) -> str:
    """How a run ended, as the last line of its result; empty when it ended well."""
    if end.reason == "timed out":
        return f"timed out after {timeout_s:g} s"
    if end.status is None:
        # Of what went with its launcher nobody knows more than that it was killed.
        return f"killed by signal {end.signal or signal.SIGKILL:d}"
    return f"exit status {end.status}" if end.status else ""


def remarks(end: Exit, refused: Sequence[str]) -> list[str]:
    """What is to be said about a run besides its output: `refused` by its policy, and what the launcher noted."""
    said = [*refused, *end.notes]
    if end.reason in _REASONS:
        said.append(_REASONS[end.reason])
    if end.left_running:
        left = "1 process was" if end.left_running == 1 else f"{end.left_running} processes were"
        said.append(f"{left} still running and ended with the call: start with new.bg what shall go on")
    return said


def shown(kept: Kept) -> str:
    """An output as text, without control sequences."""
    return terminal.plain(kept.head + (left_out(kept.missing) if kept.missing else b"") + kept.tail)


def text_result(
    printed: str, lost_bytes: int, last: str, said: Sequence[str], save: Callable[[], str | None]
) -> ToolResult:
    """The result of a tool that prints text.

    Args:
        printed: Its output, as `shown` gives it.
        lost_bytes: How much of the output is missing in it.
        last: How it ended, empty for well.
        said: Remarks; each becomes a line in brackets.
        save: Puts all that was kept of the output into a file and gives its path, None when it cannot; called when not
            all of it is shown.
    """
    whole = result.text(_with_lines(printed, said, last), is_error=bool(last))
    if not lost_bytes and _fits(whole):
        return whole
    path = save()
    if path is None:
        said = [*said, "what is left out of the output could not be kept"]
    elif lost_bytes:
        said = [*said, f"all that was kept of the output is in {path}"]
    whole = result.text(_with_lines(printed, said, last), is_error=bool(last))
    return limits.cut_result(whole, path=path, lost_bytes=lost_bytes)


def block_result(printed: Kept, last: str, said: Sequence[str], save: Callable[[], str | None]) -> ToolResult:
    """The result of a tool that prints a ToolResult on standard output; arguments as for `text_result`.

    Raises:
        ResultError: It printed something else.
    """
    if printed.missing:
        raise result.ResultError("result is longer than what is kept of an output")
    given = result.from_json(printed.head + printed.tail)
    lines = _with_lines("", said, last)
    extra = (TextContent(lines),) if lines else ()
    whole = ToolResult(given.content + extra, given.is_error or bool(last))
    return whole if _fits(whole) else limits.cut_result(whole, path=save())


def _with_lines(printed: str, said: Sequence[str], last: str) -> str:
    """The output, then the remarks, then how it ended, each on a line of its own."""
    lines = [f"[{line}]" for line in said] + ([last] if last else [])
    separator = "\n" if lines and printed and not printed.endswith("\n") else ""
    return printed + separator + "\n".join(lines)


def _fits(whole: ToolResult) -> bool:
    """Whether a model is given all of it."""
    return limits.cut_result(whole, path=None) == whole
