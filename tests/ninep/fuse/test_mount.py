"""Real programs on a real mount."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from mountns import House, ended, needs_mount

from ninep.server import Server
from ninep.testing import Sample, sample_server

pytestmark = needs_mount


async def test_ls(mounted: House, sample: Sample) -> None:
    """A long listing shows type, permissions, owner, length and name."""
    sample.things["a"].log.append(b"12345")
    done = await mounted.shell("ls -ln . thing/a")
    assert done.err == ""
    lines = {line.split()[-1]: line.split() for line in done.out.splitlines() if line[:1] in {"-", "d"}}
    assert lines["thing"][0] == "dr-xr-x---"
    assert lines["log"][:1] + lines["log"][2:5] == ["-r--r-----", "0", "0", "5"]
    assert lines["inbox"][0] == "--w--w----"
    assert {"readme", "new", "thing", "label", "note", "ctl", "log", "change", "level", "queue"} <= lines.keys()


async def test_cat(mounted: House) -> None:
    """Text whose length stat does not know is read whole, to a file as well."""
    done = await mounted.shell("cat readme thing/a/label; cat readme > ../copy; cp readme ../copied; cat ../cop*")
    assert done.out == "a sample of every kind\na\n" + 2 * "a sample of every kind\n"


async def test_wc_and_tail(mounted: House, sample: Sample) -> None:
    """Lengths and ends of text and logs."""
    sample.things["a"].log.append(b"".join(b"line %d\n" % number for number in range(5000)))
    sample.things["a"].log.end()
    done = await mounted.shell("wc -c < thing/a/log; tail -n 2 thing/a/log; tail -c 5 readme; head -n 1 thing/a/log")
    assert done.out == "48890\nline 4998\nline 4999\nkind\nline 0\n"


async def test_redirections(mounted: House, sample: Sample) -> None:
    """`>` replaces, `>>` appends, `<` reads."""
    done = await mounted.shell(
        "echo one > thing/a/note; echo two >> thing/a/note; cat < thing/a/note; echo three > thing/a/note;"
        "printf four >> thing/a/note; wc -c < thing/a/note; truncate -s 0 thing/a/note; wc -c < thing/a/note"
    )
    assert (done.out, done.err) == ("one\ntwo\n10\n0\n", "")
    assert sample.things["a"].note.data == b""


async def test_large_text(mounted: House, sample: Sample) -> None:
    """A megabyte, written and read in pieces of odd sizes."""
    done = await mounted.shell(
        "seq 200000 > ../numbers; cat ../numbers > thing/a/note; cmp ../numbers thing/a/note;"
        "dd if=thing/a/note bs=77777 iflag=fullblock status=none | cmp - ../numbers;"
        "dd if=../numbers of=thing/a/note bs=300000 status=none; cmp ../numbers thing/a/note"
    )
    assert done == (0, "", "")
    assert sample.things["a"].note.data.endswith(b"\n199999\n200000\n")


async def test_dd_at_offsets(mounted: House, sample: Sample) -> None:
    """Reads and writes in the middle."""
    await sample.things["a"].note.write(0, b"0123456789")
    done = await mounted.shell(
        "dd if=thing/a/note bs=1 skip=3 count=4 status=none;"
        "printf abc | dd of=thing/a/note bs=1 seek=5 conv=notrunc status=none"
    )
    assert done == (0, "3456", "")
    assert sample.things["a"].note.data == b"01234abc89"


async def test_find_and_grep(mounted: House, sample: Sample) -> None:
    """A tree is walked, and what can be read without waiting is searched."""
    sample.add("b")
    await sample.things["b"].note.write(0, b"TODO: rest\n")
    done = await mounted.shell("find . | sort; grep -r TODO thing/*/note thing/*/label")
    assert done.out.splitlines()[:3] == [".", "./new", "./readme"]
    assert "./thing/b/queue" in done.out
    assert done.out.endswith("thing/b/note:TODO: rest\n")


async def test_grep_in_all_files(mounted: House, sample: Sample) -> None:
    """A search of the whole tree ends, although there are files that wait."""
    await sample.things["a"].note.write(0, b"of every colour\n")
    await mounted.shell("echo everything > thing/a/queue")
    done = await mounted.shell("grep -r 'every' . 2>&1 | sort")
    assert done.out.splitlines() == [
        "./readme:a sample of every kind",
        "./thing/a/note:of every colour",
        "grep: ./thing/a/change: Resource temporarily unavailable",
        "grep: ./thing/a/inbox: Permission denied",
        "grep: ./thing/a/level: Resource temporarily unavailable",
        "grep: ./thing/a/log: Resource temporarily unavailable",
        "grep: ./thing/a/queue: Resource temporarily unavailable",
        "grep: ./thing/a/slow: Resource temporarily unavailable",
    ]
    assert (await mounted.shell("cat thing/a/queue")).out == "everything\n"


async def test_df(mounted: House, address: str) -> None:
    """The mount is a file system with the server's address as its device."""
    done = await mounted.shell('df --output=source,fstype,target "$HERE"; stat -f -c %T .')
    assert done.out.splitlines()[1].split() == [address, "fuse.9p", str(mounted.mount)]


