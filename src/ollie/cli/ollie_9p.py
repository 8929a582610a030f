"""`ollie-9p`: files of a 9P server from the shell, without a mount.

Most of its time is starting up, so it imports next to nothing: no argparse, no signal (for its enums), no asyncio. What
it reads goes to standard output as it arrives, what it writes goes out as standard input arrives.
"""

import _signal  # type: ignore[import-not-found]  # what signal is made of; it has no stub
import os
import sys

from ninep.blocking import DMAPPEND, DMDIR, ORDWR, OREAD, OTRUNC, OWRITE, Connection, File, Stat
from ninep.dial import AddressError, default_address, user_name
from ninep.errors import NOT_FOUND, ConnectionLostError, NinepError, unknown
from ollie.cli import complete, secret
from ollie.protocol import broker
from ollie.protocol.words import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HELP = """\
usage: ollie-9p [-a ADDRESS] [-u UNAME] [-A ANAME] [-v] COMMAND [PATH...]

  ls [-l] [PATH...]   list directories
  read PATH...        print files, as their data arrives
  write PATH          send standard input to a file, as it arrives
  rdwr PATH           send standard input to a file, then print its answer
  stat PATH...        print what is known about files
  mount DIR           show the whole tree in a directory, in the background;
                      -f: in the foreground; --no-reconnect: end with the server
  umount DIR          undo that; -l: also while it is in use

  -a ADDRESS   unix!/path, tcp!host!port or tcp!host:port
               (default: in a tool the agent's own connection, by $OLLIE_BROKER_FD;
               else $OLLIE_ADDRESS, else the socket in the name space directory)
  -u UNAME     attach as this user
  -A ANAME     attach to this tree, where the server has several; olliesrv has one
               and takes any name, to toolsrv it is the agent's id
  -v           show the 9P messages on standard error
  -h           show this

On a terminal ls and stat show ? for what is not printable in a name; elsewhere
names are printed as they are.

A server that asks for a secret gets the one in $OLLIE_SECRET_FILE, else in the file "secret" beside Ollie's
configuration.

examples:
  ollie-9p ls session/
  echo "name=myproj" | ollie-9p write session/new
  echo "summarize this repo" | ollie-9p rdwr generate
  ollie-9p mount ~/mnt/ollie
"""

_PIECE_BYTES = 64 * 1024
_SHOWN = 255  # characters of a path in a message
_TRACED_BYTES = 256  # of data in a message that -v shows
_FAILED, _MISUSED, _NO_READER = 1, 2, 141  # the last as a shell reports an end by SIGPIPE
_CLOSED = 9  # EBADF; errno is one import more
_VALUES = {"-a": "address", "-u": "uname", "-A": "aname"}
_SWITCHES = {"-l": ("ls", "umount"), "-f": ("mount",), "--no-reconnect": ("mount",)}
_ON_DIRECTORIES = ("mount", "umount")


class _UsageError(Exception):
    """The command line cannot be understood."""


class _FailedError(Exception):
    """Nothing can be done; the text says why, and what to do."""


class _Options:
    """A command line, taken apart."""

    __slots__ = ("address", "aname", "help", "switches", "uname", "verbose", "words")

    def __init__(self, words: list[str]) -> None:
        self.address = self.uname = self.aname = ""
        self.verbose = self.help = False
        self.switches: list[str] = []
        self.words: list[str] = []  # the command and its paths
        rest = iter(words)
        for word in rest:
            if word == "--":
                self.words += rest
            elif word.startswith("-") and word != "-":
                self._option(word, rest)
            else:
                self.words.append(word)

    def _option(self, word: str, rest: "Iterable[str]") -> None:
        if word in _VALUES:
            for value in rest:
                setattr(self, _VALUES[word], value)
                return
            raise _UsageError(f"{word} wants a value")
        if word == "-v":
            self.verbose = True
        elif word in _SWITCHES:
            self.switches.append(word)
        elif word in {"-h", "--help"}:
            self.help = True
        else:
            raise _UsageError(f"unknown option: {word}")

    def command(self) -> "tuple[str, list[str]]":
        """The name of the command, and its paths."""
        if not self.words:
            raise _UsageError("no command given")
        name, *paths = self.words
        if name not in _COMMANDS and name not in _ON_DIRECTORIES:
            raise _UsageError(unknown("command", name, (*_COMMANDS, *_ON_DIRECTORIES)))
        for switch in self.switches:
            if name not in _SWITCHES[switch]:
                raise _UsageError(f"unknown option of {name}: {switch}")
        if not paths and name != "ls":
            raise _UsageError(f"{name}: no {'directory' if name in _ON_DIRECTORIES else 'path'} given")
        if len(paths) > 1 and name in {"write", "rdwr", *_ON_DIRECTORIES}:
            raise _UsageError(f"{name} takes one {'directory' if name in _ON_DIRECTORIES else 'path'}")
        return name, paths if name in _ON_DIRECTORIES else [path or "/" for path in paths or [""]]


