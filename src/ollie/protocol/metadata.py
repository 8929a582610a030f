"""Tools: what their metadata says, and how a call of one becomes a process.

    name: grep
    description: Search file contents with a regular expression.
    input: {type: object, properties: {pattern: {type: string}}, required: [pattern]}
    effect: read
    variants:
      - when: {has: rg}
        command: rg -n -- {pattern}
      - command: grep -rnE -- {pattern} .

A tool runs in one of three ways. `command` is shell text with arguments in it (see `template`), run by `shell` (sh when
not given). Without it, the executable beside the metadata is started and finds its arguments as JSON on standard input.
`python` names a module of Ollie's own that the launcher calls in a restricted child, without a new interpreter: its
`main()` finds its arguments as JSON on standard input, writes to standard output, and returns the exit status.
"""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from ninep.errors import unknown
from ollie.protocol import yaml_text
from ollie.protocol.host import Host, HostError
from ollie.protocol.payload import DISPATCH, Call, Dispatch, take_dispatch
from ollie.protocol.schema import ArgumentError, Schema, SchemaError
from ollie.protocol.template import Template, TemplateError

__all__ = ["ArgumentError", "Command", "Host", "Invocation", "MetadataError", "Python", "Script", "ToolInfo", "parse"]

# Linux takes at most 128 KiB in one argument (MAX_ARG_STRLEN, execve(2)).
_ARGUMENT_BYTES = 120 * 1024
_READ_SCRIPT = 'eval "$(cat)"'
# What a model is told about a tool with `background: true`.
_BACKGROUND = {"type": "boolean", "description": "do not wait: get its pid now, and a message when it has ended"}

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_MODULE = re.compile(r"ollie\.tools\.[a-z_]+")
_KEYS = (
    "name",
    "description",
    "input",
    "effect",
    "timeout_s",
    "sandbox",
    "output",
    "background",
    "variants",
    "command",
    "shell",
    "python",
)


class MetadataError(ValueError):
    """Metadata that cannot be used; its text says which key and why."""


@dataclass(frozen=True, slots=True)
class Command:
    """Shell text with arguments in it; `shell` is the path of what runs it."""

    template: Template
    shell: str


@dataclass(frozen=True, slots=True)
class Script:
    """An executable that reads its arguments as JSON; `argv` starts it."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Python:
    """A module of Ollie with a `main()`."""

    module: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call, ready to be started.

    Args:
        argv: what to start as a process.
        call: `module:function` that does the same in the launcher's restricted child, None where there is none.
        stdin: what it reads on standard input, before end of file.
        command: the same for people: what an approval is asked for, and what process tables show.
    """

    argv: tuple[str, ...]
    call: str | None
    stdin: bytes
    command: str


