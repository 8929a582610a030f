"""Tools from metadata: what is understood, what is refused, and how a call is started."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.protocol import payload
from ollie.protocol.metadata import (
    ArgumentError,
    Command,
    Host,
    MetadataError,
    Python,
    Script,
    ToolInfo,
    block,
    parse,
)

_HOST = Host("linux", "x86_64", "/usr/bin:/bin")
_GREP = """
name: grep
description: |
  Search.
input:
  type: object
  properties:
    pattern: {type: string}
    path: {type: string, default: "."}
    limit: {type: integer}
  required: [pattern]
effect: read
timeout_s: 60
sandbox: strict
output: text
variants:
  - when: {has: no-such-program}
    command: no-such-program {pattern}
  - when: {platform: linux}
    description: Search on Linux.
    command: grep -rn -- {pattern} {path}
"""


def _parse(text: str, *, trusted: bool = False, executable: str | None = None, name: str = "t") -> ToolInfo | None:
    return parse(text, f"/tools/{name}.yaml", name, _HOST, trusted=trusted, executable=executable)


def _tool(text: str, *, trusted: bool = False, executable: str | None = None, name: str = "t") -> ToolInfo:
    found = _parse(text, trusted=trusted, executable=executable, name=name)
    assert found is not None
    return found


def test_everything() -> None:
    """Every key is understood, and the first variant that fits overrides."""
    tool = _tool(_GREP, name="grep")
    assert (tool.name, tool.description, tool.effect, tool.timeout_s) == ("grep", "Search on Linux.", "read", 60.0)
    assert (tool.sandbox, tool.output, tool.path) == ("strict", "text", "/tools/grep.yaml")
    assert tool.invocation({"pattern": "a b", "path": "."}).command == "grep -rn -- 'a b' ."
    assert tool.public() == {
        "name": "grep",
        "description": "Search on Linux.",
        "effect": "read",
        "input_schema": {
            "type": "object",
            "properties": {
                "pattern": {"type": "string"},
                "path": {"type": "string", "default": "."},
                "limit": {"type": "integer"},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
    }


def test_defaults() -> None:
    """What is not said is the careful choice."""
    tool = _tool("{description: Does, command: 'true'}")
    assert (tool.name, tool.effect, tool.timeout_s, tool.sandbox, tool.output) == (
        "t",
        "write",
        None,
        "default",
        "text",
    )
    assert isinstance(tool.run, Command)
    assert tool.run.shell == _HOST.find("sh")


def test_no_variant_fits() -> None:
    """A tool none of whose variants fits does not exist on this host."""
    assert _parse("{description: d, variants: [{when: {platform: plan9}, command: rc}]}") is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "metadata is not a mapping"),
        ("- a", "metadata is not a mapping"),
        ("a: [", "metadata is not YAML: "),
        ("!!python/object/apply:os.system [id]", "metadata is not YAML: "),
        ("{description: d, command: c, colour: red}", "unknown key in metadata: colour (known: name description"),
        ("{description: d, command: c, name: other}", "name is other, but the file is called t: rename one of them"),
        ("{command: c}", "description is missing: the model needs it"),
        ("{description: '  ', command: c}", "description is missing: the model needs it"),
        ("{description: 5, command: c}", "description is not text: 5"),
        ("{description: d}", "nothing to run: no command, and no executable of that name beside it"),
        ("{description: d, command: c, effect: none}", "effect is none; use write or read"),
        ("{description: d, command: c, output: json}", "output is json; use text or blocks"),
        ("{description: d, command: c, timeout_s: soon}", "timeout_s is not a number of seconds: soon"),
        ("{description: d, command: c, timeout_s: 0}", "timeout_s is not a number of seconds: 0"),
        ("{description: d, command: c, timeout_s: .inf}", "timeout_s is not a number of seconds: inf"),
        ("{description: d, command: c, timeout_s: true}", "timeout_s is not a number of seconds: True"),
        ("{description: d, command: c, input: {type: string}}", "input is not a schema of type object"),
        ("{description: d, command: c, input: {properties: {timeout: {}}}}", "argument timeout would never reach"),
        (
            "{description: d, command: \"'{a}'\", input: {properties: {a: {}}}}",
            "{a} is within quotes, but it is quoted",
        ),
        ("{description: d, command: c, shell: no-such-shell}", "program not found: no-such-shell"),
        ("{description: d, command: c, python: ollie.tools.glob}", "command and python exclude each other"),
        ("{description: d, python: ollie.tools.glob}", "python is for tools that ship with ollie; use command"),
        ("{description: d, variants: {a: b}}", "variants is not a list of mappings"),
        ("{description: d, variants: [{when: linux, command: c}]}", "when is not a mapping"),
        ("{description: d, variants: [{when: {os: linux}, command: c}]}", "unknown condition in when: os"),
        ("{description: d, variants: [{comand: c}]}", "unknown key in metadata: comand"),
    ],
)
def test_refused(text: str, error: str) -> None:
    """Metadata that is wrong is refused, with the key and the reason."""
    with pytest.raises(MetadataError) as caught:
        _parse(text)
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize("name", ["9lives", "a b", "a.b", "x" * 65, "é"])
def test_bad_names(name: str) -> None:
    """A name that models or paths could not carry is refused."""
    with pytest.raises(MetadataError, match="not a name for a tool"):
        _parse("{description: d, command: c}", name=name)


def test_python() -> None:
    """Tools that ship run in the launcher's child, or as a process of their own that imports nothing from its cwd."""
    tool = _tool("{description: d, python: ollie.tools.glob}", trusted=True)
    assert tool.run == Python("ollie.tools.glob")
    invocation = tool.invocation({"pattern": "é"})
    assert invocation.call == "ollie.tools.glob:main"
    assert invocation.argv == (sys.executable, "-I", "-m", "ollie.tools.glob")
    assert json.loads(invocation.stdin) == {"pattern": "é"}
    assert invocation.command == 't {"pattern": "\\u00e9"}'