async def test_messages(mounted: House, sample: Sample) -> None:
    """What a command, or several in one redirection, write is one message."""
    done = await mounted.shell(
        "echo one > thing/a/inbox; /bin/echo two > thing/a/inbox;"
        "{ echo three; /bin/echo four; } > thing/a/inbox; (echo five; /bin/echo six) > thing/a/inbox;"
        "seq 3 | tee thing/a/inbox > /dev/null; cat readme > thing/a/inbox"
    )
    assert done == (0, "", "")
    assert sample.things["a"].messages == [
        b"one\n",
        b"two\n",
        b"three\nfour\n",
        b"five\nsix\n",
        b"1\n2\n3\n",
        b"a sample of every kind\n",
    ]


async def test_refused_message(mounted: House, sample: Sample) -> None:
    """A message that is refused when the file is closed fails the program that wrote it, and is kept as an error."""
    done = await mounted.shell("/bin/echo bad > thing/a/inbox")
    assert done == (1, "", "/bin/echo: write error: Invalid argument\n")
    assert sample.errors == [("me", "thing/a/inbox", "bad message")]


async def test_commands(mounted: House) -> None:
    """Each write to a control file is a command, its error is the error of the write, its answer can be read."""
    done = await mounted.shell(
        "echo dance > thing/a/ctl; echo $?; cat thing/a/ctl;"
        "exec 3<>thing/a/ctl; echo echo one >&3; head -n 1 <&3; echo echo two >&3; head -n 1 <&3"
    )
    assert done.out == "1\necho wait change\none\ntwo\n"
    assert done.err.endswith("echo: write error: Invalid argument\n")


async def test_question(mounted: House, sample: Sample) -> None:
    """A request is written and its answer read through one descriptor."""
    sample.things["a"].released.set()
    done = await mounted.shell("exec 3<>thing/a/ask; echo why >&3; cat <&3; exec 3<>new; echo b >&3; cat <&3")
    assert (done.out, done.err) == ("got why\ndone\nb\n", "")
    assert "b" in sample.things


async def test_make_by_writing(mounted: House, sample: Sample) -> None:
    """A bare write makes a thing, which is there when the command has ended."""
    assert (await mounted.shell("echo b > new && cat thing/b/label && ls thing")).out == "b\na\nb\nidx\n"
    done = await mounted.shell("/bin/echo b > new")
    assert done == (1, "", "/bin/echo: write error: File exists\n")


async def test_queue(mounted: House, sample: Sample) -> None:
    """Entries come out one by one, and only what was read whole is gone."""
    done = await mounted.shell("for n in 1 2 3; do echo $n > thing/a/queue; done; cat thing/a/queue; cat thing/a/queue")
    assert done.out == "1\n2\n"
    assert list(sample.things["a"].queue) == [b"3\n"]


async def test_errors(mounted: House) -> None:
    """Programs say what is wrong in the usual words."""
    done = await mounted.shell(
        "cat nowhere; cat thing/a/inbox; echo x > readme; cat thing; ls readme/x; echo x > made; mkdir made;"
        "rm readme; mv readme me; chmod 777 readme; ln -s readme link; mv thing/a ."
    )
    words = [line.rpartition(": ")[2] for line in done.err.splitlines()]
    assert words == [
        "No such file or directory",
        "Permission denied",
        "Permission denied",
        "Is a directory",
        "Not a directory",
        *["Permission denied"] * 3,
        *["Operation not permitted"] * 4,
    ]


