"""A place for a server and its users: directories, an environment, and a PID namespace of their own.

Tool servers have reapers, which signal every process that they can reach. Should that ever be wrong, it is wrong inside
the namespace only. And when the namespace ends, nothing of what a test has started is left.

The server knows its clients by their processes, so they run in the namespace as well.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--pid", "--fork", "--mount-proc"]
# bash collects the orphans that come to it, and ends at the end of its input.
_INIT = ["bash", "-c", "echo; read -r _"]
_BIN = Path(sys.executable).parent


class House:
    """A namespace, in which nothing runs yet.

    Attributes:
        path: everything in the house is below this directory; short, for a socket's path has at most 107 bytes.
        environ: of every command, and so of the server; tests add to it.
        work: where commands run.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ollie-"))
        self.home = self.path / "home"
        self.work = self.path / "project"
        for directory in (self.home, self.work, self.path / "tmp"):
            directory.mkdir()
        self.environ = {
            "PATH": f"{_BIN}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "USER": "glenda",
            "HOME": str(self.home),
            "NAMESPACE": str(self.path / "ns"),
            "TMPDIR": str(self.path / "tmp"),
        }
        self._init = subprocess.Popen([*_NAMESPACE, *_INIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._init.stdout is not None
        self._init.stdout.readline()
        self._first = int(Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text())

    @property
    def socket(self) -> Path:
        """The default socket."""
        return self.path / "ns" / "ollie"

    @property
    def config(self) -> Path:
        """The configuration directory, made when missing."""
        path = self.home / ".config" / "ollie"
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path

    @property
    def log(self) -> str:
        """What servers in the background have logged."""
        path = self.home / ".local/share/ollie/logs/olliesrv.log"
        return path.read_text() if path.exists() else ""

    def replay(self, script: str) -> None:
        """Have the agents of its server answer as a script says, and so need no model."""
        path = self.path / "script.yaml"
        path.write_text(script)
        self.environ |= {"OLLIE_BACKEND": "replay", "OLLIE_REPLAY": str(path)}

    def inside(self, *command: str) -> list[str]:
        """A command as it is started from outside of the house."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self._first), *user, "--pid", "--mount", f"--wdns={self.work}", *command]

    def run(self, *command: str, stdin: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            self.inside(*command),
            input=stdin,
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    def ok(self, *command: str, stdin: str = "", **environ: str) -> str:
        """What a command prints, which must succeed and say nothing on standard error."""
        done = self.run(*command, stdin=stdin, **environ)
        assert (done.returncode, done.stderr) == (0, ""), f"{command}: {done.stderr}\n{self.log}"
        return done.stdout

    def fails(self, *command: str, stdin: str = "", status: int = 1, **environ: str) -> str:
        """The one line that a command says, which must fail and print nothing."""
        done = self.run(*command, stdin=stdin, **environ)
        assert (done.returncode, done.stdout) == (status, ""), f"{command}: {done.stderr}\n{self.log}"
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr.rstrip("\n")

    def begin(self, *command: str, **environ: str) -> "subprocess.Popen[str]":
        """Start a command; its standard streams are pipes."""
        return subprocess.Popen(
            self.inside(*command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environ, **environ},
        )

    def sh(self, script: str, **environ: str) -> str:
        """What a shell script prints, as a user would type it."""
        return self.ok("bash", "-euc", script, **environ)

    def read(self, path: str) -> str:
        """The content of a served file."""
        return self.ok("ollie-9p", "read", path)

    def write(self, path: str, text: str) -> None:
        """Write to a served file."""
        self.ok("ollie-9p", "write", path, stdin=text)

    def kill(self, pid: int) -> None:
        """End a process with SIGKILL, and return when it has ended."""
        code = (
            "import os, select, signal, sys; fd = os.pidfd_open(int(sys.argv[1]));"
            "signal.pidfd_send_signal(fd, signal.SIGKILL); select.select([fd], [], [])"
        )
        self.ok(sys.executable, "-c", code, str(pid))

    def close(self) -> None:
        """End the namespace with all that runs in it, and remove the directories."""
        self._init.communicate()
        shutil.rmtree(self.path)
