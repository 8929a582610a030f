"""Why a policy refused something, in words that name the key which would allow it.

The outputs are those of the programs themselves, as they ran under such policies.
"""

import pytest

from ollie.protocol.denials import Denial, denials
from ollie.protocol.policy import Filesystem, Network, Policy
from ollie.protocol.why import explain, why

POLICY = Policy(filesystem=Filesystem(ro=("/etc",), rox=("/usr",), rw=("/proj",), rwx=("/proj/build",)), name="strict")
ONLINE = Policy(
    filesystem=Filesystem(ro=("/etc",), rox=("/usr",), rwx=("/proj",)), network=Network(enabled=True), name="default"
)
OPEN = Policy(filesystem=Filesystem(rwx=("/",)), network=Network(enabled=True, unix_sockets=True))


@pytest.mark.parametrize(
    ("path", "operation", "what", "place", "key"),
    [
        ("/root/.ssh/id", "read", "reading /root/.ssh/id", "/root/.ssh/id", "filesystem.ro"),
        ("/root", "list", "listing /root", "/root", "filesystem.ro"),
        ("/opt/tool", "execute", "executing /opt/tool", "/opt/tool", "filesystem.rox"),
        ("/proj/a.out", "execute", "executing /proj/a.out", "/proj/a.out", "filesystem.rox"),
        ("/etc/passwd", "write", "writing /etc/passwd", "/etc/passwd", "filesystem.rw"),
        ("/usr/x", "create", "creating /usr/x", "/usr", "filesystem.rw"),
        ("/etc/x", "delete", "deleting /etc/x", "/etc", "filesystem.rw"),
    ],
)
def test_why_paths(path: str, operation: str, what: str, place: str, key: str) -> None:
    """A path that is refused, what was tried, and where it would be listed: rights of several keys add up."""
    assert (
        why(POLICY, path, operation)
        == f"the sandbox policy strict does not allow {what}; allow it with {place}, or a directory above it, in {key}"
    )
    assert why(OPEN, path, operation) is None


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/etc/passwd", "read"),
        ("/usr/bin/git", "execute"),
        ("/proj/x", "write"),
        ("/proj/build/a.out", "execute"),
        ("/proj/build", "list"),
    ],
)
def test_why_not(path: str, operation: str) -> None:
    """What is allowed is not explained."""
    assert why(POLICY, path, operation) is None


def test_why_network() -> None:
    """Hosts and unix sockets have a key each."""
    assert (
        why(POLICY, "example.org:443", "connect")
        == "the sandbox policy strict does not allow to connect example.org:443; allow it with network.enabled: true"
    )
    assert "network.unix_sockets: true" in str(why(POLICY, "/run/docker.sock", "unix"))
    assert why(OPEN, "example.org:443", "connect") is None
    assert why(OPEN, "/run/docker.sock", "unix") is None


ANY = ("read", "write", "execute")
OPENED = ("read", "write")
TRACE = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n'
DOCKER = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get "
    '"http://%2Fvar%2Frun%2Fdocker.sock/v1.50/containers/json": dial unix /var/run/docker.sock: socket: permission '
    "denied"
)

