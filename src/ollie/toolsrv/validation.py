r"""A speed bump in front of the sandbox: scripts that are almost certainly a mistake are refused before they run.

It is no boundary. The sandbox holds whatever gets past these patterns; they catch what would waste a machine, or what
no task asks for, and tell the model so in words. What is checked is shell text: the arguments of a call that tools take
as such. The text of files and search patterns is not.

An agent that fails again and again is made to wait, so that a model in a loop does not try variations for an hour.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

# Where a command begins: at the start, behind what separates commands, and behind words that take a command.
_AT = r"(?:^|[;&|({`\n]|\b(?:sudo|exec|eval|then|do|else|nohup|time|command|xargs)\s)\s*(?:[\w/.-]{0,100}/)?"
_WORDS = r"(?:[^\s;&|]+(?:[ \t]|\\\n)+)*?"
# The directories that are whole systems or whole homes, by any of their names: quoted or not, with slashes, `.` and
# `..` behind them, or all that is in them.
_END = r"(?=$|[\s;&|)`<>])"
_DOTS = r"""\.{1,2}(?=$|[\s;&|)`<>"'/])"""
_HOME = r"~|\$HOME|\$\{HOME[^}\s]{0,40}\}"
_SYSTEM = r"/+(?:bin|boot|dev|etc|home|lib|lib64|opt|proc|root|sbin|sys|usr|var)"
_ROOT = rf"""["']?(?:{_HOME}|{_SYSTEM}|/(?:{_DOTS})?)["']?(?:/["']?(?:{_DOTS})?)*(?:\.?\*)?["']?{_END}"""
_SHELL = r"(?:sudo\s+)?(?<![\w/.-])(?:[\w/.-]{0,100}/)?(?:ba|z|da|k|fi)?sh\b"
_DISK = r"/dev/(?:sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme\d|mmcblk\d|disk\d|mapper/|dm-\d)"

SCRIPTS = ("cmd", "command", "script")
"""The names of arguments that are shell text."""


@dataclass(frozen=True)
class Pattern:
    """What is refused.

    Args:
        name: for people and tests.
        expression: matches anywhere in the text.
        reason: told to the model, after "refused: ".
    """

    name: str
    expression: re.Pattern[str]
    reason: str


def _pattern(name: str, expression: str, reason: str) -> Pattern:
    return Pattern(name, re.compile(expression, re.MULTILINE), reason)


PATTERNS = (
    _pattern(
        "root-removal",
        rf"{_AT}\\?rm\s+(?={_WORDS}(?:-\w*[rR]|--recursive)){_WORDS}{_ROOT}",
        "it removes a whole system or home directory; name what is to go",
    ),
    _pattern(
        "root-permissions",
        rf"{_AT}ch(?:mod|own|grp)\s+(?={_WORDS}(?:-\w*R|--recursive)){_WORDS}{_ROOT}",
        "it changes the permissions of a whole system or home directory; name what is to change",
    ),
    _pattern(
        "fork-bomb",
        r"(?<![\w:.])(?P<name>[\w:.]{1,64})\s*\(\)\s*\{[^}]*(?<![\w:.])(?P=name)\s*\|\s*(?P=name)(?![\w:.])[^}]*&[^}]*\}",
        "it starts itself without end",
    ),
    _pattern(
        "format", rf"{_AT}(?:mkfs(?:\.\w+)?|mkswap|wipefs|fdisk|sfdisk|parted)\s[^\n;|&]*/dev/", "it formats a disk"
    ),
    _pattern("disk-write", rf"\bof={_DISK}|>\s*{_DISK}|{_AT}(?:shred|tee)\s[^\n;|&]*{_DISK}", "it overwrites a disk"),
    _pattern(
        "kill-everything",
        rf"{_AT}kill\s+(?:-\w+\s+|-s\s+\w+\s+|--\s+)+-1\b|{_AT}killall5\b",
        "it signals every process; name the ones that are meant",
    ),
    _pattern(
        "power",
        rf"{_AT}(?:shutdown|reboot|halt|poweroff|init\s+[06])\b(?!\s*[=(.])|{_AT}systemctl\s+{_WORDS}(?:reboot|poweroff|halt)\b",
        "it turns the machine off",
    ),
    _pattern(
        "unseen-code",
        rf"{_AT}(?:curl|wget)\b[^\n;]*\|\s*{_SHELL}|{_SHELL}\s+(?:-\w+\s+)*(?:<\(|[\"']?\$\()\s*(?:curl|wget)\b",
        "it runs code from the network that nobody has seen; save it to a file, read it, then run it",
    ),
    _pattern(
        "hidden-code",
        rf"\b(?:base64\s+(?:-\w*[dD]|--decode)|xxd\s+-\w*r)\b[^\n;]*\|\s*{_SHELL}",
        "it runs code that cannot be read; write it out",
    ),
)


def refusal(arguments: Mapping[str, object]) -> str:
    """Why a call is not run, from its arguments; empty when it may."""
    for text in map(arguments.get, SCRIPTS):
        if not isinstance(text, str):
            continue
        for pattern in PATTERNS:
            if pattern.expression.search(text):
                return f"refused: {pattern.reason} ({pattern.name})"
    return ""


@dataclass(frozen=True)
class Rate:
    """So many failures in so many seconds block an agent for so long."""

    failures: int = 5
    within_s: float = 60
    block_s: float = 300


@dataclass
class _Agent:
    """When an agent failed last, and until when it is blocked."""

    failed_at: deque[float] = field(default_factory=deque)
    blocked_until: float = 0


class Failures:
    """Counts failures of validation by agent.

    Args:
        rate: how many are too many.
        clock: seconds since the epoch.
    """

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._agents: dict[str, _Agent] = {}

    def blocked(self, agent: str) -> str:
        """Why nothing is run for an agent now, and until when; empty when it is."""
        known = self._agents.get(agent)
        now = self._clock()
        if known is None or known.blocked_until <= now:
            return ""
        until = datetime.fromtimestamp(known.blocked_until, UTC).strftime("%H:%M:%S")
        rate = self._rate
        return (
            f"not run: {rate.failures} calls were refused within {rate.within_s:g} s, so nothing is run for this agent "
            f"until {until} UTC, in {known.blocked_until - now:.0f} s"
        )

    def add(self, agent: str) -> None:
        """Another failure of an agent."""
        now = self._clock()
        known = self._agents.setdefault(agent, _Agent())
        known.failed_at.append(now)
        while known.failed_at[0] <= now - self._rate.within_s:
            known.failed_at.popleft()
        if len(known.failed_at) >= self._rate.failures:
            known.blocked_until = now + self._rate.block_s
            known.failed_at.clear()
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop agents that neither are blocked nor have failed lately."""
        idle = [
            agent
            for agent, known in self._agents.items()
            if known.blocked_until <= now and not (known.failed_at and known.failed_at[-1] > now - self._rate.within_s)
        ]
        for agent in idle:
            del self._agents[agent]
