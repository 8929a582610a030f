"""Linux's own 9P client, in a virtual machine without hardware help: `make interop`.

Debian's kernel package is unpacked, not installed. Its first root file system is made here: busybox, the modules that
TCP and 9P need, a relay from a unix socket in the machine, and a script that mounts the server of this test and prints
what comes. Everything that the script does stands in `SCRIPT` and `REMOUNTS`, with what it has to print.
"""

import asyncio
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ninep.testing import Sample, sample_server

pytestmark = pytest.mark.timeout(300)
MODULES = ("e1000", "9pnet_fd", "9p")
BOOT_S = 200
TCP = "trans=tcp,port=$port 10.0.2.2"
UNIX = "trans=unix /socket"
NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "dpkg": "dpkg",
    "apt-get": "apt",
    "cc": "gcc",
}

# A step: its name, the commands, and what they print.
SCRIPT = (
    ("version=9p2000", "cat /mnt/readme", "a sample of every kind"),
    ("a listing", "ls /mnt /mnt/thing", "/mnt: new readme thing /mnt/thing: a idx"),
    ("a write and its length", "echo text >/mnt/thing/a/note; wc -c </mnt/thing/a/note", "5"),
    ("an append", "echo more >>/mnt/thing/a/note; cat /mnt/thing/a/note", "text more"),
    ("a shorter text", "echo x >/mnt/thing/a/note; cat /mnt/thing/a/note; wc -c </mnt/thing/a/note", "x 2"),
    ("no such file", "cat /mnt/thing/a/nothing", "cat: can't open '/mnt/thing/a/nothing': No such file or directory"),
    ("a refused command", "echo dance >/mnt/thing/a/ctl", "sh: write error: Invalid argument"),
    ("a name that is taken", "mkdir /mnt/thing/a", "mkdir: can't create directory '/mnt/thing/a': File exists"),
    ("a file that cannot be made", "sh -c 'echo x >/mnt/newfile'", "sh: can't create /mnt/newfile: Permission denied"),
    ("a file that cannot be read", "cat /mnt/thing/a/inbox", "cat: can't open '/mnt/thing/a/inbox': Permission denied"),
    ("a directory made and removed", "cd /mnt/thing; mkdir b; ls; rmdir b; ls", "a b idx a idx"),
    ("removing what cannot be", "rm -f /mnt/readme", "rm: can't remove '/mnt/readme': Permission denied"),
    ("making what cannot be", "mkdir /mnt/b", "mkdir: can't create directory '/mnt/b': Permission denied"),
    ("a rename", "mv /mnt/thing/a /mnt/thing/c; cat /mnt/thing/c/label; mv /mnt/thing/c /mnt/thing/a", "c"),
    (
        "a blocked read that a write wakes",
        "cat /mnt/thing/a/change >/out & sleep 1; cat /mnt/readme; echo now >/mnt/thing/a/change; wait; cat /out",
        "a sample of every kind now",
    ),
    (
        "a blocked read that a signal ends",
        "cat /mnt/thing/a/level & reader=$!; sleep 1; kill $reader; wait $reader; echo $?",
        "Terminated 143",
    ),
    ("a blocked read that Ctrl-C's signal ends", "timeout -s INT 1 cat /mnt/thing/a/level; echo $?", "130"),
    ("a blocked write that it ends", "timeout -s INT 1 busybox echo wait >/mnt/thing/a/ctl; echo $?", "130"),
    (
        "a stream shown as it comes",
        # Not with this cat, which asks the kernel to splice: that gathers a whole pipe.
        "mkfifo /pipe; dd bs=4096 if=/mnt/thing/a/log of=/pipe & { read first; echo $first; } </pipe; kill -9 $!; wait",
        "line",
    ),
)
# Another mount: its name, its transport, uname and further options, the commands, and what they print.
REMOUNTS = (
    ("the default version falls back", TCP, "glenda", "aname=kernel", "cat /mnt/thing/a/note", "x"),
    ("9p2000.u falls back", TCP, "glenda", "aname=kernel,version=9p2000.u", "cat /mnt/thing/a/note", "x"),
    (
        "permissions",
        TCP,
        "member",
        "aname=kernel,version=9p2000",
        "cat /mnt/thing/a/secret",
        "cat: can't open '/mnt/thing/a/secret': Permission denied",
    ),
    (
        "a refused command without the option",
        *(TCP, "glenda", "version=9p2000", "echo dance >/mnt/thing/a/ctl; cat /mnt/nothing"),
        "sh: write error: Unknown error 526 cat: can't open '/mnt/nothing': No such file or directory",
    ),
    (
        "a refused attach",
        TCP,
        "nobody",
        "aname=kernel,version=9p2000",
        "ls /mnt",
        "mount: mounting 10.0.2.2 on /mnt failed: Permission denied cannot mount",
    ),
    (
        "a unix socket",
        *(
            UNIX,
            "glenda",
            "aname=kernel,version=9p2000",
            "ls /mnt; echo more >>/mnt/thing/a/note; cat /mnt/thing/a/note",
        ),
        "new readme thing x more",
    ),
    (
        "a unix socket, by default",
        UNIX,
        "glenda",
        "aname=kernel",
        "echo dance >/mnt/thing/a/ctl",
        "sh: write error: Invalid argument",
    ),
    (
        "a blocked read by a unix socket",
        *(UNIX, "glenda", "aname=kernel,version=9p2000", "timeout -s INT 1 cat /mnt/thing/a/level; echo $?"),
        "130",
    ),
)
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t devtmpfs none /dev
for module in {modules}; do insmod /modules/$module; done
ifconfig lo 127.0.0.1
ifconfig eth0 10.0.2.15
mkdir -p /mnt
port={port}
/relay /socket 10.0.2.2 $port
step() {{ echo; echo "<<$1>>"; }}
{steps}
echo "<<end>>"
poweroff -f
"""


def script(port: int, modules: list[str]) -> str:
    """The guest's first process."""
    steps = [mounting(TCP, "glenda", "aname=kernel,version=9p2000")]
    for name, commands, _ in SCRIPT:
        steps.append(f'step "{name}"\n({commands}) 2>&1')
    for name, transport, uname, more, commands, _ in REMOUNTS:
        steps.append(f'umount /mnt 2>/dev/null\nstep "{name}"\n({mounting(transport, uname, more)}; {commands}) 2>&1')
    return INIT.format(modules=" ".join(modules), port=port, steps="\n".join(steps))


