"""Put a server to the test: `python -m ninep.testing conformance ADDRESS`, `… script FILE ADDRESS`.

`conformance` prints a line for each rule that every 9P2000 server has to keep, and what came where one does not hold.
`script` plays a conversation, as `ninep.testing.script` describes them, and prints the line that went another way.
Both end with status 1 when something fails, 2 when the server cannot be reached.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ninep import dial
from ninep.testing.conformance import conformance
from ninep.testing.line import Line
from ninep.testing.script import ScriptError, run_script


async def _conformance(address: str, uname: str, aname: str) -> int:
    checks = await conformance(address, uname=uname, aname=aname)
    for check in checks:
        print(f"ok      {check.name}" if check.failure is None else f"FAILED  {check.name}\n        {check.failure}")
    failed = sum(check.failure is not None for check in checks)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return min(failed, 1)


async def _script(file: str, script: str, address: str) -> int:
    try:
        await run_script(script, partial(Line.dial, address))
    except ScriptError as error:
        print(f"{file}: {error}")
        return 1
    print(f"{file}: passed")
    return 0


def main(args: Sequence[str] | None = None) -> int:
    """Run what the command line says, and give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ninep.testing", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("conformance", help="what every server has to do")
    command.add_argument("--uname", default=dial.user_name(), help="who attaches; must be let in without a secret")
    command.add_argument("--aname", default="", help="the tree to attach to")
    command.add_argument("address", help="a dial string: unix!/path or tcp!host!port")
    command = commands.add_parser("script", help="a conversation from a file")
    command.add_argument("file", help="the script")
    command.add_argument("address", help="a dial string: unix!/path or tcp!host!port")
    options = parser.parse_args(args)
    try:
        if options.command == "script":
            script = Path(options.file).read_text(encoding="utf-8")
            return asyncio.run(_script(options.file, script, options.address))
        return asyncio.run(_conformance(options.address, options.uname, options.aname))
    except (OSError, UnicodeDecodeError, dial.AddressError) as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
