"""`o approvals`, `o approve` and `o reject`: what agents ask to run without the sandbox.

What is shown comes from an agent, so nothing of it reaches the terminal but what can be printed.
"""

import argparse
import json
import sys
import termios
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from ninep.blocking import OREAD, OWRITE, Connection
from ninep.errors import NinepError
from ollie.cli import reach
from ollie.cli.output import say

_LIST, _PENDING, _RESOLVE = "bypass/list", "bypass/pending", "bypass/resolve"
_YES = ("y", "yes")
_NO = ("", "n", "no")
# Ids begin with the time: the millisecond in which an agent was made, and 12 bits that tell apart those of one.
_ID_SHOWN = 18

Request = Mapping[str, Any]


def add_to(commands: Any) -> None:
    """Add these commands to the parser of `o`; each sets `run`."""
    listing = commands.add_parser(
        "approvals",
        help="show what waits for your approval",
        description="Show what agents ask to run without the sandbox. An approval is for that one execution; without "
        "an answer it is refused after some minutes.",
    )
    listing.add_argument("--follow", action="store_true", help="ask at the terminal about each, as they come")
    listing.add_argument("-v", dest="verbose", action="store_true", help="show the exact program and its environment")
    listing.set_defaults(run=_approvals)
    approve = commands.add_parser("approve", help="let it run", description="Let it run without the sandbox, once.")
    approve.add_argument("ids", nargs="+", metavar="ID", help="as o approvals shows it")
    approve.set_defaults(run=_approve)
    reject = commands.add_parser("reject", help="refuse it", description="Refuse to let it run without the sandbox.")
    reject.add_argument("id", metavar="ID", help="as o approvals shows it")
    reject.add_argument("words", nargs="*", metavar="WHY", help="told to the agent")
    reject.set_defaults(run=_reject)


def _approvals(options: argparse.Namespace) -> int:
    place = reach.address(options.address)
    with reach.connect(place) as server:
        if options.follow:
            return _follow(server, place, verbose=options.verbose)
        requests = _requests(_read(server, _LIST))
        names = _names(server) if requests else {}
        say("\n".join(_shown(request, names, time.time(), verbose=options.verbose) for request in requests))
    return 0


def _approve(options: argparse.Namespace) -> int:
    with reach.connect(reach.address(options.address)) as server:
        for id_ in options.ids:
            _resolve(server, {"id": id_, "approved": True})
    return 0


def _reject(options: argparse.Namespace) -> int:
    with reach.connect(reach.address(options.address)) as server:
        _resolve(server, {"id": options.id, "error": " ".join(options.words)})
    return 0


def _follow(server: Connection, place: str, *, verbose: bool) -> int:
    """Ask about each request, until the end of the input."""
    if not sys.stdin.isatty():
        raise NinepError("o approvals --follow asks at a terminal, and standard input is none; use o approve ID")
    while True:
        # A fresh fid gives what is open then: nobody is asked about what was answered elsewhere meanwhile.
        (request,) = _requests(_read(server, _PENDING))
        with suppress(termios.error):  # it has hung up, which the answer tells
            termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before cannot be meant for this one
        say(_shown(request, _names(server), time.time(), verbose=verbose))
        try:
            words = input("let it run without the sandbox? [y/N, or why not] ").strip()
        except EOFError:
            say("\n")
            return 0
        if words.lower() in _YES:
            answer = {"id": request["id"], "approved": True, "hash": request["hash"]}
        else:
            answer = {"id": request["id"], "error": "" if words.lower() in _NO else words}
        try:
            with reach.connect(place) as answering:  # an answer that is refused ends its connection
                _resolve(answering, answer)
        except NinepError as error:
            sys.stderr.write(f"o: {error}\n")


def _requests(data: bytes) -> list[Request]:
    return [json.loads(line) for line in data.splitlines()]


def _names(server: Connection) -> dict[str, str]:
    """The agents by id, as `session/agent`."""
    rows = (line.split("\t") for line in _read(server, "aliases").decode().splitlines())
    return {id_: path.removeprefix("session/").replace("/agent/", "/") for id_, path in rows}


def _shown(request: Request, names: Mapping[str, str], now: float, *, verbose: bool) -> str:
    """A request for people: its id, who asks and where, how long there is, the exact command, and what decides it.

    A name is what an agent is called, its id what it is: both are shown. A variable with another value than the
    server's own decides what the command means: it is always shown. So are the files where the agent may write, among
    them programs that are called by name alone.
    """
    left_s = max(0, request["expires_at"] - now)
    lines = [f"{request['id']}  {_who(request, names)} in {_plain(request['cwd'])}, {left_s:.0f} s left"]
    lines += _indented(request["command"].split("\n"))
    if request["differs"]:
        lines += ["  with other variables than yours:", *_variables(request["differs"])]
    if own := [path for path in request["files"] if path.startswith(f"{request['cwd']}/")]:
        lines += ["  with these files of its directory:", *_indented(own)]
    if verbose:
        lines += ["  program:", f"    {_plain(json.dumps(request['argv'], ensure_ascii=False))}"]
        if request["stdin"]:
            lines += ["  standard input:", *_indented(request["stdin"].split("\n"))]
        lines += ["  environment:", *_variables(request["environment"])]
        lines += ["  held to what they are now:", *_indented(request["files"])]
    return "".join(f"{line}\n" for line in lines)


def _who(request: Request, names: Mapping[str, str]) -> str:
    """Whose it is: `session/agent (the beginning of the agent's id)`, as far as they are known."""
    agent, session = request["agent"], request["session"]
    name = names.get(agent) or f"{names.get(session, session)}/"
    return f"{_plain(name)} ({_plain(agent[:_ID_SHOWN])})"


def _variables(variables: Mapping[str, str]) -> list[str]:
    return _indented(f"{name}={value}" for name, value in variables.items())


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {_plain(line)}" for line in lines]


def _plain(text: str) -> str:
    """What a terminal shows as it is; anything else escaped, invisible and reordering characters too."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _read(server: Connection, path: str) -> bytes:
    with server.open(path, OREAD) as file:
        return b"".join(file)


def _resolve(server: Connection, answer: Mapping[str, object]) -> None:
    with server.open(_RESOLVE, OWRITE) as file:
        file.write(json.dumps(answer).encode())
        file.commit()
