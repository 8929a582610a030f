"""image_view: images of each kind, and what is none."""

import base64
import json
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ollie.protocol import result
from ollie.protocol.result import ImageContent, TextContent
from ollie.tools.image_view import LIMIT_BYTES, described

Call = Callable[..., subprocess.CompletedProcess[str]]


def png(width: int, height: int) -> bytes:
    """A black picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


JPEG = b"\xff\xd8\xff\xe0\0\x04ab" + b"\xff\xc0\0\x11\x08\0\x20\0\x40\x03" + b"\0" * 9


def test_an_image_is_given_to_the_model(call: Call, work: Path) -> None:
    """A ToolResult with a line about it and the image itself."""
    data = png(3, 2)
    (work / "x.png").write_bytes(data)
    done = call("image_view", path="x.png")
    assert result.from_json(done.stdout).content == (
        TextContent(f"x.png: image/png, 3x2, {len(data)} bytes"),
        ImageContent(data, "image/png"),
    )
    assert base64.b64decode(json.loads(done.stdout)["content"][1]["data"]) == data


@pytest.mark.parametrize(
    ("data", "kind", "extent"),
    [
        (png(640, 480), "image/png", "640x480, "),
        (b"GIF89a\x02\0\x01\0...", "image/gif", "2x1, "),
        (JPEG, "image/jpeg", "64x32, "),
        (JPEG[:8], "image/jpeg", ""),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp", ""),
        (b"\x89PNG\r\n\x1a\n", "", ""),
        (b"GIF89a", "", ""),
        (b"RIFF\x10\0\0\0WAVE", "", ""),
        (b"<svg>", "", ""),
        (b"", "", ""),
    ],
)
def test_images_are_known_by_their_first_bytes(data: bytes, kind: str, extent: str) -> None:
    """Not by their names."""
    assert described(data) == (kind, extent)


def test_what_is_no_image(call: Call, work: Path) -> None:
    """One line that says so."""
    (work / "x.png").write_text("text")
    assert call("image_view", path="x.png").stderr == "x.png: not a PNG, JPEG, GIF or WebP image\n"
    assert "no such file" in call("image_view", path="y.png").stderr
    (work / "big.png").write_bytes(png(1, 1) + b"\0" * LIMIT_BYTES)
    done = call("image_view", path="big.png")
    assert done.returncode == 1
    assert "make it smaller first" in done.stderr
