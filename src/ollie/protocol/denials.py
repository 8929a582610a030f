"""What the output of a failed program says was refused, read from the words that programs use for it.

Pure: text in, denials out. A denial is a path as the program wrote it and the operations that may have been meant; what
was run may say which it was, where the words leave that open. Only `Permission denied` is looked for: that is how a
policy refuses (EACCES), and nothing else is its doing. Words that fit no rule say nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_LINES = 200
_CHARACTERS = 4096  # of a line; a longer one is no message
_CONTEXT_LINES = 8

NETWORK = "connect"
UNIX = "unix"
_ANY = ("read", "write", "execute")
_OPENED = ("read", "write")


@dataclass(frozen=True, slots=True)
class Denial:
    """Something that was refused.

    Args:
        path: as the program wrote it; empty for the network, and for a unix socket that is not named.
        operations: those that may have been meant, as `why` takes them.
    """

    path: str
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Rule:
    """Words with a `path` in them, and maybe one `to` which it was to come; and what was tried with each."""

    words: re.Pattern[str]
    operations: tuple[str, ...]
    to: tuple[str, ...] = ()


def _rule(words: str, *operations: str, to: tuple[str, ...] = ()) -> _Rule:
    """A rule; PATH and TO stand for bare paths, 'PATH' and 'TO' for quoted ones, and DENIED for the refusal."""
    for name in ("PATH", "TO"):
        group = f"(?P<{name.lower()}>"
        words = words.replace(f"'{name}'", rf"['`\"\u2018]{group}[^'`\"\u2018\u2019]+)['\"\u2019]")
        words = words.replace(name, rf"{group}(?:(?!: )[^'`\"\u2018\u2019])+)")
    return _Rule(re.compile(words.replace("DENIED", r": Permission denied(?: \(os error 13\))?$")), operations, to)


_READERS = (
    "cat|tac|nl|wc|cut|paste|fold|diff|cmp|md5sum|sha[0-9]*sum|cksum|od|hexdump|xxd|less|more|strings|comm|join|grep|"
    "egrep|fgrep|rg|jq|gzip|zcat|file"
)

# The first that fits a line counts.
_RULES = (
    # shells: dash tells what it tried, bash does not
    _rule(r"^\S+: (?:line \d+: )?PATH: TO: bad interpreter: Permission denied$", "execute", to=("execute",)),
    _rule(r"^\S+: \d+: (?:[\w.]+: )?cannot create PATHDENIED", "write"),
    _rule(r"^\S+: \d+: (?:[\w.]+: )?cannot open PATHDENIED", "read"),
    _rule(r"^\S+: \d+: (?:eval: |exec: )?PATHDENIED", "execute"),
    _rule(r"^\S+: line \d+: PATHDENIED", *_ANY),
    _rule(r"^(?:\S*/)?(?:bash|zsh|ksh): PATHDENIED", *_ANY),
    # what coreutils and busybox say
    _rule(r"(?:open|opening) 'PATH' for readingDENIED", "read"),
    _rule(r"(?:open|opening) 'PATH' for writing: '?Permission denied", "write"),
    _rule(r"cannot (?:open|read) directory 'PATH'DENIED", "list"),
    _rule(r"^cp: cannot access 'PATH'DENIED", "list"),
    _rule(r"^find: 'PATH'DENIED", "list"),
    _rule(r"^(?:\w+: )?(?:ls|cat|head|tail): can't open 'PATH'DENIED", "read"),
    _rule(r"cannot touch 'PATH'DENIED", "write"),
    _rule(r"(?:cannot|can't|failed to) create (?:[a-z]+ )*'PATH'(?: => .*)?DENIED", "create"),
    _rule(r"(?:cannot|can't|failed to) remove 'PATH'DENIED", "delete"),
    _rule(r"cannot move 'PATH' to 'TO'DENIED", "delete", to=("create",)),
    _rule(r"failed to (?:run command|execute) 'PATH'DENIED", "execute"),
    _rule(r"^(?:env|xargs): 'PATH'DENIED", "execute"),
    _rule(r"^(?:env|xargs): PATHDENIED", "execute"),
    _rule(rf"^(?:{_READERS}): PATHDENIED", "read"),
    _rule(r"\bIO error for operation on PATHDENIED", "read"),
    _rule(r"^(?:tee|touch): PATHDENIED", "write"),
    _rule(r"^sed: can't read PATHDENIED", "read"),
    _rule(r"couldn't open temporary file PATHDENIED", "create"),
    _rule(r"^sort: open failed: PATHDENIED", "write"),
    _rule(r"^shred: PATH: failed to open for writingDENIED", "write"),
    _rule(r"^tar: PATH: Cannot openDENIED", *_OPENED),
    _rule(r"^dd: failed to open 'PATH'DENIED", *_OPENED),
    # git
    _rule(r"cannot mkdir PATHDENIED", "create"),
    _rule(r"could not create (?:work tree dir|leading directories of) 'PATH'DENIED", "create"),
    _rule(r"could not lock config file PATHDENIED", "create"),
    _rule(r"[Uu]nable to create 'PATH'DENIED", "create"),
    _rule(r"unable to access 'PATH'DENIED", "read"),
    _rule(r"^(?:fatal|error|warning): (?:could not|cannot) open 'PATH'DENIED", *_OPENED),
    # compilers, make, curl, perl
    _rule(r"cannot open output file PATHDENIED", "write"),
    _rule(r"can't create PATHDENIED", "create"),
    _rule(r"fatal error: opening dependency file PATHDENIED", "write"),
    _rule(r"fatal error: PATHDENIED", *_OPENED),
    _rule(r"\bld: cannot find PATHDENIED", "read"),
    _rule(r"^make(?:\[\d+\])?: PATHDENIED", "read", "execute"),
    _rule(r"Failed to open the file PATHDENIED", "write"),
    _rule(r"^Can't open perl script 'PATH'DENIED", "read"),
    # sockets
    _rule(r"\bdial unix PATH: (?:connect|socket): permission denied", UNIX),
    _rule(r"on socket 'PATH' failed: .*Permission denied$", UNIX),
    _rule(r"\b(?:connect|listen) EACCES(?:: permission denied)? (?P<path>/\S+)", UNIX),
    _rule(r"\bspawn(?:Sync)? (?P<path>\S+) EACCES", "execute"),
    # a program that is not known, which names itself before the file
    _rule(r"^[^\s:]+: ['`\"\u2018]?(?P<path>/[^\s:'`\"\u2018\u2019]+)['\"\u2019]?DENIED", *_ANY),
)

_NODE = re.compile(r"EACCES: permission denied, (?P<call>\w+) '(?P<path>[^']+)'(?: -> '(?P<to>[^']+)')?")
_NODE_CALLS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "open": (_OPENED, ()),
    "scandir": (("list",), ()),
    "opendir": (("list",), ()),
    "mkdir": (("create",), ()),
    "mkdtemp": (("create",), ()),
    "unlink": (("delete",), ()),
    "rmdir": (("delete",), ()),
    "rename": (("delete",), ("create",)),
    "copyfile": (("read",), ("create",)),
    "link": ((), ("create",)),
    "symlink": ((), ("create",)),
}

_PYTHON = re.compile(
    r"PermissionError: \[Errno 13\] Permission denied(?:: '(?P<path>[^']+)')?(?: -> '(?P<to>[^']+)')?$"
)
_PYTHON_WRITES = re.compile(
    r"\b(?:mkdir|makedirs|unlink|remove|rmdir|write_text|write_bytes|touch|mkstemp|mkdtemp)\(|"
    r"\bopen\(.*(?:,\s*|mode=)['\"][rbt]*[wax+][bt+]*['\"]"
)
_PYTHON_LISTS = re.compile(r"\b(?:listdir|scandir|iterdir)\(")
_SOCKET = re.compile(r"socket\(|_socket\.|\.connect\(")

_UNIX_MEANT = re.compile(r"AF_UNIX|--unix-socket|unix:/")
_UNREACHED = re.compile(
    r"^(?:ping: )?socket: Permission denied$|^IO::Socket::INET: Permission denied|"
    r"^Connecting to .* failed: Permission denied|\[0: .*\]: errno=Permission denied$|"
    r"\b(?:connect|bind|listen) EACCES(?:: permission denied)? [\d:\[]|\bdial (?:tcp|udp)\b.*: permission denied|"
    r"connect to (?:host|address) .*: Permission denied|<urlopen error \[Errno 13\] Permission denied>|"
    r"Could not resolve host|[Uu]nable to resolve host|Temporary failure in name resolution|\bEAI_AGAIN\b|"
    r"^curl: \(7\) Failed to connect to |^https?://\S+: Permission denied$"
)

# What Ollie's own tools say behind their name for a file, and what each does with it.
_OWN = re.compile(r"^(?P<path>/(?:(?!: ).)+): Permission denied$")
_OWN_TOOLS: Mapping[str, tuple[str, ...]] = {
    "file_read": ("read",),
    "image_view": ("read",),
    "grep": ("read",),
    "glob": ("list",),
    "file_edit": _OPENED,
    "file_write": ("write",),
}

# What stands before a word of a shell script, and what is done with it then.
_SHELL = (
    ("write", r"(?:>[|&]?|&>)\s*"),
    ("read", r"(?:(?<!<)<\s*|(?:^|[\s;&|({])(?:\.|source)\s+)"),
    ("execute", r"(?:^|[;&|({`\n]|\b(?:exec|command|then|do|else|time|nohup))\s*"),
)


def denials(output: str, command: str) -> Iterator[Denial]:
    """What was refused, in the order of the output.

    Args:
        output: of a failed run; its last 200 lines are looked at.
        command: what was run, which may tell what was meant.
    """
    lines = output.splitlines()[-_LINES:]
    for number, line in enumerate(lines):
        if len(line) > _CHARACTERS:
            continue
        yield from _denials(line, lines[max(0, number - _CONTEXT_LINES) : number], command)


def _denials(line: str, before: Sequence[str], command: str) -> Iterator[Denial]:
    if match := _PYTHON.search(line):
        yield from _python(match, before, command)
    elif match := _NODE.search(line):
        operations, to = _NODE_CALLS.get(match["call"], ((), ()))
        yield from _both(match, _meant(command, match["path"], operations), to)
    elif (tool := _OWN_TOOLS.get(command.partition(" {")[0])) and (match := _OWN.search(line)):
        yield Denial(match["path"], tool)
    elif _UNREACHED.search(line):
        yield _unreached(command)
    else:
        for rule in _RULES:
            if match := rule.words.search(line):
                yield from _both(match, _meant(command, match["path"], rule.operations), rule.to)
                return


def _both(match: re.Match[str], operations: tuple[str, ...], to: tuple[str, ...]) -> Iterator[Denial]:
    if operations:
        yield Denial(match["path"], operations)
    if to:
        yield Denial(match["to"], to)


def _unreached(told: str) -> Denial:
    """A peer that was not reached; what is told besides may say what it was."""
    return Denial("", (UNIX,) if _UNIX_MEANT.search(told) else (NETWORK,))


def _meant(command: str, path: str, operations: tuple[str, ...]) -> tuple[str, ...]:
    """Of several operations those that a script does with a path; all when it does not say."""
    if len(operations) < 2:
        return operations
    word = rf"['\"]?{re.escape(path)}['\"]?(?![^\s;&|)<>])"
    said = tuple(kind for kind, before in _SHELL if kind in operations and re.search(before + word, command))
    return said or operations


def _python(match: re.Match[str], before: Sequence[str], command: str) -> Iterator[Denial]:
    """What an exception was about; of two paths the second, which was to come."""
    trace = "\n".join(before)
    code = "\n".join([text for text in before if text.startswith("    ") and "^" not in text][-2:])
    path = match["path"]
    if path is None:
        if _SOCKET.search(trace):
            yield _unreached(f"{command}\n{trace}")
    elif match["to"]:
        yield Denial(match["to"], ("create",))
    elif "_execute_child" in trace:
        yield Denial(path, ("execute",))
    elif mode := re.search(rf"open\(\s*['\"]{re.escape(path)}['\"]\s*(?:,\s*(?:mode=)?['\"]([^'\"]*)|\))", command):
        yield Denial(path, ("write",) if mode[1] and set(mode[1]) & set("wax+") else ("read",))
    elif _PYTHON_WRITES.search(code):
        yield Denial(path, ("write",))
    elif _PYTHON_LISTS.search(code):
        yield Denial(path, ("list",))
    else:
        yield Denial(path, _OPENED)
