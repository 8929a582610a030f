"""What ordinary programs do must work in the sandbox."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inside = Callable[..., dict[str, Any]]

PYTHON = os.path.realpath(sys.executable)

STRICT_EXECUTING = {
    "general": {"best_effort": False},
    "filesystem": {
        "ro": ["/etc", "/proc"],
        "rox": ["/usr", "/bin", "/lib", "/lib64"],
        "rw": ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"],
        "rwx": ["{CWD}", "{TMPDIR}"],
    },
    "advanced": {"add_exec": True},
}

EVERYWHERE = pytest.mark.parametrize("policy", ["strict", "default"])


def shell(inside: Inside, place: Path, script: str, policy: object, **more: object) -> dict[str, Any]:
    return inside("run", place=str(place), argv=["/bin/sh", "-euc", script], policy=policy, **more)


def check(inside: Inside, place: Path, script: str, policy: object, output: str) -> None:
    result = shell(inside, place, script, policy)
    assert (result["output"], result["status"]) == (output, 0)


def needs(*programs: object) -> pytest.MarkDecorator:
    """Skip where a program is not installed."""
    missing = [program for program in programs if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")]
    return pytest.mark.skipif(bool(missing), reason=f"not installed in the system: {' '.join(missing)}")


@EVERYWHERE
@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("echo hidden >/dev/null; echo shown", "shown\n"),
        ("head -c 4 /dev/zero | wc -c", "4\n"),
        ("head -c 4 /dev/urandom | wc -c; head -c 4 /dev/random | wc -c", "4\n4\n"),
        ("echo a | sed s/a/b/ | tr b c", "c\n"),
        ("mkfifo f; echo through >f & cat f; wait", "through\n"),
        ("mkdir -p a/b; echo 1 >a/x; mv a/x a/b/y; ln a/b/y hard; ln -s a/b/y soft; cat hard soft; rm -r a", "1\n1\n"),
        ('t=$(mktemp); echo temp >"$t"; cat "$t"; rm "$t"', "temp\n"),
        ("echo shared >/dev/shm/ollie-$$; cat /dev/shm/ollie-$$; rm /dev/shm/ollie-$$", "shared\n"),
        ("cd /usr/bin && test -r sh && ls -d /usr/lib", "/usr/lib\n"),
        ("sleep 0 & wait; (exit 3) || echo $?; kill -0 $$ && echo alive", "3\nalive\n"),
        ("nice -n 1 true; ulimit -n >/dev/null; umask >/dev/null; getent passwd root | cut -d: -f1", "root\n"),
        ("echo out; echo error >&2; echo again >/dev/stderr", "out\nerror\nagain\n"),
    ],
)
def test_shell(inside: Inside, place: Path, script: str, output: str, policy: object) -> None:
    """Pipes, temporary files, links, devices, background jobs."""
    check(inside, place, script, policy, output)


@EVERYWHERE
@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("import subprocess; subprocess.run(['true'], stdin=subprocess.DEVNULL, check=True); print('ran')", "ran\n"),
        (
            (
                "import asyncio\n"
                "async def main():\n"
                "    process = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n"
                "    print((await process.communicate())[0], await asyncio.to_thread(lambda: 1))\n"
                "asyncio.run(main())"
            ),
            "b'hi\\n' 1\n",
        ),
        (
            (
                "import socket\n"
                "a, b = socket.socketpair(); a.sendall(b'x'); print(b.recv(1))\n"
                "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); a.send(b'y'); print(b.recv(1))"
            ),
            "b'x'\nb'y'\n",
        ),
        ("import threading; t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()", "thread\n"),
        ("import os; os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(0); print(os.getpgid(0) > 0)", "True\n"),
        ("import ssl, sqlite3, zlib, tempfile; print(tempfile.TemporaryFile().write(b'xy'))", "2\n"),
    ],
)
def test_python(inside: Inside, place: Path, script: str, output: str, policy: object) -> None:
    """Subprocesses with DEVNULL, asyncio, socket pairs, threads, extension modules."""
    result = inside("run", place=str(place), argv=[PYTHON, "-c", script], policy=policy)
    assert (result["output"], result["status"]) == (output, 0)


@EVERYWHERE
def test_multiprocessing(inside: Inside, place: Path, policy: object) -> None:
    """A pool of spawned workers, with its locks in /dev/shm."""
    (place / "cwd" / "pool.py").write_text(
        "import multiprocessing\n"
        "def double(x):\n    return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "        print(pool.map(double, [1, 2]))\n"
    )
    result = inside("run", place=str(place), argv=[PYTHON, "pool.py"], policy=policy)
    assert (result["output"], result["status"]) == ("[2, 4]\n", 0)


@pytest.mark.parametrize("policy", [STRICT_EXECUTING, "default"], ids=["network off", "default"])
def test_virtual_environment(inside: Inside, place: Path, policy: object) -> None:
    """A virtual environment in the working directory: made, and used through its own interpreter and scripts."""
    script = (
        f"{PYTHON} -m venv --without-pip env; env/bin/python -c 'import sys; print(sys.prefix == sys.base_prefix)'; "
        "printf '#!%s/env/bin/python\\nprint(1)\\n' \"$PWD\" >env/bin/tool; chmod +x env/bin/tool; env/bin/tool"
    )
    check(inside, place, script, policy, "False\n1\n")


@needs("git")
@EVERYWHERE
def test_git(inside: Inside, place: Path, policy: object) -> None:
    """A repository is made, committed to, and asked."""
    script = (
        "git init -q .; echo 1 >file; git add file; "
        "git -c user.name=n -c user.email=e@x commit -qm first; git mv file other; "
        "git -c user.name=n -c user.email=e@x commit -qam second; git status --short; git gc -q; git log --format=%s; "
        "git clone -q . copy; ls copy"
    )
    check(inside, place, script, policy, "second\nfirst\nother\n")


@needs("make", "gcc")
def test_make_and_compiler(inside: Inside, place: Path) -> None:
    """Make runs a compiler, and what it built can be run."""
    (place / "cwd" / "Makefile").write_text("program: program.c\n\t@cc -o $@ $<\n")
    (place / "cwd" / "program.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    check(inside, place, "make; ./program", "default", "built\n")


@needs("gcc")
def test_built_program_is_not_run_without_execute(inside: Inside, place: Path) -> None:
    """Where the policy gives write without execute, what was built cannot be run, and it is only that."""
    (place / "cwd" / "program.c").write_text("int main(void) { return 0; }\n")
    result = shell(inside, place, "cc -o program program.c; ./program", "strict")
    assert result["status"] == 126
    assert "Permission denied" in result["output"]


@needs("node")
@EVERYWHERE
def test_node(inside: Inside, place: Path, policy: object) -> None:
    """Node starts, runs a child, and talks with it."""
    (place / "cwd" / "child.js").write_text(
        "process.on('message', m => { process.send(m + 1); process.disconnect(); })\n"
    )
    script = (
        "const c = require('child_process'); console.log(c.execSync('echo hi').toString().trim());"
        "const f = c.fork('child.js'); f.on('message', m => console.log(m)); f.send(1);"
    )
    result = inside("run", place=str(place), argv=["node", "-e", script], policy=policy)
    assert (result["output"], result["status"]) == ("hi\n2\n", 0)


@needs("strace")
def test_tracing_own_children(inside: Inside, place: Path) -> None:
    """A debugger may trace what it starts itself."""
    result = shell(inside, place, "strace -o /dev/null true && echo traced", "default")
    assert (result["output"], result["status"]) == ("traced\n", 0)


def test_large_output(inside: Inside, place: Path) -> None:
    """100 MiB of output pass."""
    result = shell(inside, place, "head -c 104857600 /dev/zero", "strict", size_only=True)
    assert (result["output"], result["status"]) == (100 << 20, 0)


def test_large_request(inside: Inside, place: Path) -> None:
    """Arguments as long as the kernel takes them."""
    result = inside(
        "run", place=str(place), argv=["/bin/sh", "-c", 'echo "${#1}"', "sh", "é" * 60_000], policy="strict"
    )
    assert result["output"] in {"60000\n", "120000\n"}


def test_network_on_reaches_hosts(inside: Inside, place: Path) -> None:
    """With network a program listens and connects, resolves names and reads routes."""
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname());"
        "print(socket.getaddrinfo('localhost', 1)[0][4][1], len(socket.if_nameindex()) > 0)"
    )
    result = inside("run", place=str(place), argv=[PYTHON, "-c", script], policy="default")
    assert (result["output"], result["status"]) == ("1 True\n", 0)


def test_unix_sockets(inside: Inside, place: Path) -> None:
    """With `unix_sockets` a program has sockets in its own directory, also without network."""
    policy = {**STRICT_EXECUTING, "network": {"enabled": False, "unix_sockets": True}}
    script = (
        "import multiprocessing, socket; s = socket.socket(socket.AF_UNIX); s.bind('here'); s.listen();"
        "c = socket.socket(socket.AF_UNIX); c.connect('here'); print(s.accept()[0].fileno() > 2)"
    )
    result = inside("run", place=str(place), argv=[PYTHON, "-c", script], policy=policy)
    assert (result["output"], result["status"]) == ("True\n", 0)


def test_programs_in_the_home_directory(inside: Inside, place: Path) -> None:
    """What PATH names in the home directory runs, with its links and libraries; nothing else there can be read."""
    home = place / "home"
    real = home / "apps" / "tool-1.0" / "bin"
    for directory in (real, home / "apps" / "tool-1.0" / "lib", home / ".local" / "bin", home / ".ssh"):
        directory.mkdir(parents=True)
    (real / "tool").write_text('#!/bin/sh\ncat "$HOME/apps/tool-1.0/lib/text"\n')
    (real / "single").write_text("#!/bin/sh\necho single\n")
    for name in ("tool", "single"):
        (real / name).chmod(0o755)
    (real.parent / "lib" / "text").write_text("from the library\n")
    (home / ".local" / "bin" / "one").symlink_to(real / "single")
    (home / ".ssh" / "key").write_text("key")
    # What `add_exec` adds goes by the PATH of the server.
    path = f"{home}/.local/bin:{real}:/usr/bin:/bin"
    script = f'export PATH="{path}"; tool; one; cat "$HOME/.ssh/key" 2>/dev/null || echo hidden'
    result = inside("run", place=str(place), argv=["/bin/sh", "-c", script], policy="strict", path=path)
    assert result["output"] == "from the library\nsingle\nhidden\n"


def test_libraries_of_a_program(inside: Inside, place: Path) -> None:
    """With `ldd` a program finds its shared libraries, wherever its loader would."""
    if not Path("/lib64/ld-linux-x86-64.so.2").exists() and not Path("/lib/ld-linux-aarch64.so.1").exists():
        pytest.skip("the loader of this system is not known here")
    policy = {"filesystem": {"rox": ["/usr/bin", "/bin/true"]}, "advanced": {"ldd": True}}
    without = {**policy, "advanced": {"ldd": False}}
    assert inside("run", place=str(place), argv=["/usr/bin/true"], policy=policy)["status"] == 0
    refused = inside("refused", place=str(place), argv=["/usr/bin/true"], policy=without)
    assert refused["error"] == "cannot run /usr/bin/true: Permission denied"