@dataclass(frozen=True, slots=True, eq=False)
class ToolInfo:
    """A tool that this host offers.

    Args:
        name: what the model calls it.
        description: what the model is told about it.
        schema: what it takes.
        effect: `read` when calls may run side by side, else `write`.
        timeout_s: seconds after which a call is ended, None for the server's own limit.
        sandbox: name of the policy that it runs under.
        output: `text`, or `blocks` when it prints a ToolResult.
        background: whether the model is told that it may run in the background.
        run: how it is started.
        path: the file that its metadata is in.
    """

    name: str
    description: str
    schema: Schema
    effect: str
    timeout_s: float | None
    sandbox: str
    output: str
    background: bool
    run: Command | Script | Python
    path: str

    @property
    def input_schema(self) -> dict[str, object]:
        """The JSON Schema of its arguments, with what the model may say about how they are run."""
        if not self.background:
            return self.schema.source
        return {**self.schema.source, "properties": {**self.schema.properties, "background": _BACKGROUND}}

    def public(self) -> dict[str, object]:
        """What a model's request says about it."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            "effect": self.effect,
        }

    def request(self, call: Call) -> tuple[Dispatch, dict[str, object]]:
        """The dispatch fields of a call, and its arguments, checked.

        Raises:
            PayloadError: for a dispatch field of the wrong kind.
            ArgumentError: for arguments that the tool does not take.
        """
        dispatch, rest = take_dispatch({**call.args, **call.fields})
        args = {name: value for name, value in call.args.items() if name in rest}
        fields = {name: text for name, text in call.fields.items() if name in rest}
        return dispatch, self.arguments(args, fields)

    def arguments(self, args: Mapping[str, object], fields: Mapping[str, str]) -> dict[str, object]:
        """Arguments from JSON and from text, the latter converted and winning, with defaults, checked.

        Raises:
            ArgumentError: with the name of the argument and what is wrong with it.
        """
        return self.schema.check({**args, **self.schema.convert(fields)})

    def invocation(self, arguments: Mapping[str, object]) -> Invocation:
        """How to start a call with these arguments.

        Raises:
            ArgumentError: `argument … contains a NUL`, `argument … is not unicode`, in a command.
        """
        match self.run:
            case Command(template, shell):
                return _shell(shell, template, arguments)
            case Script(argv):
                data = json.dumps(arguments)
                return Invocation(argv, None, data.encode(), f"{argv[-1]} {data}")
            case Python(module):
                data = json.dumps(arguments)
                # Isolated: a module of that name in the working directory must not be taken for ours.
                argv = (sys.executable, "-I", "-m", module)
                return Invocation(argv, f"{module}:main", data.encode(), f"{self.name} {data}")


def parse(
    text: str, path: str, name: str, host: Host, *, trusted: bool = False, executable: str | None = None
) -> ToolInfo | None:
    """The tool that metadata describes; None when it has variants and none of them fits the host.

    Args:
        text: YAML.
        path: the file that it is from.
        name: the name that the file has; metadata may repeat it, not change it.
        host: what variants, shells and interpreters are looked up on.
        trusted: it ships with Ollie, so it may name modules of Ollie.
        executable: the file beside it that runs when there is neither `command` nor `python`.

    Raises:
        MetadataError: with the key and what is wrong with it.
    """
    try:
        values = _chosen(_mapping(text), host)
        if values is None:
            return None
        schema = Schema(values.get("input"))
        return ToolInfo(
            name=_name(values, name),
            description=_description(values),
            schema=_without_dispatch(schema),
            effect=_one_of(values, "effect", "write", "read"),
            timeout_s=_timeout(values),
            sandbox=_text(values, "sandbox") or "default",
            output=_one_of(values, "output", "text", "blocks"),
            background=_flag(values, "background"),
            run=_run(values, schema, host, trusted=trusted, executable=executable),
            path=path,
        )
    except (HostError, SchemaError, TemplateError) as error:
        raise MetadataError(str(error)) from None


def block(source: str) -> str | None:
    """The YAML between two lines `---` in the leading comment of a script, None when there is none.

    Raises:
        MetadataError: when the second line is missing.
    """
    found: list[str] | None = None
    for line in source.splitlines():
        comment = re.match(r"\s*(?:#|//|--|;|%)\s?(.*)", line)
        if comment is None:
            if found is None and not line.strip():
                continue
            break
        text = comment[1]
        if text.strip() != "---":
            if found is not None:
                found.append(text)
        elif found is None:
            found = []
        else:
            return "\n".join(found)
    if found is not None:
        raise MetadataError("metadata in the leading comment does not end with ---")
    return None


def _shell(shell: str, template: Template, arguments: Mapping[str, object]) -> Invocation:
    try:
        script = template.render(arguments)
        # What `eval` gets as one word is what is run, word for word; people need not see it quoted.
        shown = arguments.get(template.evaluated, script) if template.evaluated else script
    except TemplateError as error:
        raise ArgumentError(str(error)) from None
    data = script.encode()
    if len(data) < _ARGUMENT_BYTES:
        return Invocation((shell, "-c", script), None, b"", str(shown))
    # Too long for an argument: it is read first, and what it starts finds end of file as always.
    return Invocation((shell, "-c", _READ_SCRIPT), None, data, str(shown))


def _mapping(text: str) -> dict[str, object]:
    try:
        values = yaml_text.load(text)
    except yaml_text.YamlError as error:
        raise MetadataError(f"metadata is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise MetadataError("metadata is not a mapping")
    return _known(values)


def _known(values: Mapping[object, object]) -> dict[str, object]:
    for key in values:
        if key not in _KEYS:
            raise MetadataError(unknown("key in metadata", str(key), _KEYS))
    return {str(key): value for key, value in values.items()}


def _chosen(values: dict[str, object], host: Host) -> dict[str, object] | None:
    """The values with those of the first variant that fits."""
    variants = values.pop("variants", None)
    if variants is None:
        return values
    if not isinstance(variants, list) or not all(isinstance(variant, dict) for variant in variants):
        raise MetadataError("variants is not a list of mappings")
    for variant in variants:
        when = variant.get("when") or {}
        if not isinstance(when, dict):
            raise MetadataError("when is not a mapping")
        if host.fits(when):
            return values | _known({key: value for key, value in variant.items() if key != "when"})
    return None


def _run(
    values: Mapping[str, object], schema: Schema, host: Host, *, trusted: bool, executable: str | None
) -> Command | Script | Python:
    command, module = _text(values, "command"), _text(values, "python")
    if command and module:
        raise MetadataError("command and python exclude each other")
    if command:
        return Command(Template(command.strip(), schema.properties), host.find(_text(values, "shell") or "sh"))
    if module:
        if not trusted:
            raise MetadataError("python is for tools that ship with ollie; use command, or an executable")
        if not _MODULE.fullmatch(module):
            raise MetadataError(f"python is not a module of ollie.tools: {module}")
        return Python(module)
    if executable is None:
        raise MetadataError("nothing to run: no command, and no executable of that name beside it")
    return Script(host.start(executable))


def _name(values: Mapping[str, object], name: str) -> str:
    given = values.get("name", name)
    if given != name:
        raise MetadataError(f"name is {given}, but the file is called {name}: rename one of them")
    if not _NAME.fullmatch(name):
        raise MetadataError(f"not a name for a tool: {name}; use up to 64 letters, digits, _ and -")
    return name


def _description(values: Mapping[str, object]) -> str:
    text = _text(values, "description")
    if not text or not text.strip():
        raise MetadataError("description is missing: the model needs it")
    return text.strip()


def _without_dispatch(schema: Schema) -> Schema:
    taken = [name for name in DISPATCH if name in schema.properties]
    if taken:
        raise MetadataError(f"argument {taken[0]} would never reach the tool: rename it")
    return schema


def _one_of(values: Mapping[str, object], key: str, *allowed: str) -> str:
    value = values.get(key, allowed[0])
    if value not in allowed:
        raise MetadataError(f"{key} is {value}; use {' or '.join(allowed)}")
    return str(value)


def _flag(values: Mapping[str, object], key: str) -> bool:
    value = values.get(key, False)
    if not isinstance(value, bool):
        raise MetadataError(f"{key} is {value}; use true or false")
    return value


def _timeout(values: Mapping[str, object]) -> float | None:
    value = values.get("timeout_s")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise MetadataError(f"timeout_s is not a number of seconds: {value}")
    return float(value)


def _text(values: Mapping[str, object], key: str) -> str | None:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise MetadataError(f"{key} is not text: {value}")
    return value