def mounting(transport: str, uname: str, more: str) -> str:
    """The command."""
    options, source = transport.split()
    return f"mount -t 9p -o access=any,cache=none,uname={uname},{more},{options} {source} /mnt || echo cannot mount"


def relay(directory: Path) -> bytes:
    """The program, which needs no libraries."""
    source, program = Path(__file__).with_name("relay.c"), directory / "relay"
    subprocess.run(["cc", "-Wall", "-Werror", "-static", "-O", "-o", str(program), str(source)], check=True)
    return program.read_bytes()


@pytest.fixture(scope="session")
def kernel() -> Path:
    """The kernel of Debian's package, which is unpacked in build/."""
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: apt-get install {package}")
    directory = Path(__file__).parents[2] / "build/interop/linux"
    if not list(directory.glob("boot/vmlinuz-*")):
        directory.mkdir(parents=True, exist_ok=True)
        ask = ["apt-cache", "depends", "linux-image-amd64"]
        depends = subprocess.run(ask, capture_output=True, text=True, check=False).stdout
        package = re.search(r"Depends: (linux-image-\S+)", depends)
        if package is None:
            pytest.skip("Debian's linux-image-amd64 is not known here: apt-get update")
        fetched = subprocess.run(["apt-get", "download", package[1]], cwd=directory, capture_output=True, check=False)
        if fetched.returncode:
            pytest.skip(f"{package[1]} cannot be downloaded: {fetched.stderr.decode().strip()}")
        for archive in directory.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(archive), str(directory)], check=True)
            archive.unlink()
    (vmlinuz,) = directory.glob("boot/vmlinuz-*")
    return vmlinuz


def loaded(directory: Path, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """The modules with all that they depend on, in the order in which they have to be loaded."""
    files = directory.glob("lib/modules/*/kernel/**/*.ko*")
    paths = {path.name.split(".")[0].replace("-", "_"): path for path in files}
    modules: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in modules or name not in paths:
            return
        data = paths[name].read_bytes()
        data = lzma.decompress(data) if paths[name].suffix == ".xz" else data
        depends = re.search(rb"\0depends=([^\0]*)\0", data)
        for other in depends[1].decode().split(",") if depends else ():
            add(other.replace("-", "_"))
        modules[name] = data

    for name in wanted:
        add(name)
    return modules


def archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    """A cpio archive as the kernel unpacks it (Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def entries() -> Iterator[bytes]:
        for number, (name, (mode, data)) in enumerate((*files.items(), ("TRAILER!!!", (0, b"")))):
            fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
            header = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
            yield header + bytes(-len(header) % 4) + data + bytes(-len(data) % 4)

    return b"".join(entries())


def root(kernel: Path, port: int, relay: bytes) -> bytes:
    """The guest's file system."""
    modules = loaded(kernel, MODULES)
    directories = dict.fromkeys(("bin", "proc", "modules", "dev"), (0o040755, b""))
    busybox = Path(shutil.which("busybox") or "").read_bytes()
    files = {
        "bin/busybox": (0o100755, busybox),
        "relay": (0o100755, relay),
        "init": (0o100755, script(port, list(modules)).encode()),
    }
    return archive(directories | files | {f"modules/{name}": (0o100644, data) for name, data in modules.items()})


async def test_linux(kernel: Path, tmp_path: Path) -> None:
    """Every step of the script prints what it has to, and nothing is left at the server."""
    sample = Sample()
    sample.add("a").log.append(b"line\n")
    server = sample_server(sample)
    address = await server.listen("tcp!127.0.0.1!0")
    image = tmp_path / "root"
    image.write_bytes(root(kernel.parents[1], int(address.rpartition("!")[2]), relay(tmp_path)))
    machine = await asyncio.create_subprocess_exec(
        *("qemu-system-x86_64", "-accel", "tcg", "-m", "256", "-nographic", "-no-reboot"),
        *("-kernel", str(kernel), "-initrd", str(image), "-append", "console=ttyS0 loglevel=1 panic=-1"),
        *("-netdev", "user,id=net", "-device", "e1000,netdev=net"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(BOOT_S):
            output, _ = await machine.communicate()
    finally:
        if machine.returncode is None:
            machine.kill()
            await machine.wait()
    printed = output.decode(errors="replace").replace("\r", "")
    said = dict(re.findall(r"<<(.*?)>>\n(.*?)(?=\n?<<|\n\[|\Z)", printed, re.DOTALL))
    assert "end" in said, printed[-3000:]
    for name, *_, expected in (*SCRIPT, *REMOUNTS):
        assert " ".join(said[name].split()) == expected, name
    await server.until(lambda now: now.outstanding == 0)
    await server.close()
    assert sample.things["a"].changes.watchers == 0