# command, output, and the path and operations that the output says were refused
SAID: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("echo x > /o/n", "/usr/bin/bash: line 1: /o/n: Permission denied", "/o/n", ("write",)),
    ("echo x >>'/o/n' 2>&1", "/usr/bin/bash: line 1: /o/n: Permission denied", "/o/n", ("write",)),
    ("cat < f", "/usr/bin/bash: line 1: f: Permission denied", "f", ("read",)),
    ("cd d; ./t a", "/usr/bin/bash: line 1: ./t: Permission denied", "./t", ("execute",)),
    ("exec /o/t", "/usr/bin/bash: line 1: /o/t: Permission denied", "/o/t", ("execute",)),
    (". /o/t", "/usr/bin/bash: line 1: /o/t: Permission denied", "/o/t", ("read",)),
    ("cat /o/t $x", "/usr/bin/bash: line 1: /o/t: Permission denied", "/o/t", ANY),
    ("./run.sh", "./run.sh: line 3: /o/t: Permission denied", "/o/t", ANY),
    ("bash /o/t", "bash: /o/t: Permission denied", "/o/t", ANY),
    ("./t", "/usr/bin/bash: ./t: /bin/sh: bad interpreter: Permission denied", "./t", ("execute",)),
    ("echo x > /o/n", "/usr/bin/dash: 1: eval: cannot create /o/n: Permission denied", "/o/n", ("write",)),
    ("make", "/bin/sh: 1: cannot create /o/n: Permission denied", "/o/n", ("write",)),
    ("cat < /o/f", "/usr/bin/dash: 1: eval: cannot open /o/f: Permission denied", "/o/f", ("read",)),
    ("sh /o/t", "sh: 0: cannot open /o/t: Permission denied", "/o/t", ("read",)),
    ("/o/t", "/usr/bin/dash: 1: eval: /o/t: Permission denied", "/o/t", ("execute",)),
    ("exec /o/t", "/usr/bin/dash: 1: exec: /o/t: Permission denied", "/o/t", ("execute",)),
    ("", "cat: /o/f: Permission denied", "/o/f", ("read",)),
    ("", "head: cannot open '/o/f' for reading: Permission denied", "/o/f", ("read",)),
    ("", "ls: cannot open directory '/o': Permission denied", "/o", ("list",)),
    ("", "touch: cannot touch '/o/n': Permission denied", "/o/n", ("write",)),
    ("", "mkdir: cannot create directory \u2018/o/x\u2019: Permission denied", "/o/x", ("create",)),
    ("", "rm: cannot remove '/o/f': Permission denied", "/o/f", ("delete",)),
    ("", "rmdir: failed to remove '/o/d': Permission denied", "/o/d", ("delete",)),
    ("", "cp: cannot create regular file '/o/g': Permission denied", "/o/g", ("create",)),
    ("", "cp: cannot access '/o': Permission denied", "/o", ("list",)),
    ("", "ln: failed to create hard link '/o/g' => 'a': Permission denied", "/o/g", ("create",)),
    ("", "ln: failed to create symbolic link '/o/g': Permission denied", "/o/g", ("create",)),
    ("", "tee: /o/g: Permission denied", "/o/g", ("write",)),
    ("", "truncate: cannot open '/o/f' for writing: Permission denied", "/o/f", ("write",)),
    ("", "sed: couldn't open temporary file /o/sedz: Permission denied", "/o/sedz", ("create",)),
    ("", "find: \u2018/o\u2019: Permission denied", "/o", ("list",)),
    ("", "dd: failed to open '/o/f': Permission denied", "/o/f", OPENED),
    ("", "tar: /o/a.tar: Cannot open: Permission denied", "/o/a.tar", OPENED),
    ("", "mktemp: failed to create file via template \u2018/o/XX\u2019: Permission denied", "/o/XX", ("create",)),
    ("", "timeout: failed to run command \u2018/o/t\u2019: Permission denied", "/o/t", ("execute",)),
    ("", "env: \u2018/o/t\u2019: Permission denied", "/o/t", ("execute",)),
    ("", "cat: can't open '/o/f': Permission denied", "/o/f", ("read",)),
    ("", "rg: /o/f: Permission denied (os error 13)", "/o/f", ("read",)),
    ("", "/o: IO error for operation on /o: Permission denied (os error 13)", "/o", ("read",)),
    ("", "frob: /o/f: Permission denied", "/o/f", ANY),
    ("python3 -c \"open('/o/f')\"", "PermissionError: [Errno 13] Permission denied: '/o/f'", "/o/f", ("read",)),
    ("python3 -c \"open('/o/f', 'w')\"", "PermissionError: [Errno 13] Permission denied: '/o/f'", "/o/f", ("write",)),
    ("x", f"{TRACE}    os.mkdir(d)\nPermissionError: [Errno 13] Permission denied: '/o/f'", "/o/f", ("write",)),
    ("x", f"{TRACE}    open(p, 'ab')\nPermissionError: [Errno 13] Permission denied: '/o/f'", "/o/f", ("write",)),
    ("x", f"{TRACE}    os.listdir(p)\nPermissionError: [Errno 13] Permission denied: '/o'", "/o", ("list",)),
    ("x", f"{TRACE}    open(p)\nPermissionError: [Errno 13] Permission denied: '/o/f'", "/o/f", OPENED),
    ("x", "PermissionError: [Errno 13] Permission denied: 'a' -> '/o/l'", "/o/l", ("create",)),
    (
        "x",
        f"{TRACE}    self._execute_child(args)\nPermissionError: [Errno 13] Permission denied: '/o/t'",
        "/o/t",
        ("execute",),
    ),
    ("", "Error: EACCES: permission denied, open '/o/f'", "/o/f", OPENED),
    ("", "Error: EACCES: permission denied, mkdir '/o/x'", "/o/x", ("create",)),
    ("", "Error: EACCES: permission denied, scandir '/o'", "/o", ("list",)),
    ("", "Error: spawnSync /o/t EACCES", "/o/t", ("execute",)),
    ("", "Error: connect EACCES /run/x.sock", "/run/x.sock", ("unix",)),
    ("", "Error: listen EACCES: permission denied /proj/s.sock", "/proj/s.sock", ("unix",)),
    ("", "Error: connect EACCES 127.0.0.1:1 - Local (undefined:undefined)", "", ("connect",)),
    ("", "fatal: cannot mkdir /o/r: Permission denied", "/o/r", ("create",)),
    ("", "fatal: could not create work tree dir '../o': Permission denied", "../o", ("create",)),
    ("", "error: could not lock config file /o/.gitconfig: Permission denied", "/o/.gitconfig", ("create",)),
    ("", "warning: unable to access '/o/attributes': Permission denied", "/o/attributes", ("read",)),
    ("", "/usr/bin/ld: cannot open output file /o/a: Permission denied", "/o/a", ("write",)),
    ("", "Fatal error: can't create /o/a.o: Permission denied", "/o/a.o", ("create",)),
    ("", "cc1: fatal error: opening dependency file /o/dep: Permission denied", "/o/dep", ("write",)),
    ("", "<command-line>: fatal error: /o/f: Permission denied", "/o/f", OPENED),
    ("", "/usr/bin/ld: cannot find /o/f: Permission denied", "/o/f", ("read",)),
    ("", "make: /o/t: Permission denied", "/o/t", ("read", "execute")),
    ("", "Warning: Failed to open the file /o/n: Permission denied", "/o/n", ("write",)),
    ("", "curl: (6) Could not resolve host: example.org", "", ("connect",)),
    ("", "curl: (7) Failed to connect to x port 80 after 0 ms: Couldn't connect to server", "", ("connect",)),
    (
        "curl --unix-socket /run/x http://x",
        "curl: (7) Failed to connect to x port 80 after 4 ms: Couldn't connect to server",
        "",
        ("unix",),
    ),
    ("", DOCKER, "/var/run/docker.sock", ("unix",)),
    (
        "",
        'psql: error: connection to server on socket "/run/x" failed: could not create socket: Permission denied',
        "/run/x",
        ("unix",),
    ),
    ('file_read {"path": "/o/f"}', "/o/f: Permission denied", "/o/f", ("read",)),
    ('file_write {"path": "/o/f"}', "/o/f: Permission denied", "/o/f", ("write",)),
    ('glob {"pattern": "*"}', "/o: Permission denied", "/o", ("list",)),
    ('fetch {"url": "http://x/"}', "http://x/: Permission denied", "", ("connect",)),
    ("", "socket: Permission denied", "", ("connect",)),
    ("", "Connecting to 127.0.0.1:1... failed: Permission denied.", "", ("connect",)),
    ("", "127.0.0.1[0: 127.0.0.1]: errno=Permission denied", "", ("connect",)),
    ("", "socket.gaierror: [Errno -3] Temporary failure in name resolution", "", ("connect",)),
    (
        "",
        f"{TRACE}    _socket.socket.__init__(self)\nPermissionError: [Errno 13] Permission denied",
        "",
        ("connect",),
    ),
]


