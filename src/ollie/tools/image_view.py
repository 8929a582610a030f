"""image_view: an image file, for a model that can see."""

import binascii
import json
import struct
import sys

from ollie.tools import files, program
from ollie.tools.program import Arguments, ToolError

LIMIT_BYTES = 5 * 1024 * 1024
"""What the providers of models take."""


def main() -> int:
    """Run the tool."""
    return program.run(view)


def view(arguments: Arguments) -> str:
    """A ToolResult with the image `path` and a line about it."""
    path = files.located(arguments["path"])
    size = files.status(path).st_size
    if size > LIMIT_BYTES:
        raise ToolError(f"{path}: has {size} bytes, more than {LIMIT_BYTES}; make it smaller first")
    with open(path, "rb") as file:
        data = file.read(LIMIT_BYTES)
    media_type, extent = described(data)
    if not media_type:
        raise ToolError(f"{path}: not a PNG, JPEG, GIF or WebP image")
    about = f"{path}: {media_type}, {extent}{len(data)} bytes"
    image = {"type": "image", "data": binascii.b2a_base64(data, newline=False).decode(), "mimeType": media_type}
    return json.dumps({"content": [{"type": "text", "text": about}, image]})


def described(data: bytes) -> tuple[str, str]:
    """The media type of an image by its first bytes, and its extent as `640x480, `; empty where they are not known."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return "image/png", _extent(*struct.unpack_from(">II", data, 16))
        if data.startswith((b"GIF87a", b"GIF89a")):
            return "image/gif", _extent(*struct.unpack_from("<HH", data, 6))
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return "image/webp", ""
        if data.startswith(b"\xff\xd8\xff"):
            return "image/jpeg", _jpeg_extent(data)
    except struct.error:  # cut off in its first bytes: nothing that could be shown
        pass
    return "", ""


def _jpeg_extent(data: bytes) -> str:
    """From the frame header (SOF), which follows any number of other segments (ITU-T T.81, B.1)."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], struct.unpack_from(">H", data, at + 2)[0]
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return _extent(width, height)
        at += 2 + length
    return ""


def _extent(width: int, height: int) -> str:
    return f"{width}x{height}, "


if __name__ == "__main__":
    sys.exit(main())
