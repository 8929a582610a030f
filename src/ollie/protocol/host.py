"""What a host offers to tools: its platform, its programs, and how it starts a file."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from ninep.errors import unknown
from ollie.protocol.words import reason

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_LINE_BYTES = 256  # as much of a `#!` line as Linux reads: execve(2)


class HostError(ValueError):
    """Something that this host does not have; its text names it."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host, as far as tools depend on it.

    Args:
        platform: as `sys.platform` has it: linux, darwin.
        arch: as uname(2) has it: x86_64, aarch64.
        path: where programs are looked for, colon separated.
    """

    platform: str
    arch: str
    path: str

    @classmethod
    def current(cls, environ: Mapping[str, str] | None = None) -> "Host":
        """The host of this process."""
        env = os.environ if environ is None else environ
        return cls(sys.platform, os.uname().machine, env.get("PATH", os.defpath))

    def which(self, program: str) -> str | None:
        """The path of a program, None where there is none; a name with a slash is a path already."""
        return shutil.which(program, path=self.path)

    def find(self, program: str) -> str:
        """The path of a program.

        Raises:
            HostError: `program not found: …`.
        """
        found = self.which(program)
        if found is None:
            raise HostError(f"program not found: {program}")
        return found

    def fits(self, when: Mapping[str, object]) -> bool:
        """True when this host is what a variant asks for.

        Args:
            when: `platform`, `arch` (one of the listed), `has` (every listed program); each a name or a list of names.

        Raises:
            HostError: for an unknown condition, or one that is no name.
        """
        for key, wanted in when.items():
            names = _names(key, wanted)
            match key:
                case "platform":
                    fits = self.platform in names
                case "arch":
                    fits = self.arch in {_ARCHITECTURES.get(name, name) for name in names}
                case "has":
                    fits = all(self.which(name) for name in names)
                case _:
                    raise HostError(unknown("condition in when", key, ("platform", "arch", "has")))
            if not fits:
                return False
        return True

    def start(self, file: str) -> tuple[str, ...]:
        """The argument vector that starts a file.

        A script is started through its interpreter, so that it need not be in a place from which the sandbox lets
        programs start. `env` in its first line is looked through here.

        Raises:
            HostError: `program not found: …` for an interpreter that is missing; `cannot be read: …`.
        """
        try:
            with open(file, "rb") as source:
                line = source.readline(_LINE_BYTES)
        except OSError as error:
            raise HostError(f"cannot be read: {reason(error)}") from None
        if line.startswith(b"#!"):
            return (*self._interpreter(os.fsdecode(line[2:]).split()), file)
        if file.endswith(".py"):
            return (sys.executable, file)
        if line.startswith(b"\x7fELF"):
            return (file,)
        # A text without a first line of its own is a shell script, as it is for a shell.
        return (self.find("sh"), file)

    def _interpreter(self, words: list[str]) -> list[str]:
        if words and words[0].endswith("/env"):
            words = words[2:] if words[1:2] == ["-S"] else words[1:]
        if not words or words[0].startswith("-"):
            raise HostError("interpreter in the first line not understood")
        return [self.find(words[0]), *words[1:]]


def _names(key: str, wanted: object) -> list[str]:
    names = wanted if isinstance(wanted, list) else [wanted]
    if not names or not all(isinstance(name, str) for name in names):
        raise HostError(f"{key} in when is not a name or a list of names")
    return [str(name) for name in names]
