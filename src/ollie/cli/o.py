"""`o`: talk to agents from a terminal.

`o ask` puts one question to a fresh agent in the current directory and prints what it says, `o ls` shows sessions and
agents, `o kill` ends one of them.
"""

import argparse
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence

from ninep import dial
from ninep.blocking import ORDWR, OREAD, OWRITE, Connection, File
from ninep.errors import ConnectionLostError, NinepError
from ollie.cli import approvals, reach
from ollie.cli.output import guarded, say, writable
from ollie.cli.reply import Reply
from ollie.olliesrv.pairs import format_record
from ollie.olliesrv.process.daemon import DaemonError
from ollie.protocol.paths import PathError
from ollie.protocol.words import reason

_INTERRUPTED = 130
_SCRATCH = "scratch"  # the session for directories that no agent may work in


class FailedError(Exception):
    """What was asked for did not come about; the text is one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return guarded("o", lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except (FailedError, reach.UnreachableError, DaemonError, NinepError, dial.AddressError, PathError) as error:
        _tell(str(error))
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED


# o ask


def _ask(options: argparse.Namespace) -> int:
    prompt = _prompt(" ".join(options.words))
    cwd = _directory()
    writable()
    place = reach.address(options.address)
    # The agent goes with the connection that asked for it, however this command ends; where it can be, that is waited
    # for. The other connection is for all else: an interrupt of what it waits for ends it.
    with reach.connect_or_start(place, _tell) as owner, reach.connect(place) as server:
        agents = f"session/{_session(server, cwd)}/agent"
        with owner.open(f"{agents}/new", ORDWR) as life:
            life.write(b"keep=no\n")
            agent = f"{agents}/{life.read().decode().strip()}"
            try:
                reply = _converse(server, agent, prompt)
            except BaseException:
                _give_up(life)
                raise
    if not reply.ok:
        raise FailedError(reply.note or reply.error or "the turn ended without an answer")
    return 0


def _give_up(life: File) -> None:
    """Let the agent go; the answer comes when nothing of it is alive."""
    try:
        life.close()
    except NinepError:
        return  # what is on its way already says more


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise FailedError(f"the current directory cannot be used: {reason(error)}; cd to another one") from None


def _prompt(words: str) -> bytes:
    """What is asked: the words, and what standard input holds when it is no terminal."""
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
    parts = [part for part in (words.encode(errors="surrogateescape"), data) if part.strip()]
    if not parts:
        raise FailedError('nothing to ask; use: o ask "what is in this directory?"')
    return b"\n\n".join(parts)


def _converse(server: Connection, agent: str, prompt: bytes) -> Reply:
    """Put the prompt to the agent and print what it says, to the end of its turn.

    A terminal shows every word as it comes. Everybody else gets whole messages: of a reply that was cut and given again
    a script could not tell what counts.
    """
    reply = Reply(whole=not sys.stdout.isatty())
    _write(server, f"{agent}/prompt", prompt)
    ended = True
    with server.open(f"{agent}/chat.raw", OREAD) as chat:
        for data in chat:
            text = reply.feed(data)
            if text:
                say(text)
                ended = text.endswith("\n")
    if not ended:
        say("\n")
    return reply


def _session(server: Connection, cwd: str) -> str:
    """The session of a directory, made when there is none."""
    sessions = {line[1]: line[5] for line in _index(server, "session/idx")}
    for name, directory in sessions.items():
        if directory == cwd:
            return name
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(cwd)).lstrip("._-")[:48] or "root"
    for name in _names(stem):
        if name not in sessions:
            try:
                return _rdwr(server, "session/new", format_record({"name": name, "cwd": cwd})).decode().strip()
            except NinepError as error:
                if str(error).startswith(("session exists", "bad name")):
                    continue
                if "ollie's own directory" not in str(error):
                    raise
                return _scratch(server, sessions, cwd)
    raise AssertionError


def _names(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}-{number}" for number in itertools.count(2))


def _scratch(server: Connection, sessions: dict[str, str], cwd: str) -> str:
    """A session that works in a directory of its own, for where Ollie keeps its own files."""
    _tell(f"{cwd} holds Ollie's own files, so the agent works in a scratch directory; cd to a project to work there")
    if _SCRATCH in sessions:
        return _SCRATCH
    return _rdwr(server, "session/new", format_record({"name": _SCRATCH})).decode().strip()


# o ls


def _ls(options: argparse.Namespace) -> int:
    rows = [("NAME", "STATE", "DIRECTORY")]
    with reach.connect(reach.address(options.address)) as server:
        for _, session, _, paused, _, cwd in _index(server, "session/idx"):
            rows.append((session, "paused" if paused == "true" else "", cwd))
            for _, agent, state, _, _, _, its_cwd in _index(server, f"session/{session}/agent/idx"):
                rows.append((f"{session}/{agent}", state, its_cwd))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    say("".join(f"{name:{widths[0]}}  {state:{widths[1]}}  {cwd}".rstrip() + "\n" for name, state, cwd in rows))
    return 0


# o kill


def _kill(options: argparse.Namespace) -> int:
    with reach.connect(reach.address(options.address)) as server:
        for name in options.names:
            _write(server, f"{_path(server, name)}/ctl", b"kill")
    return 0


def _path(server: Connection, name: str) -> str:
    """The directory of `session`, `session/agent`, or of an agent whose name occurs once."""
    if not name.strip("/"):
        raise FailedError("no name given")
    session, slash, agent = name.partition("/")
    if slash:
        return f"session/{session}/agent/{agent}"
    sessions = _index(server, "session/idx")
    if any(name in line[:2] for line in sessions):
        return f"session/{name}"
    agents = [
        (line[1], agent[1])
        for line in sessions
        for agent in _index(server, f"session/{line[1]}/agent/idx")
        if name in agent[:2]
    ]
    if len(agents) > 1:
        raise FailedError(f"{name} is the name of several agents: {' '.join('/'.join(pair) for pair in agents)}")
    if not agents:
        raise FailedError(f"no session or agent: {name}; o ls shows them")
    return "session/{}/agent/{}".format(*agents[0])


# Files of the server


def _index(server: Connection, path: str) -> list[list[str]]:
    """The lines of an index, split into their fields."""
    with server.open(path, OREAD) as file:
        return [line.split("\t") for line in b"".join(file).decode().splitlines()]


def _write(server: Connection, path: str, data: bytes) -> None:
    with server.open(path, OWRITE) as file:
        file.write(data)
        file.commit()


def _rdwr(server: Connection, path: str, data: bytes) -> bytes:
    """The answer to a request. The connection stays in use when it is refused."""
    file = server.open(path, ORDWR)
    try:
        file.write(data)
        answer = b"".join(file)
    except ConnectionLostError:
        raise
    except NinepError:
        file.close()  # a request that was read is over, so that this commits nothing
        raise
    file.close()
    return answer


def _tell(line: str) -> None:
    sys.stderr.write(f"o: {line}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="o", description="Talk to agents from a terminal.")
    parser.add_argument("-a", dest="address", metavar="ADDRESS", help="the server: unix!/path or tcp!host!port")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    ask = commands.add_parser(
        "ask",
        help="ask once, in the current directory",
        description="Ask a fresh agent in the current directory, and print what it says. Standard input is added to "
        "the question. Starts the server when none runs. Each directory gets a session, which stays and is used again; "
        "its files are in the name space. A terminal shows the answer as it comes, a pipe or file gets whole messages.",
    )
    ask.add_argument("words", nargs="*", metavar="QUESTION")
    ask.set_defaults(run=_ask)
    ls = commands.add_parser("ls", help="show sessions and agents", description="Show sessions and agents.")
    ls.set_defaults(run=_ls)
    kill = commands.add_parser(
        "kill",
        help="remove a session or an agent",
        description="End what runs and remove it: a session with all its agents, or one agent.",
    )
    kill.add_argument("names", nargs="+", metavar="NAME", help="session, session/agent, or an agent's name or id")
    kill.set_defaults(run=_kill)
    approvals.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
