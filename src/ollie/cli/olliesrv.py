"""`olliesrv`: start, run, end and ask for the server.

The server is imported by `serve` only, so that the other commands are quick.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from ninep import dial
from ollie.cli.output import guarded, say, writable
from ollie.olliesrv.process import daemon
from ollie.protocol.paths import PathError

_NOT_RUNNING = 3  # what `systemctl status` answers, too


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 `status` found no server."""
    return guarded("olliesrv", lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    writable()
    try:
        return _COMMANDS[options.command](options)
    except (daemon.DaemonError, dial.AddressError, PathError) as error:
        _complain(str(error))
        return 1
    except KeyboardInterrupt:
        return 130


def _start(options: argparse.Namespace) -> int:
    places = daemon.places(options.listen)
    pid = daemon.start(_serve_arguments(options, places), daemon.found_by(options.listen), _warn)
    say(f"olliesrv is running on {places[0]} (pid {pid})\n")
    return _mount(options.mount, str(places[0])) if options.mount is not None else 0


def _mount(directory: str, address: str) -> int:
    """Mount in the background. Returns in the process that serves the mount as well, when it ends.

    A mount that an earlier server left comes back with this one.
    """
    from ollie.cli.mount import Settings, is_mounted, mount  # noqa: PLC0415 - asyncio and all, which the others do without

    if is_mounted(directory, address):
        return 0
    settings = Settings(directory, address, uname=dial.user_name(), aname="", reconnect=True, verbose=False)
    failed = mount(settings, foreground=False)
    if failed:
        _complain(f"nothing is mounted: {'; '.join(failed.splitlines())}")
    return 1 if failed else 0


def _serve(options: argparse.Namespace) -> int:
    places = tuple(daemon.places(options.listen))
    from ollie.olliesrv.serve import Options, run  # noqa: PLC0415  only this command needs the server

    return run(Options(places, yolo=options.yolo, no_auth=options.no_auth, ready_fd=options.ready_fd))


def _stop(options: argparse.Namespace) -> int:
    place = _place(options)
    pid = daemon.stop(place)
    print(f"no olliesrv is running on {place}" if pid is None else f"olliesrv (pid {pid}) has ended")
    return 0


def _status(options: argparse.Namespace) -> int:
    place = _place(options)
    pid = daemon.running(place)
    if pid is None:
        print(f"no olliesrv is running on {place}")
        return _NOT_RUNNING
    print(f"olliesrv is running on {place} (pid {pid})")
    return 0


def _place(options: argparse.Namespace) -> dial.Unix:
    """The socket of the server meant: `-a`, else `$OLLIE_ADDRESS` where that is a socket, else the default one."""
    address = options.address or os.environ.get("OLLIE_ADDRESS")
    if not address:
        return daemon.found_by([])
    if not isinstance(dial.parse(address), dial.Unix):
        raise daemon.DaemonError(f"{address} is no unix socket; run this where the server runs, with -a unix!/path")
    return daemon.found_by([address])


def _serve_arguments(options: argparse.Namespace, places: Sequence[dial.Unix | dial.Tcp]) -> list[str]:
    """The options once more, for a process that runs in another directory."""
    listen = [argument for place in places for argument in ("--listen", str(place))]
    return listen + ["--yolo"] * options.yolo + ["--no-auth"] * options.no_auth


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="olliesrv", description="The server of Ollie: sessions and agents as files.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, about in (
        ("start", "start a server in the background; returns when it answers"),
        ("serve", "run a server in the foreground"),
    ):
        command = commands.add_parser(name, help=about, description=about.capitalize() + ".")
        command.add_argument(
            "--listen",
            action="append",
            default=[],
            metavar="ADDRESS",
            help="tcp!host!port: listen there as well as on the default socket; unix!/path: listen there instead, in a "
            "directory that is private to you (mode 0700); repeatable",
        )
        command.add_argument("--yolo", action="store_true", help="run tools without Landlock and seccomp")
        command.add_argument(
            "--no-auth", action="store_true", help="let TCP clients in without the secret, with the rights of the group"
        )
        if name == "start":
            command.add_argument("--mount", metavar="DIR", help="then mount the name space there, as `ollie-9p mount`")
        command.add_argument("--ready-fd", type=int, default=None, help=argparse.SUPPRESS)
    for name, about in (
        ("stop", "end the server and wait until it is gone"),
        ("status", "say whether a server is running; the exit status is 3 when none is"),
    ):
        command = commands.add_parser(name, help=about, description=about.capitalize() + ".")
        command.add_argument("-a", dest="address", metavar="ADDRESS", help="the socket of the server: unix!/path")
    return parser


def _warn(text: str) -> None:
    print(f"olliesrv: warning: {text}", file=sys.stderr)


def _complain(text: str) -> None:
    print(f"olliesrv: {text}", file=sys.stderr)


_COMMANDS = {"start": _start, "serve": _serve, "stop": _stop, "status": _status}

if __name__ == "__main__":
    sys.exit(main())
