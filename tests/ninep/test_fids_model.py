"""Fids and tags against a model: any sequence of messages, with requests that wait and end at any time."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from still import still_root

from ninep import _wire
from ninep._session import OpenFile
from ninep.errors import NinepError
from ninep.messages import (
    Message,
    Rattach,
    Rclunk,
    Rerror,
    Rflush,
    Ropen,
    Rread,
    Rremove,
    Rstat,
    Rversion,
    Rwalk,
    Tattach,
    Tclunk,
    Tflush,
    Topen,
    Tread,
    Tremove,
    Tstat,
    Tversion,
    Twalk,
)
from ninep.testing import DirectDriver

FIDS = st.integers(0, 4)
TAGS = st.integers(1, 4)
FAR = ("slow", "far")  # a walk that waits, and ends at `kept`
PATHS = {
    "root": (),
    "text": ("readme",),
    "level": ("thing", "a", "level"),
    "slow": ("slow", "text"),
    "kept": ("slow", "kept"),
    "far": FAR,
}
BEGIN = (Tversion(_wire.NOTAG, 8192, "9P2000"), Tattach(9, 0, _wire.NOFID, "glenda", ""))

Told = tuple[type[Message], int]


class Opened(OpenFile):
    """What an open that waited gives."""

    def read(self, offset: int, count: int) -> bytes:
        """A piece of it."""
        return b"text"[offset : offset + count]


@dataclass
class Handle:
    """A fid: where it is, `pending`, `placed`, `opening`, `open` or `ending`."""

    where: str
    state: str = "placed"

    @property
    def known(self) -> bool:
        """Whether messages may name it."""
        return self.state not in {"pending", "ending"}


@dataclass
class Wait:
    """A request that has not ended.

    Args:
        kind: `read`, `open`, `walk`, `clunk` or `remove`.
        fid: of which fid; None for none.
        at: its place among what is suspended; None while it waits for the others of its fid.
        newfid: of a walk.
        flushes: the tags of its Tflushes.
    """

    kind: str
    fid: int
    at: int | None
    newfid: int = -1
    flushes: list[int] = field(default_factory=list)


class Fids(RuleBasedStateMachine):
    """The model: the fids, and what waits, by tag."""

    def __init__(self) -> None:
        super().__init__()
        self.root = still_root()
        self.direct = DirectDriver(self.root)
        self.direct.exchange(*BEGIN)
        self.fids = {0: Handle("root")}
        self.waits: dict[int, Wait] = {}

    def told(self, *messages: Message) -> list[Told]:
        """Types and tags of the replies."""
        return [(type(reply), reply.tag) for reply in self.direct.exchange(*messages)]

    def known(self, tag: int, fid: int) -> bool:
        """Whether a message with this tag about this fid is looked at."""
        return tag not in self.waits and fid in self.fids and self.fids[fid].known

    def newest(self) -> int:
        """The place of what was suspended last."""
        return len(self.direct.suspended) - 1

    @rule(tag=TAGS, fid=FIDS)
    def attach(self, tag: int, fid: int) -> None:
        """Another root."""
        bad = tag in self.waits or fid in self.fids
        assert self.told(Tattach(tag, fid, _wire.NOFID, "glenda", "")) == [(Rerror if bad else Rattach, tag)]
        if not bad:
            self.fids[fid] = Handle("root")

    @rule(tag=TAGS, fid=FIDS, newfid=FIDS, name=st.sampled_from(sorted(PATHS)))
    def walk(self, tag: int, fid: int, newfid: int, name: str) -> None:
        """By no name from anywhere, by names from the root; to `far` it waits."""
        bad = self._walk_refused(tag, fid, newfid, name)
        replies = self.told(Twalk(tag, fid, newfid, PATHS[name]))
        if bad:
            assert replies == [(Rerror, tag)]
        elif name == "far":
            assert replies == []
            self.waits[tag] = Wait("walk", fid, self.newest(), newfid)
            if newfid != fid:
                self.fids[newfid] = Handle("nowhere", "pending")
        else:
            assert replies == [(Rwalk, tag)]
            if newfid != fid:
                self.fids[newfid] = Handle(name if PATHS[name] else self.fids[fid].where)
            elif PATHS[name]:
                self.fids[fid].where = name

    def _walk_refused(self, tag: int, fid: int, newfid: int, name: str) -> bool:
        """A clone of any place is fine; a walk of names from a file is not."""
        if not self.known(tag, fid) or (newfid != fid and newfid in self.fids):
            return True
        if not PATHS[name]:
            return False
        return self.fids[fid].where != "root" or (newfid == fid and self.fids[fid].state != "placed")

    @rule(tag=TAGS, fid=FIDS)
    def open_it(self, tag: int, fid: int) -> None:
        """Once, for reading; of `slow` it waits."""
        bad = not self.known(tag, fid) or self.fids[fid].state != "placed"
        replies = self.told(Topen(tag, fid, _wire.OREAD))
        if bad:
            assert replies == [(Rerror, tag)]
        elif self.fids[fid].where == "slow":
            assert replies == []
            self.waits[tag] = Wait("open", fid, self.newest())
            self.fids[fid].state = "opening"
        else:
            assert replies == [(Ropen, tag)]
            self.fids[fid].state = "open"

    @rule(tag=TAGS, fid=FIDS)
    def stat(self, tag: int, fid: int) -> None:
        """Of any fid that is there."""
        assert self.told(Tstat(tag, fid)) == [(Rstat if self.known(tag, fid) else Rerror, tag)]

    @rule(tag=TAGS, fid=FIDS)
    def read(self, tag: int, fid: int) -> None:
        """Of `level` it waits."""
        bad = not self.known(tag, fid) or self.fids[fid].state != "open"
        replies = self.told(Tread(tag, fid, 0, 1000))
        if not bad and self.fids[fid].where == "level":
            assert replies == []
            self.waits[tag] = Wait("read", fid, self.newest())
        else:
            assert replies == [(Rerror if bad else Rread, tag)]

    @rule(tag=st.integers(5, 8), old=TAGS)
    def flush(self, tag: int, old: int) -> None:
        """Tags of their own, so that they never meet those of requests."""
        if any(tag in wait.flushes for wait in self.waits.values()):
            return
        replies = self.told(Tflush(tag, old))
        if old not in self.waits:
            assert replies == [(Rflush, tag)]
            return
        assert replies == []
        wait = self.waits[old]
        wait.flushes.append(tag)
        assert wait.at is None or self.direct.suspended[wait.at].cancelled

    @rule(tag=TAGS, fid=FIDS, kind=st.sampled_from(("clunk", "remove")))
    def end_fid(self, tag: int, fid: int, kind: str) -> None:
        """It waits for whatever waits on behalf of its fid; only `kept` can be removed, and that waits by itself."""
        bad = not self.known(tag, fid)
        busy = any(wait.fid == fid for wait in self.waits.values())
        replies = self.told(Tclunk(tag, fid) if kind == "clunk" else Tremove(tag, fid))
        if bad:
            assert replies == [(Rerror, tag)]
            return
        self.waits[tag] = Wait(kind, fid, None)
        self.fids[fid].state = "ending"
        assert replies == ([] if busy else self.go_on(fid))

    # The same where it matters most: chance alone would seldom get there

    def free_tag(self, data: st.DataObject) -> int:
        """One that nothing waits with, if only the fifth."""
        return data.draw(st.sampled_from([tag for tag in range(1, 5) if tag not in self.waits] or [10]))

    @precondition(lambda self: len(self.fids) < 5)
    @rule(data=st.data(), name=st.sampled_from(("slow", "level", "kept", "far")))
    def visit(self, data: st.DataObject, name: str) -> None:
        """Walk to something that waits, from a root which this makes where there is none, and open and read it."""
        free = [fid for fid in range(5) if fid not in self.fids]
        fid = data.draw(st.sampled_from(free))
        roots = [root for root, handle in self.fids.items() if handle.where == "root" and handle.known]
        if not roots:
            self.attach(self.free_tag(data), fid)
            return
        self.walk(self.free_tag(data), roots[0], fid, name)
        self.open_it(self.free_tag(data), fid)
        self.read(self.free_tag(data), fid)

    @precondition(lambda self: any(self.fids[wait.fid].known for wait in self.waits.values()))
    @rule(data=st.data(), kind=st.sampled_from(("clunk", "remove")))
    def end_what_waits(self, data: st.DataObject, kind: str) -> None:
        """Clunk or remove the fid of what waits."""
        fids = sorted({wait.fid for wait in self.waits.values() if self.fids[wait.fid].known})
        self.end_fid(self.free_tag(data), data.draw(st.sampled_from(fids)), kind)

    def go_on(self, fid: int) -> list[Told]:
        """What comes when nothing runs on behalf of a fid any more: its end, if that is what was waited for."""
        waits = {tag: wait for tag, wait in self.waits.items() if wait.fid == fid}
        if len(waits) != 1:
            return []
        ((tag, wait),) = waits.items()
        if wait.kind not in {"clunk", "remove"}:
            return []
        if wait.kind == "remove" and self.fids[fid].where == "kept":
            wait.at = self.newest()
            return []
        del self.waits[tag], self.fids[fid]
        return [(Rclunk if wait.kind == "clunk" else Rerror, tag), *((Rflush, flush) for flush in wait.flushes)]

    @precondition(lambda self: any(wait.at is not None for wait in self.waits.values()))
    @rule(data=st.data(), how=st.sampled_from(("well", "half way", "refused", "cancelled")))
    def end_a_wait(self, data: st.DataObject, how: str) -> None:
        """It gives what was asked for, only a walk can end half way, or it ends as cancelled things do."""
        tag = data.draw(st.sampled_from(sorted(tag for tag, wait in self.waits.items() if wait.at is not None)))
        wait = self.waits.pop(tag)
        assert wait.at is not None
        suspended = self.direct.suspended[wait.at]
        if how == "refused":
            suspended.done(None, NinepError("no"))
        elif how == "cancelled":
            suspended.done(None, asyncio.CancelledError())
        else:
            suspended.done(self._result(wait.kind, half=how == "half way"), None)
        replies = self.told()
        expected = self._ended(tag, wait, how)
        expected += [(Rflush, flush) for flush in wait.flushes]
        if wait.kind not in {"clunk", "remove"}:
            expected += self.go_on(wait.fid)
        assert replies == expected

    def _result(self, kind: str, *, half: bool) -> object:
        if kind == "walk":
            walked = self.root.walk(("slow",) if half else PATHS["kept"])
            assert isinstance(walked, tuple)
            return walked
        return {"read": b"ready", "open": Opened()}.get(kind)

    def _ended(self, tag: int, wait: Wait, how: str) -> list[Told]:
        """The reply to it, and what becomes of its fids."""
        failed = how in {"refused", "cancelled"}
        replies: dict[str, type[Message]] = {"read": Rread, "open": Ropen, "walk": Rwalk, "remove": Rremove}
        reply = Rerror if failed else replies[wait.kind]
        handle = self.fids[wait.fid]
        if wait.kind == "remove":
            del self.fids[wait.fid]
        elif wait.kind == "open" and handle.state == "opening":
            handle.state = "placed" if failed else "open"
        elif wait.kind == "walk" and wait.newfid != wait.fid:
            del self.fids[wait.newfid]
            if how == "well":
                self.fids[wait.newfid] = Handle("kept")
        elif wait.kind == "walk" and how == "well":
            if handle.state == "placed":
                handle.where = "kept"
            else:
                reply = Rerror
        return [] if how == "cancelled" and wait.flushes else [(reply, tag)]

    @precondition(lambda self: len(self.waits) > 1)
    @rule()
    def version(self) -> None:
        """All that waits ends without a reply, and the session begins anew."""
        assert self.told(*BEGIN) == []
        self._end_all()
        assert self.told() == [(Rversion, _wire.NOTAG), (Rattach, 9)]
        self.fids = {0: Handle("root")}

    def _end_all(self) -> None:
        for suspended in self.direct.suspended:  # what ends may let something begin
            suspended.done(None, asyncio.CancelledError())
        self.waits = {}

    def teardown(self) -> None:
        """The connection is lost."""
        self.direct.session.close()
        self._end_all()
        assert self.direct.is_closed
        assert (len(self.direct.session.fids), self.direct.session.outstanding, self.direct.timers) == (0, 0, [])

    @invariant()
    def counts_agree(self) -> None:
        """Nothing is forgotten, and nothing is left over."""
        assert set(self.direct.session.fids) == set(self.fids)
        assert self.direct.session.outstanding == len(self.waits)


Fids.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestFids = Fids.TestCase