async def test_rename_and_remove(mounted: House, sample: Sample) -> None:
    """Directories of things are renamed and removed by mv and rmdir; a shell in one of them stays in it."""
    done = await mounted.shell("cd thing/a; mv ../a ../b; cat label; pwd; cat ../b/label; cd ..; rmdir b; ls")
    assert done.out == f"b\n{mounted.mount}/thing/a\nb\nidx\n"
    assert done.err == ""
    assert sample.things == {}


async def test_a_shell_stays(mounted: House, sample: Sample) -> None:
    """A shell whose directory another client renames stays in it."""
    process = await mounted.start("bash", "-c", 'cd "$HERE/thing/a"; echo; read _; cat label; ls | head -n 1')
    assert process.stdout
    await process.stdout.readline()
    await sample.rename(sample.things["a"], "b")
    assert process.stdin
    process.stdin.write(b"\n")
    assert await ended(process) == (0, "b\nask\n", "")


async def test_blocked_read(mounted: House, sample: Sample, server: Server) -> None:
    """`cat` of a watched file waits, gives the change, and ends."""
    waiting = await mounted.blocked("cat thing/a/change")
    await server.until(lambda now: now.outstanding == 1)
    sample.things["a"].changes.add(b"running\n")
    assert await ended(waiting.process) == (0, "running\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_interrupted_read(number: signal.Signals, mounted: House, server: Server) -> None:
    """A signal ends a blocked `cat`, and the read at the server with it."""
    waiting = await mounted.blocked("cat thing/a/change")
    await server.until(lambda now: now.outstanding == 1)
    assert await waiting.signal(number) == (-number, "", "")
    await server.until(lambda now: now.outstanding == 0)


async def test_commands_side_by_side(mounted: House, sample: Sample, server: Server) -> None:
    """A command that takes its time does not hold up another one."""
    waiting = await mounted.start("sh", "-c", 'cd "$HERE"; echo wait > thing/a/ctl')
    await server.until(lambda now: now.outstanding == 1 and sample.things["a"].waiting == 1)
    assert await mounted.shell("echo change new > thing/a/ctl; cat readme > /dev/null") == (0, "", "")
    assert sample.things["a"].changes.values == [b"new\n"]
    sample.things["a"].released.set()
    assert await ended(waiting) == (0, "", "")


@pytest.mark.parametrize("command", ["echo wait > thing/a/ctl", "/bin/echo wait > thing/a/ctl", "cat < thing/a/level"])
async def test_control_c(command: str, mounted: House, sample: Sample, server: Server) -> None:
    """Ctrl-C ends what waits, at the server as well, be it the shell's own command or a program; again and again."""
    async with mounted.terminal() as terminal:
        for _ in range(20):
            terminal.type(f"{command}\n")
            await server.until(
                lambda now: now.outstanding == 1 and ("ctl" not in command or sample.things["a"].waiting == 1)
            )
            terminal.type("\x03")
            assert (await terminal.prompted()).endswith("^C\n")
            assert await terminal.run("echo $?") == "130\n"
            await server.until(lambda now: now.outstanding == 0)
    assert sample.things["a"].waiting == 0


async def test_fifty_blocked_reads(mounted: House, sample: Sample, server: Server) -> None:
    """Fifty readers wait at once, while other files are read, and all get the answer."""
    process = await mounted.start(
        "bash", "-c", 'cd "$HERE"; for n in $(seq 50); do cat thing/a/level & done; wait; echo all'
    )
    await server.until(lambda now: now.outstanding == 50)
    assert (await mounted.shell("cat readme")).out == "a sample of every kind\n"
    sample.things["a"].ready.set()
    assert await ended(process) == (0, "ready\n" * 50 + "all\n", "")


async def test_more_blocked_reads_than_anybody_counts(mounted: House, sample: Sample, server: Server) -> None:
    """Some thousand wait at once, and everything else goes on."""
    program = """
import os, threading
threading.stack_size(65536)
files = [os.open("thing/a/level", os.O_RDONLY) for _ in range(1100)]
threads = [threading.Thread(target=lambda file=file: os.write(1, os.read(file, 100))) for file in files]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    waiting = await mounted.start("sh", "-c", f"ulimit -n 4096; cd $HERE; exec {sys.executable} -c '{program}'")
    await server.until(lambda now: now.outstanding == 1100)
    assert (await mounted.shell("ls; cat readme")).out == "new\nreadme\nthing\na sample of every kind\n"
    sample.things["a"].ready.set()
    assert await ended(waiting) == (0, "ready\n" * 1100, "")


async def test_tail_f(mounted: House, sample: Sample) -> None:
    """`tail -f` shows what is there and what comes; a signal ends it while it waits in a read."""
    log = sample.things["a"].log
    log.append(b"one\n")
    waiting = await mounted.blocked("tail -f -s 0.05 thing/a/log")
    assert waiting.process.stdout
    assert await waiting.process.stdout.readline() == b"one\n"
    for line in (b"two\n", b"three\n"):
        log.append(line)
        assert await waiting.process.stdout.readline() == line
    assert (await waiting.signal(signal.SIGINT)).code == -signal.SIGINT


async def test_tail_f_after_the_end(mounted: House, sample: Sample) -> None:
    """A log that has ended for now is looked at again, by its length."""
    log = sample.things["a"].log
    log.append(b"one\n")
    log.end()
    waiting = await mounted.blocked("tail -f -s 0.05 thing/a/log")
    assert waiting.process.stdout
    assert await waiting.process.stdout.readline() == b"one\n"
    log.append(b"two\n")
    assert await waiting.process.stdout.readline() == b"two\n"
    await waiting.signal(signal.SIGINT)


async def test_server_returns(house: House, server: Server, address: str) -> None:
    """A server that goes away leaves ENOTCONN behind, and the mount works again with the next one."""
    await house.serve(address)
    waiting = await house.blocked("cat thing/a/level")
    shell = await house.start("bash", "-c", 'cd "$HERE/thing"; echo; read _; cat a/label')
    assert shell.stdout
    await shell.stdout.readline()
    await server.until(lambda now: now.outstanding == 1)
    await server.close()
    assert (await ended(waiting.process)).err == "cat: thing/a/level: Transport endpoint is not connected\n"
    assert "Transport endpoint is not connected" in (await house.shell("cat readme")).err
    sample = Sample()
    sample.add("a")
    again = sample_server(sample)
    await again.listen(address)
    assert (await house.shell("cat readme; ls thing")).out == "a sample of every kind\na\nidx\n"
    assert (await shell.communicate(b"\n"))[0] == b"a\n"
    await again.close()


async def test_mount_that_ends_with_its_server(house: House, server: Server, address: str) -> None:
    """Without reconnection the mount is gone when its server is."""
    serving = await house.serve(address, "no-reconnect")
    await server.close()
    assert await ended(serving.process) == (1, "", "the server hung up\n")
    assert await house.shell("cat readme; mountpoint -q .; echo $?") == (
        0,
        "32\n",
        "cat: readme: No such file or directory\n",
    )


async def test_unmount(house: House, address: str) -> None:
    """umount(8) works, and ends the process behind the mount."""
    serving = await house.serve(address)
    assert await house.shell("cd /; umount $HERE") == (0, "", "")
    assert await ended(serving.process) == (0, "", "")


@pytest.mark.parametrize(("what", "why"), [("cancelled", "cancelled"), ("full", "Too many open files")])
async def test_a_mount_that_is_given_up(what: str, why: str, house: House, address: str) -> None:
    """Nothing stays mounted that nobody serves, in a process that goes on."""
    given_up = Path(__file__).parent / "given_up.py"
    assert await ended(await house.start(sys.executable, given_up, address, house.mount, what)) == (
        0,
        f"{why}\n",
        "",
    )


@pytest.mark.parametrize("lazy", [False, True])
async def test_only_its_own_mount_is_unmounted(lazy: bool, house: House, address: str) -> None:
    """A process whose mount was taken away, and that has not been able to notice, leaves the next one alone."""
    first = await house.serve(address)
    if lazy:
        await house.blocked("cat thing/a/level")
    await house.shell(f"kill -STOP {first.pid}")
    try:
        unmount = f"from ninep.fuse import unmount; unmount('{house.mount}', lazy={lazy})"  # umount(8) would look
        assert await ended(await house.start(sys.executable, "-c", unmount)) == (0, "", "")
        second = await house.serve(address)
        await house.shell(f"kill -TERM {first.pid}")
    finally:
        first.process.send_signal(signal.SIGCONT)  # nsenter stops with what it runs, and lets it go on
    assert (await ended(first.process)).code == 0
    assert (await house.shell("cat readme")).out == "a sample of every kind\n"
    assert await second.signal(signal.SIGTERM) == (0, "", "")


async def test_stop_while_in_use(house: House, sample: Sample, server: Server, address: str) -> None:
    """A mount that is told to end does, though files are open: readers get an error, what was written is taken."""
    serving = await house.serve(address)
    waiting = await house.blocked("cat thing/a/level")
    writer = await house.start("bash", "-c", 'cd "$HERE"; exec 3>thing/a/inbox; /bin/echo whole >&3; echo; read _')
    assert writer.stdout
    await writer.stdout.readline()
    await server.until(lambda now: now.outstanding == 1)
    assert await serving.signal(signal.SIGTERM) == (0, "", "")
    assert "cat: thing/a/level: " in (await ended(waiting.process)).err
    assert sample.things["a"].messages == [b"whole\n"]
    await server.until(lambda now: now.connections == 0)


async def test_killed_mount_is_replaced(house: House, address: str) -> None:
    """What a killed process left behind is replaced by the next mount."""
    serving = await house.serve(address)
    await serving.signal(signal.SIGKILL)
    assert "Transport endpoint is not connected" in (await house.shell("ls")).err
    await house.serve(address)
    assert (await house.shell("cat readme")).out == "a sample of every kind\n"


async def test_sandboxed_callers(mounted: House) -> None:
    """A program with no_new_privs, as every sandboxed one has it, is refused; what it was handed works."""
    done = await mounted.shell("exec 3<readme; setpriv --no-new-privs sh -c 'cat readme; ls; cat <&3'")
    assert done.out == "a sample of every kind\n"
    assert done.err.count("Permission denied") == 2


async def test_sandboxed_threads(mounted: House) -> None:
    """no_new_privs is a thread's: a thread that has it is refused, also in a program that has not."""
    program = """
import ctypes, os, threading
def read():
    try:
        return open("readme").read()
    except OSError as error:
        return error.strerror + "\\n"
def confined():
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
    print(read(), end="", flush=True)
thread = threading.Thread(target=confined)
thread.start()
thread.join()
print(read(), end="")
"""
    done = await mounted.shell(f"{sys.executable} -c '{program}'")
    assert done.out == "Permission denied\na sample of every kind\n"


async def test_callers_of_a_namespace_below(mounted: House) -> None:
    """A caller in a PID namespace below the bridge's has a pid there, by which it is judged."""
    below = "unshare --pid --fork --mount-proc"
    done = await mounted.shell(f"{below} cat readme; setpriv --no-new-privs {below} cat readme")
    assert done.out == "a sample of every kind\n"
    assert "Permission denied" in done.err


async def test_callers_of_another_pid_namespace(mounted: House) -> None:
    """A caller that cannot be looked at is refused."""
    process = await asyncio.create_subprocess_exec(
        *("nsenter", f"--target={mounted.init}", "--mount", "--", "cat", str(mounted.mount / "readme")),
        stderr=asyncio.subprocess.PIPE,
    )
    assert "Permission denied" in (await ended(process)).err


async def test_nothing_stays_open(mounted: House, server: Server) -> None:
    """Programs in turn leave nothing open at the server but what the kernel remembers."""
    await mounted.shell("for n in $(seq 50); do cat readme > /dev/null; echo x > thing/a/note; done")
    await server.until(lambda now: now.outstanding == 0)
    assert server.statistics().fids < 10
