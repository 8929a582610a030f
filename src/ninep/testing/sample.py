"""A tree with a file of each kind, whose events come when the test says so.

readme text      status of the sample      slow request: answers when released
thing/{thing}/   label name ctl note log change level queue inbox ask
thing/later      is looked for, by a walk or a create, until the search is ended
"""

from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

from ninep._session import check_name
from ninep.errors import NinepError
from ninep.files import (
    Control,
    Dir,
    Each,
    Entry,
    Level,
    Log,
    Queue,
    Request,
    Sink,
    StoredText,
    Text,
    Watch,
)
from ninep.files.control import command_text
from ninep.server import AfidConversation, Conn, Server
from ninep.testing.things import Sample, Thing
from ninep.tree import Peer, Role, Tree


async def _command(thing: Thing, _peer: Any, text: str) -> str:
    verb, _, rest = text.partition(" ")
    if verb == "echo":
        return rest + "\n"
    if verb == "wait":
        await thing.wait()
        return "waited\n"
    if verb == "change":
        thing.changes.add(rest.encode() + b"\n")
        return ""
    raise NinepError(f"unknown command: {verb}")


def _check(_thing: Thing, _peer: Any, data: bytes, _size: int) -> None:
    if b"\0" in data:
        raise NinepError("message contains NUL")


async def _level(thing: Thing, _peer: Any) -> bytes:
    await thing.ready.wait()
    return b"ready\n"


async def _put(thing: Thing, _peer: Any, data: bytes) -> None:
    thing.queue.append(data)


async def _remove(sample: Sample, _peer: Any, thing: Thing) -> None:
    await sample.remove(thing)


async def _rename(sample: Sample, _peer: Any, thing: Thing, name: str) -> None:
    await sample.rename(thing, name)


async def _create(sample: Sample, _peer: Any, name: str) -> Thing:
    if name.startswith("bad"):
        raise NinepError("bad name")
    return sample.add(name)


async def _make(sample: Sample, _peer: Any, data: bytes) -> None:
    name = command_text(data).strip()
    check_name(name)
    if name in sample.things:
        raise NinepError(f"thing exists: {name}")
    sample.add(name)


async def _make_and_tell(sample: Sample, peer: Any, data: bytes) -> AsyncIterator[bytes]:
    await _make(sample, peer, data)
    yield data.strip() + b"\n"


async def _change(thing: Thing, _peer: Any, data: bytes) -> None:
    if data.startswith(b"bad"):
        raise NinepError("bad change")
    thing.changes.add(data)


async def _slow_render(thing: Thing, _peer: Any) -> bytes:
    await thing.released.wait()
    return b"slow\n"


def _find(sample: Sample, _peer: Any, name: str) -> Thing | Awaitable[Thing | None] | None:
    return sample.search(name) if name == "later" else sample.things.get(name)


def _names(sample: Sample, _peer: Any) -> Iterable[tuple[str, Thing]]:
    return sample.things.items()


THING: tuple[Entry[Thing], ...] = (
    Text("label", 0o440, "Its name.", render=lambda thing, _: thing.name.encode() + b"\n"),
    Text("slow", 0o440, "Text that takes a while to make.", render=_slow_render),
    StoredText("note", 0o660, "Text kept.", buffer=lambda thing: thing.note),
    Control("ctl", 0o660, "Commands.", command=_command, text=lambda _thing, _peer: b"echo wait change\n"),
    Log("log", 0o440, "What happened.", log=lambda thing: thing.log),
    Watch(
        "change",
        0o660,
        "The next change.",
        watch=lambda thing, peer: thing.changes.watch(peer.uname),
        take=_change,
        pause_s=0.01,
    ),
    Level("level", 0o440, "Waits until it is ready.", wait=_level),
    Queue("queue", 0o660, "Entries.", put=_put, head=lambda thing, _: thing.head()),
    Sink("inbox", 0o220, "Messages.", take=lambda thing, _, data: thing.take(data), check=_check),
    Request("ask", 0o660, "Questions.", run=lambda thing, _, data: thing.answer(data)),
    Text("secret", 0o400, "For the user only.", render=lambda _thing, _peer: b"secret\n"),
)

ROOT: tuple[Entry[Sample], ...] = (
    Text("readme", 0o444, "A text.", render=lambda _sample, _peer: b"a sample of every kind\n"),
    Request("new", 0o660, "Makes a thing.", run=_make_and_tell, bare=_make),
    Dir(
        "thing",
        "All things.",
        (
            Text(
                "idx",
                0o440,
                "Their names.",
                render=lambda sample, _: b"".join(n.encode() + b"\n" for n in sample.things),
            ),
            Each(
                "{thing}",
                "One thing.",
                find=_find,
                names=_names,
                entries=THING,
                remove=_remove,
                create=_create,
                rename=_rename,
            ),
        ),
    ),
)


def sample_tree(sample: Sample) -> Tree:
    """Its tree."""
    return Tree(ROOT, sample, uid="owner")


def sample_server(sample: Sample, **options: Any) -> Server:
    """A server of it: `guest` is other, `member` group, everybody else the user; uname `nobody` is refused."""

    async def attach(_conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> Peer:
        if uname == "nobody":
            raise NinepError("permission denied")
        sample.attaches.append((uname, aname))
        roles = {"guest": Role.OTHER, "member": Role.GROUP}
        return Peer(uname, aname, roles.get(uname, Role.USER))

    options.setdefault("on_error", sample.on_error)
    return Server(sample_tree(sample), attach, **options)