@pytest.mark.parametrize(("command", "output", "path", "operations"), SAID)
def test_what_programs_say(command: str, output: str, path: str, operations: tuple[str, ...]) -> None:
    """Which file, and what was tried with it."""
    assert next(denials(output, command)) == Denial(path, operations)


@pytest.mark.parametrize(
    ("output", "path", "to"),
    [
        (
            "mv: cannot move '/o/f' to '/o/g': Permission denied",
            Denial("/o/f", ("delete",)),
            Denial("/o/g", ("create",)),
        ),
        (
            "Error: EACCES: permission denied, copyfile '/o/f' -> 'g'",
            Denial("/o/f", ("read",)),
            Denial("g", ("create",)),
        ),
    ],
)
def test_what_programs_say_of_two_files(output: str, path: Denial, to: Denial) -> None:
    """Each has an operation of its own."""
    assert list(denials(output, "")) == [path, to]


@pytest.mark.parametrize(
    "output",
    [
        "/usr/bin/bash: line 1: kill: (1) - Operation not permitted",
        "/usr/bin/dash: 1: kill: Operation not permitted",
        "/usr/bin/bash: line 1: ulimit: open files: cannot modify limit: Operation not permitted",
        "/usr/bin/bash: line 1: cd: /root: Permission denied",
        "/usr/bin/bash: Permission denied",
        "cat: tee: /o/q: Permission denied",
        "ptrace: Operation not permitted.",
        "chown: changing ownership of '/o/f': Operation not permitted",
        "mount: /mnt: permission denied.",
        "nice: cannot set niceness: Permission denied",
        "PermissionError: [Errno 1] Operation not permitted",
        "PermissionError: [Errno 13] Permission denied",
        "      syscall: 'open', code: 'EACCES', path: '/o/f'",
        "/o/f: Permission denied",
        "ln: failed to create hard link 'h' => '/o/f': Invalid cross-device link",
        "cat: /o/f: No such file or directory",
        "sqlite3.OperationalError: unable to open database file",
        "git@example.org: Permission denied (publickey).",
        "x" * 5000 + ": Permission denied",
        "",
    ],
)
def test_what_says_nothing(output: str) -> None:
    """What no policy refuses in such words, and what is not clear: nothing is better than something wrong."""
    assert list(denials(output, "x")) == []


