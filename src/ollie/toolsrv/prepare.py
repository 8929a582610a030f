"""From a request to something that can be run: tool, arguments, directory, policy and environment, in that order.

Nothing is started here, and nothing is decided later: what a job holds is exactly what will run. What makes a call
impossible and can be mended by whoever made it is a `RefusedError`.
"""

import os
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ninep.dial import Unix
from ninep.errors import NinepError
from ollie.protocol import broker, policy_files
from ollie.protocol.expand import environment, expand, placeholders
from ollie.protocol.metadata import ArgumentError, Python, Script, ToolInfo
from ollie.protocol.payload import Call, PayloadError
from ollie.protocol.policy import Policy, PolicyError
from ollie.protocol.within import covers, tighten
from ollie.sandbox.programs import is_program
from ollie.toolsrv.registry import Registry, RegistryError
from ollie.toolsrv.runs import Task
from ollie.toolsrv.validation import refusal

if TYPE_CHECKING:
    from ollie.toolsrv.fingerprint import Fingerprint

_PACKAGES = str(Path(__file__).resolve().parents[2])
"""The directory from which Ollie is imported."""

OWN_VARIABLES = ("TMPDIR", "OLLIE_SESSION_ID", "OLLIE_AGENT_ID", broker.VARIABLE)
"""The variables that say whom a run is for; every run gets its own from the server."""

_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
_SHOWN_CHARACTERS = 200


class RefusedError(NinepError):
    """A call that cannot run; the text says why, for the model."""


class InvalidError(RefusedError):
    """A call whose script is refused before anything else is looked at."""


@dataclass(frozen=True)
class Settings:
    """What all calls of one server have in common.

    Args:
        cwd: Where a call runs that names no directory.
        tmpdir: The session's directory for temporary files, without links: should it be one, a tool has made it so.
        config_dir: Where the user's policies are.
        bypass_timeout_s: How long a request to run without the sandbox waits for its answer.
        yolo: Run tools without a sandbox.
        timeout_s: For a tool that names no time limit of its own.
        timeout_max_s: The longest that a call may ask for.
        grace_s: From SIGTERM to SIGKILL.
        output_bytes: How much of a run's output is kept.
        max_runs: How many runs one agent may have at a time.
        max_requests: How many requests of one agent to run without the sandbox may wait at a time.
        olliesrv: Where tools reach olliesrv, through their descriptor 3; None gives them none.
        written: Places that tools of this server could write so far.
    """

    cwd: Path
    tmpdir: Path
    config_dir: Path
    bypass_timeout_s: float
    yolo: bool = False
    timeout_s: float = 120
    timeout_max_s: float = 3600
    grace_s: float = 0.5
    output_bytes: int = 16 * 1024 * 1024
    max_runs: int = 64
    max_requests: int = 8
    olliesrv: Unix | None = None
    written: set[str] = field(default_factory=set)

    @cached_property
    def places(self) -> Mapping[str, str]:
        """What the placeholders of policies stand for while the server runs, but for `CWD`, which each call has."""
        return {**placeholders(str(self.cwd), str(self.tmpdir)), "TMPDIR": str(self.tmpdir)}


@dataclass(frozen=True)
class Job:
    """All that is needed to run a call.

    Attributes:
        argv: The program and its arguments.
        function: Instead of `argv`, what the launcher calls without a new interpreter; may be empty.
        stdin: What the tool reads.
        policy: Expanded.
        policies: Those that it was made of; it allows what all of them allow.
        enforced: False leaves all of the policy out but its limits and its environment.
        bypass: It asks for that itself, so it must be approved before it runs.
        blocks: It prints a ToolResult, and somebody waits for that.
        timeout_s: None for no limit.
        approved: What it was when its bypass was approved; None for one that needs none.
    """

    task: Task
    argv: tuple[str, ...]
    function: str
    stdin: bytes
    environment: Mapping[str, str]
    cwd: str
    policy: Policy
    policies: tuple[Policy, ...]
    enforced: bool
    bypass: bool
    blocks: bool
    timeout_s: float | None
    approved: "Fingerprint | None" = None


def prepare(call: Call, registry: Registry, settings: Settings, *, background: bool) -> Job:
    """The job of a call.

    Raises:
        RefusedError: The tool is not loaded, the arguments do not fit its schema, the directory or a policy does not
            exist.
        InvalidError: Its script is refused, see `validation`; a bypass is left to whoever approves it.
    """
    try:
        tool = registry.lookup(call.agent, call.tool)
        dispatch, arguments = tool.request(call)
        if not dispatch.bypass and (why := refusal(arguments)):
            raise InvalidError(why)
        if dispatch.bypass and call.env:
            given = ", ".join(f"env.{name}" for name in call.env)
            raise RefusedError(f"not run: a call without the sandbox has no variables of its own: leave out {given}")
        background = background or dispatch.background
        invocation = tool.invocation(arguments)
        cwd = _directory(call, settings)
        policies = _policies(call.sandbox or tool.sandbox, dispatch.sandbox, cwd, settings)
        policy = policies[0] if len(policies) == 1 else tighten(*policies)
    except (RegistryError, PayloadError, ArgumentError, PolicyError) as error:
        raise RefusedError(str(error)) from None
    return Job(
        task=Task(tool.name, invocation.command, call.agent, call.session, background),
        argv=invocation.argv,
        function=invocation.call or "",
        stdin=invocation.stdin,
        environment=_environment(call, policy, settings),
        cwd=cwd,
        policy=_apart(_with_programs(policy, tool, str(settings.config_dir)), settings.written),
        policies=tuple(_with_programs(each, tool, str(settings.config_dir)) for each in policies),
        enforced=not settings.yolo and not dispatch.bypass,
        bypass=dispatch.bypass,
        blocks=tool.output == "blocks" and not background,
        timeout_s=_timeout_s(tool, dispatch.timeout_s, settings, background=background),
    )


