"""Tools that ship and need more than files, through the sandbox."""

import asyncio
from collections.abc import Iterator

import pytest
from serving import ToolServer, call, load

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