STRICT = "the sandbox policy strict does not allow "
DEFAULT = "the sandbox policy default does not allow "
BOTH = "the sandbox policies default and strict do not allow "


@pytest.mark.parametrize(
    ("output", "command", "found"),
    [
        (
            "bash: line 1: /etc/x: Permission denied",
            "",
            BOTH + "writing or executing /etc/x; allow it with /etc/x, or a directory above it, in filesystem.rw to "
            "write it or filesystem.rox to execute it",
        ),
        (
            "bash: line 1: /etc/x: Permission denied",
            "echo > /etc/x",
            BOTH + "writing /etc/x; allow it with /etc/x, or a directory above it, in filesystem.rw",
        ),
        (
            "bash: line 1: ./t: Permission denied",
            "./t",
            STRICT + "executing /proj/t; allow it with /proj/t, or a directory above it, in filesystem.rox",
        ),
        ("curl: (6) Could not resolve host: x", "", STRICT + "the network; allow it with network.enabled: true"),
        (
            DOCKER,
            "docker ps",
            BOTH + "the unix socket /var/run/docker.sock; allow it with network.unix_sockets: true",
        ),
        (
            "mv: cannot move '/proj/x' to '/etc/x': Permission denied",
            "",
            BOTH + "creating /etc/x; allow it with /etc, or a directory above it, in filesystem.rw",
        ),
    ],
)
def test_who_refused(output: str, command: str, found: str) -> None:
    """The policies that do, of those that a run has; with the narrowest key, and what may have been meant."""
    assert explain([ONLINE, POLICY], output, "/proj", command) == (found,)
    assert explain([OPEN], output, "/proj", command) == ()


def test_explain_says_each_once() -> None:
    """A refusal that shows a hundred times is explained once, and what an open policy allows never."""
    output = "cat: /root/x: Permission denied\n" * 100
    said = "reading /root/x; allow it with /root/x, or a directory above it, in filesystem.ro"
    assert explain([POLICY], output, "/proj") == (STRICT + said,)
    assert explain([ONLINE], output, "/proj") == (DEFAULT + said,)
    assert explain([OPEN], output, "/proj") == ()
