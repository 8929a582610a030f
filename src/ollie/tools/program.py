"""What the tools written in Python have in common: arguments in, text out, errors as one line."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

Arguments = Mapping[str, Any]
_LONGEST = 2000


class ToolError(Exception):
    """The call cannot be done; its text tells the model why, and what to do instead."""


def run(tool: Callable[[Arguments], str]) -> int:
    """Call `tool` with the arguments on standard input and print what it returns; the exit status.

    The arguments have been checked against the tool's schema already, and defaults are filled in.
    """
    try:
        text = tool(json.loads(sys.stdin.read()))
        sys.stdout.write(text)
        sys.stdout.flush()
    except ToolError as error:
        return _fail(str(error))
    except OSError as error:
        # The system's own words, and the whole path: what the sandbox refused is explained by them.
        where = f"{os.path.abspath(error.filename)}: " if isinstance(error.filename, str) else ""
        return _fail(f"{where}{error.strerror or error}")
    return 0


def _fail(text: str) -> int:
    if len(text) > _LONGEST:  # it names what it was given, and that may be anything
        text = f"{text[: _LONGEST // 2]} […] {text[-_LONGEST // 2 :]}"
    print(text.encode(errors="replace").decode(), file=sys.stderr)  # noqa: T201  a tool prints
    return 1
