"""Trees: names, options, permissions, directories that are asked for asynchronously."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninep.errors import NinepError
from ninep.files import Dir, Each, Entry, Peer, Role, Text, Tree
from ninep.messages import Qid, Stat
from ninep.server import AfidConversation, Conn, Server
from ninep.testing import Sample, connected, sample_tree
from ninep.testing.sample import ROOT, THING
from ninep.tree import WANT_READ, WANT_REMOVE, WANT_WALK, WANT_WRITE, Options, Place, permit_by_mode


def text(name: str, mode: int = 0o444) -> Text[Any]:
    """A text of its own name."""
    return Text(name, mode, "Its name.", render=lambda _obj, _peer: name.encode())


@pytest.mark.parametrize(
    ("aname", "name", "options"),
    [
        ("", "", Options()),
        ("kernel", "", Options(kernel=True)),
        ("yield=5", "", Options(yield_s=5)),
        ("yield=0.5,kernel", "", Options(yield_s=0.5, kernel=True)),
        ("agent-1", "agent-1", Options()),
        ("agent-1,yield=5", "agent-1", Options(yield_s=5)),
        ("agent-1 kernel yield=5", "agent-1", Options(yield_s=5, kernel=True)),
        ("a name, with blanks, kernel", "a name, with blanks", Options(kernel=True)),
        ("kernel,agent-1", "kernel,agent-1", Options()),
        ("mykernel", "mykernel", Options()),
    ],
)
def test_options_end_an_aname(aname: str, name: str, options: Options) -> None:
    """What is before them is the aname, untouched."""
    assert Options.split(aname) == (name, options)


@pytest.mark.parametrize("option", ["yield=", "yield=soon", "yield=-1", "yield=inf", "yield=nan"])
def test_a_bad_option_is_refused(option: str) -> None:
    """The error names it."""
    with pytest.raises(NinepError, match=f"bad option: {option}"):
        Options.split(f"tree,{option}")


@pytest.mark.parametrize(
    ("role", "want", "allowed"),
    [
        (Role.USER, WANT_READ | WANT_WRITE, True),
        (Role.USER, WANT_WALK, False),
        (Role.GROUP, WANT_READ, True),
        (Role.GROUP, WANT_WRITE, False),
        (Role.OTHER, WANT_READ, False),
        (Role.OTHER, WANT_WRITE, False),
        (Role.USER, WANT_REMOVE, True),
        (Role.GROUP, WANT_REMOVE, False),
    ],
)
def test_mode_bits_by_role(*, role: Role, want: int, allowed: bool) -> None:
    """A file of 0640."""
    peer, entry = Peer("glenda", "", role), text("x", 0o640)
    if allowed:
        permit_by_mode(peer, entry, (), want)
        return
    with pytest.raises(NinepError, match="permission denied"):
        permit_by_mode(peer, entry, (), want)


@pytest.mark.parametrize(
    "entries",
    [
        (text("a"), text("a")),
        (Each("{a}", "", find=lambda *_: None, names=lambda *_: (), entries=()),) * 2,
    ],
)
def test_a_table_that_cannot_be_is_refused(entries: tuple[Entry[Any], ...]) -> None:
    """A name twice, two directories of unknown names: a mistake in the program."""
    with pytest.raises(AssertionError):
        Tree(entries, object())


def test_a_table_with_a_bad_name_is_refused() -> None:
    """As a walk would refuse it."""
    with pytest.raises(NinepError, match="illegal name"):
        Tree((text("a/b"),), object())


def test_qid_paths_belong_to_the_object_and_the_entry() -> None:
    """All differ, and each is made of the object's number and the entry's index."""
    sample = Sample()
    for name in "abc":
        sample.add(name)
    root = sample_tree(sample).root(Peer("glenda", "", Role.USER))

    def all_paths(place: Any) -> Iterable[int]:
        yield Qid.parse(place.qid()).path
        if place.is_dir:
            for child in place.children():
                yield from all_paths(child)

    paths = list(all_paths(root))
    assert len(paths) == len(set(paths)) == len(ROOT) + 2 + 3 * (1 + len(THING))
    assert {path >> 16 for path in paths} == {0, 1, 2, 3}


def thing(number: int) -> SimpleNamespace:
    """An object with directories of its own below it."""
    return SimpleNamespace(number=number, gone=False, things={})


def find(obj: Any, _peer: Any, name: str) -> Any:
    """At once."""
    return obj.things.get(name)


async def find_later(obj: Any, _peer: Any, name: str) -> Any:
    """Has to be waited for."""
    return obj.things.get(name)


def walked(place: Place, names: Sequence[str]) -> tuple[Place, list[bytes]]:
    """Where a walk ends, and its qids."""
    walk = place.walk(names)
    end, qids = walk if isinstance(walk, tuple) else asyncio.run(cast("Coroutine[Any, Any, Any]", walk))
    return end, list(qids)


DEEP: tuple[Entry[Any], ...] = (
    text("file"),
    Dir("shut", "Nobody walks on.", (text("file"),), mode=0o440),
    Dir("empty", "Not filled.", (text("file"),), filled=lambda _obj, _peer: False),
    Each("{now}", "Found at once.", find, lambda *_: (), (text("file"), Dir("dir", "", (text("file"),)))),
)
LATER = Each("{later}", "Waited for.", find_later, lambda *_: (), DEEP)
NAMES = ["file", "dir", "shut", "empty", "one", "two", "no such", "..", ".", "", "a/b", "\udcff", "nul\0"]


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=16))
def test_a_walk_is_as_long_as_its_names_one_by_one(names: list[str]) -> None:
    """It ends where a step by itself fails, with the same qids, and fails only when the first step does."""
    top, one, two = thing(0), thing(1), thing(2)
    top.things["one"], one.things["two"] = one, two
    place = root = Tree((Dir("dir", "", (text("file"), LATER)), text("file"), LATER), top).root(
        Peer("glenda", "", Role.USER)
    )
    steps: list[bytes] = []
    failure = ""
    for name in names:
        try:
            place, (qid,) = walked(place, [name])
        except NinepError as error:
            failure = str(error)
            break
        steps.append(qid)
    if not steps:
        with pytest.raises(NinepError, match=f"^{failure}$"):
            walked(root, names)
        return
    end, qids = walked(root, names)
    assert (end.path(), end.qid(), qids) == (place.path(), steps[-1], steps)


def test_nothing_is_walked_from_what_is_gone() -> None:
    """Not even to the directory above; a fid there can still be copied."""
    top, one = thing(0), thing(1)
    top.things["one"] = one
    place, _ = walked(Tree((LATER,), top).root(Peer("glenda", "", Role.USER)), ["one"])
    one.gone = True
    for name in ("file", "two", ".."):
        with pytest.raises(NinepError, match="file does not exist"):
            walked(place, [name])
    assert walked(place, []) == (place, [])


def test_uid_and_gid_are_those_of_the_tree() -> None:
    """Every file has them, and the process's user is the default."""
    tree = Tree((text("a"),), object(), gid="agent")
    stat = Stat.parse(tree.root(Peer("glenda", "", Role.USER)).stat())
    assert (stat.uid, stat.gid, stat.name) == (tree.uid, "agent", "/")
    assert tree.uid


