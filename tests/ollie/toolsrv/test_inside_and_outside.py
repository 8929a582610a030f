"""Every tool that ships, with the same arguments in its sandbox and as a plain process: the same result and files."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import ToolServer, load
from website import Answer, serving

from ollie.protocol import payload, result
from ollie.protocol.discovery import Catalog
from ollie.protocol.metadata import ArgumentError, ToolInfo
from ollie.protocol.paths import shipped
from ollie.protocol.terminal import plain

SHIPPED = Catalog([shipped("tools")], shipped("tools")).tools()
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\3"
LONG = 2**20
ANSWERS: dict[str, Answer] = {
    "/": (200, {"Content-Type": "text/html; charset=utf-8"}, "<h1>Café</h1><p>One <b>two</b>".encode()),
    "/none": (404, {}, b""),
}

# What no argument may be taken for.
ODD = {
    "a newline": "one\ntwo",
    "quotes": 'it\'s "so" `\\',
    "a dash": "-rf",
    "two dashes": "--help",
    "a command": "$(touch ran); touch ran & `touch ran`",
    "a NUL": "a\0b",
    "a surrogate": "a\ud800b",
    "unicode": "\N{SNOWMAN}\N{LATIN SMALL LETTER E WITH ACUTE}\u2028",
    "a megabyte": "x" * LONG,
    "nothing": "",
}

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("shell", {"cmd": "pwd; echo out; echo err >&2; printf '%s\n' \"$HOME\"; exit 3"}),
    ("shell", {"cmd": "for n in 1 2; do\n  echo \"it's $n\"\ndone <<'END'\nEND\ncat"}),
    ("shell", {"cmd": "echo more >>new; mkdir -p a/b && mv new a/b/; sort <a/b/new | tr m M"}),
    ("shell", {"cmd": "no-such-command"}),
    ("file_read", {"path": "text"}),
    ("file_read", {"path": "text", "offset": 2, "limit": 1}),
    ("file_read", {"path": "deep/er/crlf"}),
    ("file_read", {"path": "x.png"}),
    ("file_read", {"path": "deep"}),
    ("file_read", {"path": "texd"}),
    ("file_write", {"path": "new/er/file", "content": "a\n"}),
    ("file_write", {"path": "text", "content": "a\n"}),
    ("file_write", {"path": "text", "content": "a\n", "overwrite": True}),
    ("file_write", {"path": "deep/er/crlf", "content": "a\n", "append": True}),
    ("file_edit", {"path": "text", "old": "two", "new": "2"}),
    ("file_edit", {"path": "text", "old": "t", "new": "2"}),
    ("file_edit", {"path": "text", "old": "t", "new": "2", "replace_all": True}),
    ("file_edit", {"path": "deep/er/crlf", "old": "one\ntwo", "new": "2\n3"}),
    ("glob", {"pattern": "**/*"}),
    ("glob", {"pattern": "*.png", "path": "deep"}),
    ("grep", {"pattern": r"t\w+"}),
    ("grep", {"pattern": "[", "path": "deep"}),
    ("grep", {"pattern": "TWO", "ignore_case": True, "glob": "*t"}),
    ("fetch", {"url": "SITE/"}),
    ("fetch", {"url": "SITE/none"}),
    ("fetch", {"url": "http://127.0.0.1:1/"}),
    ("image_view", {"path": "x.png"}),
    ("image_view", {"path": "text"}),
    *(("shell", {"cmd": f"printf %s {value!r} | wc -c"}) for value in ("a'b", "$HOME", "\\n")),
    ("shell", {"cmd": f": {'x' * LONG}; echo done"}),
    *(("shell", {"cmd": odd}) for name, odd in ODD.items() if name not in {"a command", "a megabyte"}),
    *((tool, {"path": odd}) for odd in ODD.values() for tool in ("file_read", "image_view")),
    *(("file_write", {"path": f"odd/{odd}", "content": "x"}) for odd in ODD.values()),
    *(("file_write", {"path": "new", "content": odd}) for odd in ODD.values()),
    *(("file_edit", {"path": "text", "old": "two", "new": odd}) for odd in ODD.values()),
    *(("file_edit", {"path": "text", "old": odd, "new": "x"}) for odd in ODD.values()),
    *(("glob", {"pattern": odd}) for odd in ODD.values()),
    *(("grep", {"pattern": odd, "path": "text"}) for odd in ODD.values()),
    *(("grep", {"pattern": "one", "glob": odd}) for odd in ODD.values()),
    *(("grep", {"pattern": "one", "path": odd}) for odd in ODD.values()),
    *(("fetch", {"url": odd}) for odd in ODD.values()),
    *(("fetch", {"url": f"SITE/{odd}"}) for name, odd in ODD.items() if name != "nothing"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolServer]:
    server = ToolServer(tmp_path_factory.mktemp("toolsrv"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serving(ANSWERS) as url:
        yield url


def fill(work: Path) -> None:
    """The same files again."""
    for path in work.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (work / "deep/er").mkdir(parents=True)
    (work / "text").write_text("one\ntwo\nthree\n")
    (work / "deep/er/crlf").write_bytes(b"one\r\ntwo\r\n")
    (work / "x.png").write_bytes(PNG)


def files(work: Path) -> dict[str, bytes | None]:
    """All that is in a directory."""
    return {str(path.relative_to(work)): path.read_bytes() if path.is_file() else None for path in work.rglob("*")}


def outside(tool: ToolInfo, arguments: dict[str, Any], server: ToolServer) -> str:
    """What a call says as a plain process, written as toolsrv writes it."""
    try:
        invocation = tool.invocation(tool.arguments(arguments, {}))
    except ArgumentError as error:
        return f"{error} True"
    done = subprocess.run(
        invocation.argv,
        input=invocation.stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        cwd=server.work,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(server.home / "home")},
    )
    said = done.stdout
    if tool.output == "blocks" and not done.returncode:
        return shown(result.from_json(said))
    text = plain(said) + (f"exit status {done.returncode}" if done.returncode else "")
    return shown(result.text(text, is_error=done.returncode != 0))


def shown(given: result.ToolResult) -> str:
    """A result as text that can be compared."""
    parts = (part.text if isinstance(part, result.TextContent) else repr(part) for part in given.content)
    return f"{''.join(parts).rstrip()} {given.is_error}"


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=lambda value: repr(value)[:40])
async def test_the_same(name: str, arguments: dict[str, Any], server: ToolServer, site: str) -> None:
    """Result, whether it is an error, and what is in the directory afterwards; and nothing is run by accident."""
    tool = SHIPPED[name]
    assert isinstance(tool, ToolInfo)
    arguments = {key: value.replace("SITE", site) if key == "url" else value for key, value in arguments.items()}
    fill(server.work)
    expected, after = outside(tool, arguments, server), files(server.work)
    fill(server.work)
    request = payload.format({"tool": name, "agent": "me", "args": json.dumps(arguments)})
    async with await server.client() as client:
        await load(client, "me", name)
        given = shown(result.from_json(await client.rdwr("proc/new", request)))
    assert given == expected
    assert files(server.work) == after
    assert "ran" not in after
    assert len(given) < 32 * 1024


def test_every_tool_is_tried() -> None:
    """None is left out."""
    assert {name for name, _ in CALLS} == set(SHIPPED)
