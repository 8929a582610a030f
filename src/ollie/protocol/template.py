"""Commands of tools: shell text in which `{name}` stands for an argument, quoted.

    rg -n {ignore_case:-i} {glob:--glob=} -- {pattern} {path}

* `{name}` becomes the value as one shell word; an array becomes a word for each item, an absent argument nothing.
* `{name:text}` becomes `text` where a boolean argument is true, `text` and the word behind it where another is given,
  and nothing else.

Only the tool's own arguments are replaced; other braces, and `${name}`, are the shell's. An argument must stand where a
quoted word means itself. Where a value could end the quoting (within quotes, backquotes and comments, or behind
constructs whose quoting this module does not follow) the command is refused when it is read: a tool that is listed with
an error is better than one that runs what a model puts into a file name.
"""

import json
import re
import shlex
from collections.abc import Collection, Mapping

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)(?::([A-Za-z0-9_=./,:+@% -]*))?\}")
_HERE_DOCUMENT = re.compile(r"(?<!<)<<(?!<)")
_EVALUATED = re.compile(r"eval (?:-- )?\{([A-Za-z_][A-Za-z0-9_-]*)\}")
# Quoting starts anew within these; a plain ${variable} is harmless.
_SUBSTITUTION = re.compile(r"`|\$\(|\$\{(?![A-Za-z0-9_@*#?]+\})")
_CLOSES = {"'": "'", '"': '"', "`": "`", "#": "\n", "$'": "'"}
_CALLED = {"'": "quotes", '"': "quotes", "$'": "quotes", "`": "backquotes", "#": "a comment"}


class TemplateError(ValueError):
    """A command that cannot be used, or an argument that cannot stand in one; its text says which."""


class Template:
    """A command, read.

    Args:
        text: the shell text.
        names: the arguments that it may use.

    Raises:
        TemplateError: `{pattern} is within quotes, but it is quoted already`, and the like.

    Attributes:
        evaluated: the argument that is the whole script, in `eval {cmd}` and `eval -- {cmd}`; else empty.
    """

    __slots__ = ("_pieces", "evaluated")

    def __init__(self, text: str, names: Collection[str]) -> None:
        whole = _EVALUATED.fullmatch(text)
        self.evaluated = whole[1] if whole and whole[1] in names else ""
        # Literal text, and between two of them the name and prefix (or None) of a placeholder.
        self._pieces: list[str | tuple[str, str | None]] = []
        start = 0
        for match in _PLACEHOLDER.finditer(text):
            if match[1] not in names or text[: match.start()].endswith("$"):
                continue
            self._pieces += [text[start : match.start()], (match[1], match[2])]
            start = match.end()
        self._pieces.append(text[start:])
        if len(self._pieces) > 1:
            self._check(text)

    def render(self, arguments: Mapping[str, object]) -> str:
        """The command with the arguments in place.

        Raises:
            TemplateError: `argument … contains a NUL`, `argument … is not unicode`.
        """
        return "".join(piece if isinstance(piece, str) else _words(*piece, arguments) for piece in self._pieces)

    def _check(self, text: str) -> None:
        if _HERE_DOCUMENT.search(text):
            raise TemplateError("arguments in a command with a here-document cannot be quoted")
        if "((" in text:
            raise TemplateError("arguments in a command with shell arithmetic cannot be quoted")
        reader = _Reader()
        for piece in self._pieces:
            if isinstance(piece, str):
                reader.read(piece)
            elif reader.within:
                raise TemplateError(f"{{{piece[0]}}} is within {reader.within}, but it is quoted already")
            else:
                reader.at_word = False


class _Reader:
    """Follows the quoting of shell text, from one placeholder to the next."""

    def __init__(self) -> None:
        self.at_word = True  # a `#` here begins a comment
        self._open = ""  # what was opened and not yet closed, a key of _CLOSES
        self._escaped = False  # the last character was a backslash that takes the next one

    @property
    def within(self) -> str:
        """What a word here would be within; empty where it means itself."""
        return "an escape" if self._escaped else _CALLED.get(self._open, "")

    def read(self, text: str) -> None:
        """Go over literal text."""
        for place, character in enumerate(text):
            if self._escaped:
                self._escaped = False
                self.at_word = False
                continue
            if self._open:
                self._inside(text, place, character)
            else:
                self._outside(text, place, character)
            self.at_word = not self._open and character in " \t\n;&|()"

    def _inside(self, text: str, place: int, character: str) -> None:
        if character == _CLOSES[self._open]:
            self._open = ""
        elif character == "\\" and self._open in {'"', "`", "$'"}:
            self._escaped = True
        elif self._open == '"' and _SUBSTITUTION.match(text, place):
            raise TemplateError("a substitution within quotes: assign it to a variable first")

    def _outside(self, text: str, place: int, character: str) -> None:
        if character == "\\":
            self._escaped = True
        elif character == "'":
            self._open = "$'" if text[:place].endswith("$") else "'"
        elif character in '"`' or (character == "#" and self.at_word):
            self._open = character


def _words(name: str, prefix: str | None, arguments: Mapping[str, object]) -> str:
    value = arguments.get(name)
    if value is None:
        return ""
    if prefix is not None and isinstance(value, bool):
        return prefix if value else ""
    items = value if isinstance(value, list) else [value]
    return " ".join((prefix or "") + _quoted(name, item) for item in items)


def _quoted(name: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "\0" in text:
        raise TemplateError(f"argument {name} contains a NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TemplateError(f"argument {name} is not unicode") from None
    return shlex.quote(text)
