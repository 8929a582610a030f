"""What Ollie refuses, as a program on a mount sees it: every text has a number that says more than "I/O error"."""

import ast
import errno
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import ollie
from ninep.enames import errno_of, for_linux
from ninep.errors import NinepError, ProtocolError

# What is nobody's mistake is an input/output error indeed.
_TROUBLE = re.compile(r"\b(cannot|broken|hung up|not on disk)\b|does not (answer|start|end)|^\w+: ")
_SERVERS = ("ollie.olliesrv", "ollie.toolsrv", "ollie.store", "ollie.protocol")


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(ollie.__path__, "ollie."):
        if found.name.startswith(_SERVERS) and ".migrations" not in found.name:
            yield importlib.import_module(found.name)


def _text(node: ast.expr) -> str | None:
    """A literal, with `thing` where something is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "thing" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _enames(module: ModuleType) -> Iterator[str]:
    """Every literal that an error of 9P is made of."""
    for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            kind = getattr(module, node.func.id, None)
            text = _text(node.args[0])
            refusal = isinstance(kind, type) and issubclass(kind, NinepError) and not issubclass(kind, ProtocolError)
            if refusal and text is not None and "thing thing" not in text:  # what is filled in there has the words
                yield text


ENAMES = sorted({text for module in _modules() for text in _enames(module)})


def test_there_are_some() -> None:
    """The search finds what it is for."""
    assert len(ENAMES) > 40
    assert "session exists: thing" in ENAMES


@pytest.mark.parametrize("ename", ENAMES)
def test_numbers(ename: str) -> None:
    """A refusal has a number that says so; Linux's own client has words for it."""
    assert (errno_of(ename) == errno.EIO) == bool(_TROUBLE.search(ename)), ename
    assert for_linux(ename)