def main() -> int:
    """Run the command of the process's arguments; the exit status: 0, 1 when something failed, 2 for wrong usage."""
    complete()
    try:
        return _main(sys.argv[1:])
    except _FailedError as error:
        return _complain(str(error), _FAILED)
    except KeyboardInterrupt:
        # A shell's loop ends only when its command died of the signal itself.
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
        raise
    except BrokenPipeError:
        return _NO_READER


def _main(words: list[str]) -> int:
    try:
        options = _Options(words)
        if options.help:
            _print(HELP)
            return 0
        name, paths = options.command()
    except _UsageError as error:
        return _complain(f"{error}\nfor help: ollie-9p -h", _MISUSED)
    if name in _ON_DIRECTORIES:
        return _on_directory(name, paths[0], options)
    try:
        with _connect(options) as connection:
            return max([_on_path(_COMMANDS[name], connection, path, options) for path in paths])
    except ConnectionLostError:
        return _complain("the server hung up", _FAILED)
    except NinepError as error:
        return _complain(str(error), _FAILED)


def _on_path(
    command: "Callable[[Connection, str, _Options], None]", connection: Connection, path: str, options: _Options
) -> int:
    try:
        command(connection, path, options)
    except ConnectionLostError:
        raise
    except NinepError as error:
        shown = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}..."
        return _complain(f"{shown}: {error}{_remedy(path, str(error))}", _FAILED)
    return 0


def _on_directory(name: str, directory: str, options: _Options) -> int:
    from ollie.cli.mount import Settings, mount, umount  # noqa: PLC0415  asyncio and all, which the others do without

    if name == "umount":
        failed = umount(directory, lazy="-l" in options.switches)
    else:
        address = _given_address(options) or default_address("ollie")
        settings = Settings(
            directory=directory,
            address=address,
            uname=options.uname or user_name(),
            aname=options.aname,
            reconnect="--no-reconnect" not in options.switches,
            verbose=options.verbose,
        )
        failed = mount(settings, foreground="-f" in options.switches)
    return _complain(failed, _FAILED) if failed else 0


def _given_address(options: _Options) -> str:
    return options.address or os.environ.get("OLLIE_ADDRESS", "")


def _connect(options: _Options) -> Connection:
    if not options.address and broker.offered():
        return _connect_by_broker(options)
    given = _given_address(options)
    address = given or default_address("ollie")
    uname = options.uname or user_name()
    try:
        trace = _trace if options.verbose else None
        return Connection(address, uname=uname, aname=options.aname, secret=secret.read, trace=trace)
    except (AddressError, secret.SecretError) as error:
        raise _FailedError(str(error)) from None
    except OSError as error:
        start = "name the server's address with -a" if given else "start the server with: olliesrv start"
        raise _FailedError(f"no server at {address}: {reason(error)}\n{start}") from None


def _connect_by_broker(options: _Options) -> Connection:
    uname = options.uname or user_name()
    try:
        return Connection(
            broker.connection(), uname=uname, aname=options.aname, trace=_trace if options.verbose else None
        )
    except broker.BrokerError as error:
        raise _FailedError(str(error)) from None


def _ls(connection: Connection, path: str, options: _Options) -> None:
    entries = sorted(connection.ls(path), key=_name)
    if "-l" not in options.switches:
        _print("".join(f"{_word(entry.name)}\n" for entry in entries))
        return
    uids = max([len(entry.uid) for entry in entries], default=0)
    gids = max([len(entry.gid) for entry in entries], default=0)
    sizes = max([len(str(entry.length)) for entry in entries], default=0)
    _print(
        "".join(
            f"{_mode(entry.mode)} {_word(entry.uid):{uids}} {_word(entry.gid):{gids}} {entry.length:{sizes}} "
            f"{_time(entry.mtime)} {_word(entry.name)}\n"
            for entry in entries
        )
    )