@pytest.mark.parametrize("module", ["os", "ollie.tools.glob:main", "ollie.tools..x", "ollie.toolsrv"])
def test_python_is_ours(module: str) -> None:
    """Only modules of the shipped tools can be named, even by shipped metadata."""
    with pytest.raises(MetadataError, match=r"python is not a module of ollie\.tools"):
        _parse(f"{{description: d, python: '{module}'}}", trusted=True)


def test_script(tmp_path: Path) -> None:
    """An executable is started through its interpreter and finds its arguments on standard input."""
    script = tmp_path / "t"
    script.write_text("#!/bin/sh\ncat; echo; pwd\n")
    tool = _tool("{description: d, input: {properties: {a: {}}}}", executable=str(script))
    assert tool.run == Script(("/bin/sh", str(script)))
    invocation = tool.invocation({"a": "it's"})
    assert invocation.call is None
    assert invocation.command == f'{script} {{"a": "it\'s"}}'
    done = subprocess.run(invocation.argv, input=invocation.stdin, capture_output=True, check=True, cwd="/")
    assert done.stdout == b'{"a": "it\'s"}\n/\n'


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("size", [0, 1, 120 * 1024, 128 * 1024, 2**20])
def test_commands_of_any_size(shell: str, size: int) -> None:
    """A command too long for one argument runs all the same, and finds end of file on its input."""
    tool = _tool(
        f'{{description: d, shell: {shell}, command: "printf %s {{a}} | wc -c; cat; echo end", '
        "input: {properties: {a: {type: string}}}}"
    )
    invocation = tool.invocation({"a": "'" * (size // 100) + "x" * (size - size // 100)})
    done = subprocess.run(invocation.argv, input=invocation.stdin, capture_output=True, check=True)
    assert done.stdout.split() == [str(size).encode(), b"end"]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_arguments_by_field(value: str) -> None:
    """An argument that travels as a field of a payload arrives as it was."""
    tool = _tool(_GREP, name="grep")
    call = payload.call(payload.parse(payload.format({"tool": "grep", "pattern": value})))
    assert tool.request(call)[1] == {"pattern": value, "path": "."}


def test_request() -> None:
    """Fields override `args`, are converted, and dispatch fields are taken out of both."""
    tool = _tool(_GREP, name="grep")
    fields = {
        "args": '{"pattern": "a", "path": "x", "bypass": true, "timeout": 9}',
        "path": "y",
        "limit": "5",
        "timeout": "3",
    }
    dispatch, arguments = tool.request(payload.call(fields))
    assert dispatch == payload.Dispatch(bypass=True, timeout_s=3.0, sandbox=None)
    assert arguments == {"pattern": "a", "path": "y", "limit": 5}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "missing argument: pattern"),
        ({"pattern": "x", "limit": "many"}, "argument limit must be integer: many"),
        ({"pattern": "x", "colour": "red"}, "unknown argument: colour (known: pattern path limit)"),
    ],
)
def test_request_refuses(fields: dict[str, str], text: str) -> None:
    """Arguments are checked before anything runs."""
    with pytest.raises(ArgumentError) as caught:
        _tool(_GREP, name="grep").request(payload.call(fields))
    assert str(caught.value) == text


