"""file_write: a whole file."""

import os
import sys

from ollie.tools import files, program
from ollie.tools.program import Arguments, ToolError


def main() -> int:
    """Run the tool."""
    return program.run(write)


def write(arguments: Arguments) -> str:
    """Make `content` the content of the file `path`, with the directories above it; says what was there before."""
    path = files.located(arguments["path"])
    data = files.encoded("content", arguments["content"])
    if path.endswith("/"):
        raise ToolError(f"{path}: is the name of a directory; add the file's name")
    before = _size(path)
    directory = os.path.dirname(os.path.realpath(path))
    os.makedirs(directory, exist_ok=True)
    files.replace(path, data)
    was = "a new file" if before is None else f"it had {before}"
    return f"wrote {len(data)} bytes to {path}; {was}\n"


def _size(path: str) -> int | None:
    """The size of the file in bytes, None when there is none yet."""
    if not os.path.exists(path):
        return None
    return files.status(path).st_size


if __name__ == "__main__":
    sys.exit(main())
