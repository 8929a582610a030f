"""What the engine has computed of the fixed beginning of prompts, kept in files.

Instructions, tools and examples are the same for every agent and every start of the server; reading them takes most of
a minute on one core, loading what was computed of them milliseconds. Runs in the engine's process.

A file holds nothing of a conversation: it is written after the beginning alone was read.
"""

import contextlib
import hashlib
import http.client
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

Take = Callable[[dict[str, Any]], bool]
"""Gets a chunk; True ends the completion."""

_KEPT_FILES = 4
_TIMEOUT_S = 60


class Prefixes:
    """The beginnings that the engine `server` knows, and their files in `directory`.

    The engine saves and loads them at its loopback port only, with `key`; `identity` stands for all else that a file
    depends on: the model and the engine's version.
    """

    def __init__(self, server: Any, key: str, directory: Path, identity: str) -> None:
        self._server = server
        self._key = key
        self._directory = directory
        self._identity = identity
        self._known: set[str] = set()

    def prepare(self, messages: list[dict[str, str]], take: Take) -> None:
        """Have the engine know `messages`, the beginning of the next prompt: loaded, or else read and then kept.

        Nothing is lost when it fails: the engine then reads them as a part of the prompt.
        """
        name = hashlib.sha256(json.dumps([self._identity, messages]).encode()).hexdigest()[:32] + ".state"
        if name in self._known or not messages:
            return
        if not ((self._directory / name).exists() and self._slot("restore", name)):
            if self._read(messages, take):
                return
            self._keep(name)
        self._known.add(name)

    def _read(self, messages: list[dict[str, str]], take: Take) -> bool:
        """Read them, telling the progress; whether it was cancelled."""
        cancelled = False

        def progress(chunk: dict[str, Any]) -> bool:
            nonlocal cancelled
            cancelled = take({"prompt_progress": chunk["prompt_progress"]} if "prompt_progress" in chunk else {})
            return cancelled

        body = {"messages": messages, "max_tokens": 1, "cache_prompt": True, "stream": True, "return_progress": True}
        self._server.handle_chat_completions(body, progress)
        return cancelled

    def _keep(self, name: str) -> None:
        partial = f"{os.getpid()}.partial"
        if self._slot("save", partial):
            with contextlib.suppress(OSError):
                (self._directory / partial).replace(self._directory / name)
                files = sorted(self._directory.glob("*.state"), key=lambda file: file.stat().st_mtime)
                for file in files[:-_KEPT_FILES]:
                    file.unlink()

    def _slot(self, action: str, filename: str) -> bool:
        """Save or restore the engine's only slot; whether that worked."""
        connection = http.client.HTTPConnection(self._server.listening_address.split("//")[1], timeout=_TIMEOUT_S)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("POST", f"/slots/0?action={action}", json.dumps({"filename": filename}), headers)
            return connection.getresponse().status == http.HTTPStatus.OK
        return False
