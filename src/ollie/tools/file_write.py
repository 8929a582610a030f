"""file_write: a whole file, or more at the end of one."""

import os
import sys

from ollie.tools import files, program
from ollie.tools.program import Arguments, ToolError

_BEGINNING_BYTES = 64 * 1024


def main() -> int:
    """Run the tool."""
    return program.run(write)


def write(arguments: Arguments) -> str:
    """Make `content` the content of the file `path`, with the directories above it.

    A file that has something already is replaced with `overwrite` only. With `append` the content is added to it, on a
    line of its own and with its line ends.
    """
    path = files.located(arguments["path"])
    data = files.encoded("content", arguments["content"])
    append, overwrite = bool(arguments.get("append")), bool(arguments.get("overwrite"))
    if append and overwrite:
        raise ToolError("append and overwrite exclude one another")
    if path.endswith("/"):
        raise ToolError(f"{path}: is the name of a directory; add the file's name")
    before = _size(path)
    if before and append:
        return _append(path, data)
    if before and not overwrite:
        raise ToolError(
            f"{path}: nothing was written, since it has {before} bytes already; "
            f"to add to it use append, or in the shell: echo TEXT >> {path}; "
            "to change a part of it use file_edit; to replace all of it use overwrite"
        )
    os.makedirs(os.path.dirname(os.path.realpath(path)), exist_ok=True)
    files.replace(path, data)
    was = "a new file" if before is None else f"it had {before}"
    return f"wrote {len(data)} bytes to {path}; {was}\n"


def _append(path: str, data: bytes) -> str:
    """Add to a file that has something; nothing of what it has is touched."""
    with open(path, "r+b") as file:
        beginning = file.read(_BEGINNING_BYTES)
        end = file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n" and data:
            data = b"\n" + data
        data = files.returned(data) if files.has_returns(beginning) else data
        file.write(data)
    return f"added {len(data)} bytes to {path}; it had {end + 1}\n"


def _size(path: str) -> int | None:
    """The size of the file in bytes, None when there is none yet."""
    if not os.path.exists(path):
        return None
    return files.status(path).st_size


if __name__ == "__main__":
    sys.exit(main())
