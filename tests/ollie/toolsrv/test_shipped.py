"""Tools that ship and need more than files, through the sandbox."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from serving import ToolServer, call, load
from website import Answer, Authority, serving

from ollie.protocol.policy_files import SHIPPED
from ollie.protocol.result import ImageContent

PAGE = b"<title>Page</title><p>Text with <a href='/x'>a link</a>"
IMAGE = b"GIF89a\x02\0\x01\0\0\0\0;"


@pytest.fixture
async def site() -> Iterator[str]:
    """A server that gives everybody the same page."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(PAGE)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + PAGE)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_fetch_reaches_what_its_sandbox_lets_it(toolsrv: ToolServer, agent: str, site: str) -> None:
    """A page with the network on; with it off an error, which the policy explains."""
    async with await toolsrv.client() as client:
        await load(client, agent, "fetch")
        assert (await call(client, agent, "fetch", url=f"{site}/")).text == f"Page\n\nText with a link <{site}/x>\n"
        refused = await call(client, agent, "fetch", url=f"{site}/", sandbox="strict")
        assert refused.is_error
        assert f"{site}/: Permission denied" in refused.text
        assert "sandbox policy" in refused.text


async def test_a_site_that_never_ends_is_ended_with_the_call(toolsrv: ToolServer, agent: str) -> None:
    """One that always sends a little more, too little for what `fetch` waits for itself; the result says so."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        hung_up = asyncio.ensure_future(reader.read())
        while not (await asyncio.wait({hung_up}, timeout=0.01))[0]:
            writer.write(b".")
        with contextlib.suppress(ConnectionError):
            await hung_up
        writer.close()

    site = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with site, await toolsrv.client() as client:
        await load(client, agent, "fetch")
        url = f"http://127.0.0.1:{site.sockets[0].getsockname()[1]}/"
        given = await call(client, agent, "fetch", url=url, timeout="1")
    assert given.is_error
    assert given.text == "timed out after 1 s"


async def test_fetch_trusts_whom_its_policy_names(start: Callable[..., ToolServer], tmp_path: Path) -> None:
    """SSL_CERT_FILE comes through the policy's `env`; without it the site is refused with that remedy."""
    authority = Authority(tmp_path)
    server = start()
    (server.work / "ca.pem").write_bytes(authority.file.read_bytes())
    policy = yaml.safe_load((SHIPPED / "default.yaml").read_text())
    (tmp_path / "config/sandbox").mkdir(parents=True)
    (tmp_path / "config/sandbox/trusting.yaml").write_text(
        yaml.safe_dump(policy | {"env": [f"SSL_CERT_FILE={server.work}/ca.pem"]})
    )
    answers: dict[str, Answer] = {"/": (200, {"Content-Type": "text/plain"}, b"secret\n")}
    async with await server.client() as client:
        await load(client, "me", "fetch")
        with serving(answers, authority.context("IP:127.0.0.1")) as url:
            refused = await call(client, "me", "fetch", url=f"{url}/")
            given = await call(client, "me", "fetch", url=f"{url}/", **{"agent.sandbox": "trusting"})
    assert refused.is_error
    assert "name its authority in SSL_CERT_FILE, in env of the sandbox policy" in refused.text
    assert given.text == "secret\n"


async def test_image_view_shows_what_its_sandbox_lets_it_read(toolsrv: ToolServer, agent: str) -> None:
    """An image in the working directory; one elsewhere is refused."""
    (toolsrv.work / "x.gif").write_bytes(IMAGE)
    (toolsrv.home / "x.gif").write_bytes(IMAGE)
    async with await toolsrv.client() as client:
        await load(client, agent, "image_view")
        given = await call(client, agent, "image_view", path="x.gif")
        assert given.text == f"x.gif: image/gif, 2x1, {len(IMAGE)} bytes"
        assert given.content[1] == ImageContent(IMAGE, "image/gif")
        refused = await call(client, agent, "image_view", path="../x.gif")
        assert refused.is_error
        assert not [part for part in refused.content if isinstance(part, ImageContent)]


def content(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


LINKED = [
    ("file_read", {"path": "link"}),
    ("file_read", {"path": "out/secret"}),
    ("file_edit", {"path": "link", "old": "key", "new": "x"}),
    ("file_edit", {"path": "out/secret", "old": "key", "new": "x"}),
    ("file_write", {"path": "link", "content": "x", "overwrite": True}),
    ("file_write", {"path": "link", "content": "x", "append": True}),
    ("file_write", {"path": "out/new", "content": "x"}),
    ("file_write", {"path": "gone", "content": "x"}),
    ("image_view", {"path": "link"}),
    ("glob", {"pattern": "out/*"}),
    ("grep", {"pattern": "key", "path": "out"}),
    ("grep", {"pattern": "key", "path": "link"}),
]


@pytest.mark.parametrize(("tool", "arguments"), LINKED)
async def test_links_out_of_the_sandbox(
    toolsrv: ToolServer, agent: str, tmp_path: Path, tool: str, arguments: dict[str, object]
) -> None:
    """A link is followed only to what the policy allows: nothing there is read, written or made."""
    (tmp_path / "secret").write_text("key")
    links = {"link": tmp_path / "secret", "out": tmp_path, "gone": tmp_path / "new"}
    for name, target in links.items():
        (toolsrv.work / name).unlink(missing_ok=True)
        (toolsrv.work / name).symlink_to(target)
    async with await toolsrv.client() as client:
        await load(client, agent, tool)
        given = await call(client, agent, tool, args=json.dumps(arguments))
    assert "denied" in given.text
    assert "key" not in given.text.replace("filesystem", "")
    assert content(tmp_path) == {"secret": "key"}
    for name in links:
        (toolsrv.work / name).unlink()
