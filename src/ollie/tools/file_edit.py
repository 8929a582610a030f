"""file_edit: replace a text in a file."""

import sys

from ollie.tools import files, program
from ollie.tools.program import Arguments, ToolError

LIMIT_BYTES = 64 * 1024 * 1024
_PLACES_SHOWN = 10
_LINES_COMPARED = 5000
_SHOWN_CHARACTERS = 200


def main() -> int:
    """Run the tool."""
    return program.run(edit)


def edit(arguments: Arguments) -> str:
    r"""Replace `old` by `new` in the file `path`: its only occurrence, or all of them with `replace_all`.

    Bytes that are no UTF-8 stay as they are, and so do line ends: where the file has `\r\n`, a newline in the arguments
    means that.
    """
    path = files.located(arguments["path"])
    old, new = files.encoded("old", arguments["old"]), files.encoded("new", arguments["new"])
    if not old:
        raise ToolError(f"old is empty; to add to the file use file_write with append, or: echo TEXT >> {path}")
    if old == new:
        raise ToolError("old and new are the same")
    size = files.status(path).st_size
    if size > LIMIT_BYTES:
        raise ToolError(f"{path}: has {size} bytes, more than {LIMIT_BYTES}; change it with sed in the shell")
    with open(path, "rb") as file:
        data = file.read()
    old, new = _with_line_ends(data, old, new)
    lines = _lines_of(data, old)
    where = _listed(lines)
    if not lines:
        raise ToolError(f"{path}: old does not occur in it{_nearest(data, old)}")
    if len(lines) > 1 and not arguments.get("replace_all", False):
        raise ToolError(f"{path}: old occurs {len(lines)} times, on {where}; give more of the text, or set replace_all")
    if len(lines) == 1 and not arguments.get("replace_all", False) and data.find(old, data.find(old) + 1) >= 0:
        raise ToolError(f"{path}: old occurs twice, overlapping, on {where}; give more of the text, or set replace_all")
    files.replace(path, data.replace(old, new))
    return f"replaced {len(lines)} occurrence{'s' if len(lines) > 1 else ''} in {path}, on {where}\n"


def _with_line_ends(data: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    r"""The arguments with the line ends of the file; of one that mixes them, with those that `old` matches."""
    if b"\r\n" not in data or (not files.has_returns(data) and old in data):
        return old, new
    return files.returned(old), files.returned(new)


def _lines_of(data: bytes, old: bytes) -> list[int]:
    """The line of each occurrence that bytes.replace would find, counted from 1."""
    lines = []
    line, counted = 1, 0
    at = data.find(old)
    while at >= 0:
        line += data.count(b"\n", counted, at)
        counted = at
        lines.append(line)
        at = data.find(old, at + len(old))
    return lines


def _listed(lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:_PLACES_SHOWN]))
    more = f" and {len(lines) - _PLACES_SHOWN} more" if len(lines) > _PLACES_SHOWN else ""
    return f"line{'s' if len(lines) > 1 else ''} {shown}{more}"


def _nearest(data: bytes, old: bytes) -> str:
    """Where the text may have been meant: the same but for white space, or the line that is most like its first."""
    wanted = [" ".join(line.split()) for line in old.decode(errors="replace").splitlines() if line.strip()]
    have = data.decode(errors="replace").splitlines()
    if not wanted:
        return ""
    squeezed = [(number, squeezed) for number, line in enumerate(have, 1) if (squeezed := " ".join(line.split()))]
    texts = [text for _, text in squeezed]
    for at, (number, text) in enumerate(squeezed):
        if text == wanted[0] and texts[at : at + len(wanted)] == wanted:
            return f"; line {number} differs from it in white space only"
    return _like(wanted[0], squeezed[:_LINES_COMPARED], have)


def _like(wanted: str, squeezed: list[tuple[int, str]], have: list[str]) -> str:
    import difflib  # noqa: PLC0415  slow to import, and needed for errors only

    near = difflib.get_close_matches(
        wanted[:_SHOWN_CHARACTERS], [text[:_SHOWN_CHARACTERS] for _, text in squeezed], n=1
    )
    if not near:
        return ""
    number = next(number for number, text in squeezed if text[:_SHOWN_CHARACTERS] == near[0])
    return f"; the line most like its first is {number}: {have[number - 1].strip()[:_SHOWN_CHARACTERS]}"


if __name__ == "__main__":
    sys.exit(main())
