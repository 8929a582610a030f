"""`toolsrv`: run a tool server.

A tool server speaks no TLS, and asyncio does without the module for it. That is 4 of 28 MB, and there is a server for
each session; so the server is imported when `ssl` is out of reach.
"""

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from ninep import dial
from ollie.cli.output import guarded
from ollie.protocol.paths import PathError

_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "": 1}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|$)")


class _UsageError(Exception):
    """An option that cannot be meant so."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status: 0 ended as it was told, 1 refused or failed, 2 wrong usage."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the server takes it over, there is nothing to end
    return guarded("toolsrv", lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    if "asyncio" not in sys.modules:
        sys.modules["ssl"] = None  # type: ignore[assignment]  # None: there is no such module
    from ollie.toolsrv.auth import AuthError, read_secret  # noqa: PLC0415  see above
    from ollie.toolsrv.lifecycle import Options, StartError, run  # noqa: PLC0415  as above

    try:
        run(
            Options(
                cwd=_directory(options.cwd),
                addresses=tuple(_address(text) for text in options.listen),
                yolo=options.yolo,
                no_auth=options.no_auth,
                idle_timeout_s=options.idle_timeout,
                bypass_timeout_s=options.bypass_timeout,
                max_runs=options.max_runs,
                max_requests=options.max_requests,
                open_files=options.open_files,
                olliesrv=_olliesrv(),
                secret=None if options.secret_fd is None else read_secret(options.secret_fd),
            )
        )
    except (_UsageError, StartError, AuthError, PathError, dial.AddressError) as error:
        print(f"toolsrv: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="toolsrv", description="Runs tools for agents, in a sandbox, over 9P.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser(
        "serve", help="run a server in the foreground", description="Run a server in the foreground."
    )
    serve.add_argument("--cwd", required=True, metavar="PATH", help="where a call runs that names no directory")
    serve.add_argument(
        "--listen",
        required=True,
        action="append",
        metavar="ADDRESS",
        help="unix!/path, /path or tcp!host!port; repeatable",
    )
    serve.add_argument("--yolo", action="store_true", help="run tools without Landlock and seccomp")
    serve.add_argument("--no-auth", action="store_true", help="let every client in without the secret")
    serve.add_argument(
        "--idle-timeout",
        type=_duration_s,
        metavar="DURATION",
        help="end that long (90s, 10m, 1h) after the last connection closed and the last process ended, or after 60s "
        "when no client came",
    )
    serve.add_argument(
        "--bypass-timeout",
        type=_duration_s,
        default=300,
        metavar="DURATION",
        help="how long a request to run without the sandbox waits for an answer (default 5m)",
    )
    serve.add_argument(
        "--max-runs",
        type=_count,
        default=64,
        metavar="N",
        help="how many runs one agent may have at a time (default 64)",
    )
    serve.add_argument(
        "--max-requests",
        type=_count,
        default=8,
        metavar="N",
        help="how many requests of one agent to run without the sandbox may wait at a time (default 8)",
    )
    serve.add_argument("--open-files", type=_count, help=argparse.SUPPRESS)
    serve.add_argument(
        "--secret-fd", type=int, metavar="N", help="read the secret from this descriptor; else the first client sets it"
    )
    return parser


def _duration_s(text: str) -> float:
    """Seconds from `90s`, `1h30m`, `500ms` or a plain number of seconds."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"not a duration: {text} (90s, 10m, 1h30m)")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def _count(text: str) -> int:
    """A number from 1 on."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"not a number from 1 on: {text}")
    return int(text)


def _directory(text: str) -> Path:
    """The absolute path of a directory."""
    path = _located(f"--cwd {text}", text)
    if not path.is_dir():
        raise _UsageError(f"--cwd {path}: {'not a directory' if path.exists() else 'no such directory'}")
    return path


def _olliesrv() -> dial.Unix | None:
    """Where `$OLLIE_ADDRESS` says that olliesrv listens; on TCP it cannot tell whose tool asks."""
    where = os.environ.get("OLLIE_ADDRESS")
    address = dial.parse(where) if where else None
    return address if isinstance(address, dial.Unix) else None


def _address(text: str) -> dial.Unix | dial.Tcp:
    """A dial string, or the path of a socket."""
    where = dial.Unix(text) if text.startswith(("/", "./", "../", "~")) else dial.parse(text)
    if isinstance(where, dial.Unix):
        return dial.Unix(str(_located(f"--listen {text}", where.path)))
    return where


def _located(option: str, path: str) -> Path:
    """The absolute path; `~` is the home directory."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise _UsageError(f"{option}: no such user") from None


if __name__ == "__main__":
    sys.exit(main())