def _directory(call: Call, settings: Settings) -> str:
    """The directory to run in; a relative one is meant from the server's own.

    It has no links: what an agent works in was resolved when it got it, so a link in that is one that a tool has made
    since. Nothing that is put in its place while a call begins is entered or granted either: olliesrv judges a
    directory by this path; the process that becomes the tool enters it by this path, and goes on only if that is where
    it is then (`enforce.enter`); and the rule of Landlock holds a descriptor that was opened by this path, no part of
    it being a link (`Policy.real`). So each of the two is, at its time, the directory of this path, and lies within
    the bound of the agent whichever directory it is.
    """
    default = settings.places["CWD"]
    try:
        path = os.path.normpath(default / Path(call.cwd).expanduser()) if call.cwd else default
    except RuntimeError:
        raise RefusedError(f"cannot run in {call.cwd}: no such user") from None
    if not os.path.isdir(path):  # noqa: PTH112  for each run
        why = "not a directory" if os.path.exists(path) else "no such directory"  # noqa: PTH110  as above
        shown = path if len(path) <= _SHOWN_CHARACTERS else f"{path[:_SHOWN_CHARACTERS]}…"
        raise RefusedError(f"cannot run in {shown}: {why}")
    real = os.path.realpath(path)
    if real != path:
        raise RefusedError(f"cannot run in {path}: a link leads to {real}, name that instead")
    return path


def _policies(name: str, tighter: str | None, cwd: str, settings: Settings) -> tuple[Policy, ...]:
    """The policy of that name for this directory, and the one that the call asks to be tightened by."""
    config_dir = str(settings.config_dir)
    values = {**settings.places, "CWD": cwd}
    names = (name,) if tighter in {None, name} else (name, tighter)
    return tuple(expand(policy_files.load(each, config_dir), values) for each in names)


def _apart(policy: Policy, written: set[str]) -> Policy:
    """The policy, by which no link is followed where a tool could write before; it adds the places of its own."""
    own = {*policy.filesystem.rw, *policy.filesystem.rwx}
    for path in own - written:
        if not any(covers(place, path) for place in written):
            written.add(path)
    others = tuple(sorted(written - own))
    return replace(policy, written=others) if others else policy


def _with_programs(policy: Policy, tool: ToolInfo, config_dir: str) -> Policy:
    """The policy, with what no policy need name: where the tool's program is, and what `ollie-9p` is made of.

    A function imports what it needs where it runs, and not every interpreter is below `/usr`.
    """
    if isinstance(tool.run, Script):
        found = _of_script(tool.run.argv[-1], config_dir)
        return _allowing(policy, (_PACKAGES,), found, found).called(policy.name)
    ro = (_PACKAGES, _STANDARD_LIBRARY) if isinstance(tool.run, Python) else (_PACKAGES,)
    return _allowing(policy, ro, (), ()).called(policy.name)


def _of_script(script: str, config_dir: str) -> tuple[str, ...]:
    """The directory of a tool's program, for what it has beside it, without links.

    A link is followed from the configuration directory, where no agent works. One that lies elsewhere may be a tool's:
    it is followed to a program, and to nothing that is beside that.
    """
    directory, real = os.path.dirname(script), os.path.realpath(script)  # noqa: PTH120  for each run
    if real == script or covers(config_dir, script):
        return (os.path.dirname(real),)  # noqa: PTH120  as above
    found = (directory,) if os.path.realpath(directory) == directory else ()
    return (*found, real) if is_program(real) else found


@lru_cache(maxsize=64)
def _allowing(policy: Policy, ro: tuple[str, ...], rox: tuple[str, ...], real: tuple[str, ...]) -> Policy:
    """The policy with more paths; of the `real` ones no link is followed."""
    files = policy.filesystem
    added = replace(files, ro=files.ro + ro, rox=files.rox + rox)
    return replace(policy, filesystem=added, real=policy.real + real)


def _environment(call: Call, policy: Policy, settings: Settings) -> dict[str, str]:
    """The allow-listed variables of the server and of the request, and who the tool runs for."""
    given = str(broker.DESCRIPTOR) if settings.olliesrv and call.agent else ""
    own = dict(zip(OWN_VARIABLES, (str(settings.tmpdir), call.session, call.agent, given), strict=True))
    return environment(policy, {**os.environ, **call.env}, {key: value for key, value in own.items() if value})


def _timeout_s(tool: ToolInfo, asked_s: float | None, settings: Settings, *, background: bool) -> float | None:
    """The call's own limit, else the tool's, else the server's; without one of the call a background run has none."""
    if asked_s is not None:
        return min(asked_s, settings.timeout_max_s)
    return None if background else tool.timeout_s or settings.timeout_s
