"""Put a server to the test: `python -m ninep.testing conformance ADDRESS`, `files ADDRESS DIR`, `script FILE`, `serve`.

`conformance` prints a line for each rule that every 9P2000 server has to keep, and what came where one does not hold;
with `--mount` it mounts the tree in a directory for the time being, and goes on with `files` in there.
`files` does the same for what a mounted tree has to do as files. The options name files that they may play with, and
paths that wait; without them such rules are left out.
`script` plays a conversation, as `ninep.testing.script` describes them, and prints the line that went another way.
Without `ADDRESS` it is with a sample of its own, in which the script has its actions (`ninep.testing.actions`).
`serve sample ADDRESS` and `serve plain ADDRESS` give clients something to talk to, until they are interrupted.
All end with status 1 when something fails, 2 when there is nothing to be put to the test: the server cannot be reached,
the tree not be mounted, the script not be played.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ninep import dial
from ninep.client import Client
from ninep.errors import NinepError
from ninep.fuse import Mount, MountError
from ninep.server import Server
from ninep.testing.actions import sample_actions
from ninep.testing.conformance import conformance
from ninep.testing.files import Named, files
from ninep.testing.line import Line
from ninep.testing.plain import PlainServer
from ninep.testing.rule import Check
from ninep.testing.sample import sample_server
from ninep.testing.script import ScriptError, StepError, run_script
from ninep.testing.things import Sample

_FILES = {
    "text": "stored text; it is written, and has its old content in the end",
    "blocked": "a file whose read waits",
    "renamed": "what can be renamed; it has its old name in the end",
    "removed": "what can be removed; it is gone in the end",
}

_WAITING = {
    "opening": "a file whose open waits",
    "walking": "a path that a walk waits for",
    "creating": "a path that the making of a directory waits for",
}


def _tell(check: Check) -> None:
    failed = f"FAILED  {check.name}\n        {check.failure}"
    print(f"ok      {check.name}" if check.failure is None else failed, flush=True)


def _count(checks: list[Check]) -> int:
    """Of those told; the exit status."""
    failed = sum(check.failure is not None for check in checks)
    print(f"{len(checks) - failed} passed, {failed} failed", flush=True)
    return min(failed, 1)


async def _conformance(options: argparse.Namespace) -> int:
    waiting = {name: getattr(options, name) for name in ("opening", "walking", "creating")}
    known = {"uname": options.uname, "aname": options.aname, "reading": options.blocked}
    status = _count(await conformance(options.address, **known, **waiting, tell=_tell))
    return max(status, await _mounted(options)) if options.mount else status


async def _mounted(options: argparse.Namespace) -> int:
    """`files` in a mount of ours, as a process of its own."""
    connect = partial(Client.connect, options.address, uname=options.uname, aname=options.aname)
    with TemporaryDirectory() as directory:
        mount = await Mount.start(directory, connect, source=options.address)
        try:
            given = [word for name in _FILES for word in (f"--{name}", getattr(options, name))]
            known = ("--uname", options.uname, "--aname", options.aname)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "ninep.testing", "files", *known, *given, options.address, directory)
            )
            return await process.wait()
        finally:
            await mount.unmount()


def _files(options: argparse.Namespace) -> int:
    named = Named(**{name: getattr(options, name) for name in _FILES})
    checks = files(options.directory, options.address, named, uname=options.uname, aname=options.aname)
    for check in checks:
        _tell(check)
    return _count(checks)


def _sample() -> tuple[Sample, Server]:
    """One with the thing `a`."""
    sample = Sample()
    sample.add("a")
    return sample, sample_server(sample)


async def _script(file: str, script: str, address: str | None) -> int:
    sample, server = _sample()

    async def adopted() -> Line:
        ours, theirs = socket.socketpair()
        await server.adopt(theirs)
        return await Line.adopt(ours)

    try:
        if address is None:
            await run_script(script, adopted, sample_actions(sample))
        else:
            await run_script(script, partial(Line.dial, address))
    except StepError as error:
        print(f"{file}: {error}", file=sys.stderr)
        return 2
    except ScriptError as error:
        print(f"{file}: {error}")
        return 1
    finally:
        await server.close()
    print(f"{file}: passed")
    return 0


async def _serve(tree: str, address: str) -> int:
    """Until it gets SIGINT or SIGTERM."""
    server = PlainServer() if tree == "plain" else _sample()[1]
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    print(f"{tree} is served at {await server.listen(address)}", flush=True)
    await interrupted.wait()
    await server.close()
    return 0


def _reason(error: OSError, address: str | None) -> str:
    """What failed, with the name of the thing."""
    named = error.filename if isinstance(error.filename, str) else address
    if isinstance(error, socket.gaierror):
        said = "no such host"
    elif error.errno:
        said = os.strerror(error.errno).lower()
    else:
        said = "nobody answers"  # at any of a host's addresses
    return f"{named}: {said}"


def _arguments(args: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ninep.testing", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    what = "a dial string: unix!/path or tcp!host!port"
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--uname", default=dial.user_name(), help="who attaches; must be let in without a secret")
    common.add_argument("--aname", default="", help="the tree to attach to")
    for name, about in _FILES.items():
        common.add_argument(f"--{name}", default="", metavar="PATH", help=about)
    command = commands.add_parser("conformance", parents=[common], help="what every server has to do")
    command.add_argument("--mount", action="store_true", help="mount the tree, and go on with files")
    for name, about in _WAITING.items():
        command.add_argument(f"--{name}", default="", metavar="PATH", help=about)
    command.add_argument("address", help=what)
    command = commands.add_parser("files", parents=[common], help="what a mounted tree has to do")
    command.add_argument("address", help=what)
    command.add_argument("directory", help="where it is mounted")
    command = commands.add_parser("script", help="a conversation from a file")
    command.add_argument("file", help="the script")
    command.add_argument("address", nargs="?", help=f"{what}; without it, a sample of its own")
    command = commands.add_parser("serve", help="something to talk to, until it is interrupted")
    command.add_argument("tree", choices=("sample", "plain"), help="a file of each kind, or files that clients make")
    command.add_argument("address", help=what)
    return parser.parse_args(args)


def main(args: Sequence[str] | None = None) -> int:
    """Run what the command line says, and give the exit status."""
    options = _arguments(args)
    try:
        if options.command == "script":
            script = Path(options.file).read_text(encoding="utf-8")
            return asyncio.run(_script(options.file, script, options.address))
        if options.command == "serve":
            return asyncio.run(_serve(options.tree, options.address))
        return _files(options) if options.command == "files" else asyncio.run(_conformance(options))
    except KeyboardInterrupt:
        return 130
    except UnicodeDecodeError:
        said = f"{options.file}: a script is UTF-8"
    except OSError as error:
        said = _reason(error, options.address)
    except (NinepError, MountError, dial.AddressError) as error:
        said = str(error)
    print(f"{options.command}: {said}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