def _read(connection: Connection, path: str, _options: _Options) -> None:
    with connection.open(path, OREAD) as file:
        if file.is_directory:
            raise NinepError(f"is a directory (list it with: ollie-9p ls {path})")
        _copy(file)


def _write(connection: Connection, path: str, _options: _Options) -> None:
    with connection.open(path, OWRITE | OTRUNC) as file:
        data = _input()
        file.write(data)  # of no input, too: whether it may be empty is for the file to say
        while data := _input():
            file.write(data)
        file.commit()


def _rdwr(connection: Connection, path: str, _options: _Options) -> None:
    with connection.open(path, ORDWR) as file:
        request = b"".join(iter(_input, b""))
        _output(b"")  # nothing is asked whose answer cannot be shown
        file.write(request)
        _copy(file)


def _stat(connection: Connection, path: str, _options: _Options) -> None:
    entry = connection.stat(path)
    kind, version, number = entry.qid
    _print(
        f"name={_word(entry.name)}\nmode={_mode(entry.mode)}\n"
        f"uid={_word(entry.uid)}\ngid={_word(entry.gid)}\nmuid={_word(entry.muid)}\n"
        f"length={entry.length}\natime={_time(entry.atime)}\nmtime={_time(entry.mtime)}\n"
        f"qid={number:x} {version} {kind:02x}\n"
    )


_COMMANDS: "dict[str, Callable[[Connection, str, _Options], None]]" = {
    "ls": _ls,
    "read": _read,
    "write": _write,
    "rdwr": _rdwr,
    "stat": _stat,
}


def _copy(file: File) -> None:
    for data in file:
        _output(data)


def _input() -> bytes:
    try:
        return os.read(0, _PIECE_BYTES)
    except OSError as error:
        raise _FailedError(f"standard input: {reason(error)}") from None


def _output(data: bytes) -> None:
    try:
        rest = data[os.write(1, data) :]  # of no data, too: whether it is open is seen by that
        while rest:
            rest = rest[os.write(1, rest) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        why = " is closed" if error.errno == _CLOSED else f": {reason(error)}"
        raise _FailedError(f"standard output{why}") from None


def _print(text: str) -> None:
    _output(text.encode(errors="surrogateescape"))


def _complain(text: str, status: int) -> int:
    first, *more = map(_printable, text.split("\n"))
    _tell("".join([f"ollie-9p: {first}\n", *(f"  {line}\n" for line in more)]))
    return status


def _tell(text: str) -> None:
    """Write to standard error, as far as that can be: whether it can does not decide what the command does."""
    data = text.encode(errors="backslashreplace")
    try:
        while data:
            data = data[os.write(2, data) :]
    except OSError:
        pass


def _remedy(path: str, ename: str) -> str:
    """The line that says what to do, where there is something to say."""
    if ename != NOT_FOUND:
        return ""
    parent = "/".join([name for name in path.split("/") if name][:-1])
    return f"\nto see what there is: ollie-9p ls {parent}".rstrip()


def _name(entry: Stat) -> str:
    return entry.name


def _word(text: str) -> str:
    """What a server calls something, as standard output gets it."""
    return _printable(text) if os.isatty(1) else text


def _printable(text: str) -> str:
    """For a terminal: nothing that it obeys, and nothing that looks like another line."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def _mode(mode: int) -> str:
    """As plan 9's ls has it: d for directories, a for append-only, then the permissions."""
    kind = "d" if mode & DMDIR else "a" if mode & DMAPPEND else "-"
    return kind + "".join(letter if mode >> (8 - bit) & 1 else "-" for bit, letter in enumerate("rwx" * 3))


def _time(seconds: int) -> str:
    import time  # noqa: PLC0415  most commands show none

    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _trace(message: bytes) -> None:
    from ninep.messages import decode  # noqa: PLC0415  slow to import, and asked for only by -v
    from ninep.text import format_message  # noqa: PLC0415  as above

    _tell(f"{format_message(decode(message), _TRACED_BYTES)}\n")


if __name__ == "__main__":
    sys.exit(main())