def test_nul_in_a_command() -> None:
    """What a command line cannot carry is refused."""
    with pytest.raises(ArgumentError, match="argument pattern contains a NUL"):
        _tool(_GREP, name="grep").invocation({"pattern": "a\0b"})


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("#!/bin/sh\n# ---\n# a: 1\n# b:\n#   c: 2\n# ---\necho\n", "a: 1\nb:\n  c: 2"),
        ("#!/usr/bin/env node\n// A tool.\n// ---\n// a: 1\n// ---\n", "a: 1"),
        ("\n-- ---\n-- a: 1\n-- ---\n", "a: 1"),
        ("#---\n#a: 1\n#---\n", "a: 1"),
        ("#!/bin/sh\necho\n# ---\n# a: 1\n# ---\n", None),
        ("#!/bin/sh\n# just a comment\n", None),
        ("", None),
        ("\x7fELF\0\0", None),
    ],
)
def test_block(source: str, text: str | None) -> None:
    """Metadata is found in the leading comment only, in any of the usual comment signs."""
    assert block(source) == text


@pytest.mark.parametrize("source", ["# ---\n# a: 1\n", "# ---\n# a: 1\n\n# ---\n", "# ---\necho\n# ---\n"])
def test_block_without_end(source: str) -> None:
    """A block that does not end within the comment is an error."""
    with pytest.raises(MetadataError, match="does not end with ---"):
        block(source)


def test_a_tool_for_the_background() -> None:
    """The model is told that it may say so; the tool itself never sees it."""
    text = "description: x\ninput: {properties: {cmd: {type: string}}}\nbackground: true\ncommand: eval {cmd}\n"
    tool = _tool(text, name="shell")
    properties = tool.public()["input_schema"]["properties"]
    assert list(properties) == ["cmd", "background"]
    assert properties["background"]["type"] == "boolean"
    dispatch, arguments = tool.request(payload.call({"args": '{"cmd": "x", "background": true}'}))
    assert dispatch.background
    assert arguments == {"cmd": "x"}
    with pytest.raises(MetadataError, match="background is 1; use true or false"):
        _tool(text.replace("background: true", "background: 1"), name="shell")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("eval -- {cmd}", "echo 'a b'"),
        ("eval {cmd}", "echo 'a b'"),
        ("exec sh -c {cmd}", """exec sh -c 'echo '"'"'a b'"'"''"""),
        ("eval -- {cmd} x", """eval -- 'echo '"'"'a b'"'"'' x"""),
    ],
)
def test_what_people_are_shown(command: str, shown: str) -> None:
    """The script itself where it is evaluated as it is, else the exact command."""
    text = f"description: x\ninput: {{type: object, properties: {{cmd: {{type: string}}}}}}\ncommand: {command}\n"
    assert _tool(text, name="shell").invocation({"cmd": "echo 'a b'"}).command == shown