class Child:
    """An object that somebody has to be asked for."""

    def __init__(self, name: str, number: int) -> None:
        self.label, self.number = name, number


class Remote:
    """Finds its children slowly."""

    def __init__(self) -> None:
        self.children = {name: Child(name, number) for number, name in enumerate("abc", 1)}
        self.asked = 0

    async def find(self, name: str) -> Child | None:
        """After a while."""
        self.asked += 1
        await asyncio.sleep(0)
        return self.children.get(name)

    async def names(self) -> list[tuple[str, Child]]:
        """After a while."""
        await asyncio.sleep(0)
        return list(self.children.items())


def remote_tree(remote: Remote) -> Tree:
    """Its children, each with a text and a directory."""
    entries: tuple[Entry[Child], ...] = (
        Text("label", 0o444, "", render=lambda child, _: child.label.encode()),
        Dir("deeper", "", (Text("still", 0o444, "", render=lambda child, _: child.label.encode() * 2),)),
    )
    each: Each[Remote, Child] = Each(
        "{child}",
        "A child.",
        find=lambda remote, _, name: remote.find(name),
        names=lambda remote, _: remote.names(),
        entries=entries,
    )
    return Tree((each,), remote)


async def attach(_conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> Peer:
    """Everybody."""
    return Peer(uname, aname, Role.USER)


async def test_children_that_have_to_be_waited_for() -> None:
    """Walks, listings and failures are the same as of those that are there at once."""
    remote = Remote()
    server = Server(remote_tree(remote), attach)
    async with connected(server) as client:
        assert [entry.name for entry in await client.ls()] == ["a", "b", "c"]
        assert await client.read("a/label") == b"a"
        assert await client.read("b/../c/deeper/still") == b"cc"
        for path in ("nothing", "a/nothing", "a/../nothing/label"):
            with pytest.raises(NinepError, match="file does not exist"):
                await client.read(path)
        walks = [client.read(f"{name}/label") for name in "abc" * 10]
        assert await asyncio.gather(*walks) == [b"a", b"b", b"c"] * 10
        await server.until(lambda now: now.fids == 1)
    await server.close()


async def test_a_directory_with_more_entries_than_one_reply_holds() -> None:
    """Each is there once, though things come and go meanwhile."""
    sample = Sample()
    names = [f"thing-with-a-long-name-{number}" for number in range(500)]
    for name in names:
        sample.add(name)
    server = Server(sample_tree(sample), attach)
    async with connected(server) as client, await client.open("thing") as directory:
        data = await directory.read(count=1000)
        await sample.remove(sample.things[names[400]])
        sample.add("late")
        while piece := await directory.read(count=1000):
            data += piece
    from ninep.messages import parse_directory

    assert [entry.name for entry in parse_directory(data)] == ["idx", *names]
    await server.close()


async def test_permit_sees_the_objects_on_the_way() -> None:
    """From the top down to the nearest, at each step."""
    seen: list[tuple[str, int, int]] = []

    def permit(_peer: Peer, entry: Entry[Any], objs: tuple[Any, ...], want: int) -> None:
        seen.append((entry.name, len(objs), want))

    sample = Sample()
    sample.add("a")
    server = Server(Tree(ROOT, sample, permit=permit), attach)
    async with connected(server) as client:
        await client.read("thing/a/label")
    assert seen == [("/", 1, WANT_WALK), ("thing", 1, WANT_WALK), ("{thing}", 2, WANT_WALK), ("label", 2, WANT_READ)]
    await server.close()


async def test_a_directory_may_be_empty_for_now() -> None:
    """While it says so nothing is listed or found in it; then everything is."""
    filled: list[str] = []
    table = (Dir("d", "x", (text("f"),), filled=lambda _obj, peer: peer.uname in filled),)
    server = Server(Tree(table, None), attach)
    async with connected(server, uname="me") as client:
        assert await client.ls("d") == []
        with pytest.raises(NinepError, match="file does not exist"):
            await client.read("d/f")
        filled.append("me")
        assert [entry.name for entry in await client.ls("d")] == ["f"]
        assert await client.read("d/f") == b"f"
    async with connected(server, uname="you") as client:
        assert await client.ls("d") == []
    await server.close()
