"""Fids and tags against a model: any sequence of messages, with reads that wait and end at any time."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule
from still import still_root

from ninep import _wire
from ninep.messages import (
    Message,
    Rclunk,
    Rerror,
    Rflush,
    Ropen,
    Rread,
    Rstat,
    Rwalk,
    Tattach,
    Tclunk,
    Tflush,
    Topen,
    Tread,
    Tstat,
    Tversion,
    Twalk,
)
from ninep.testing import DirectDriver
from ninep.testing.direct import messages_of

FIDS = st.integers(0, 4)
TAGS = st.integers(1, 4)
PATHS = {"root": (), "text": ("readme",), "level": ("thing", "a", "level")}


class Fids(RuleBasedStateMachine):
    """The model: where each fid is, whether it is open or on its way out; which tags wait, and for which fid."""

    suspensions = Bundle("suspensions")

    def __init__(self) -> None:
        super().__init__()
        self.direct = DirectDriver(still_root())
        self.direct.exchange(Tversion(_wire.NOTAG, 8192, "9P2000"), Tattach(9, 0, _wire.NOFID, "glenda", ""))
        self.where = {0: "root"}
        self.open: set[int] = set()
        self.reads: dict[int, int] = {}  # tag -> fid
        self.flushes: dict[int, list[int]] = {}  # tag of the read -> tags of its Tflushes
        self.clunks: dict[int, int] = {}  # fid -> tag of its Tclunk
        self.ends: dict[int, int] = {}  # tag -> its place among the suspended

    def tags_in_use(self) -> set[int]:
        """Of requests that have not ended."""
        return set(self.reads) | set(self.clunks.values())

    def send(self, message: Message) -> list[Message]:
        """Give the replies."""
        return self.direct.exchange(message)

    @rule(tag=TAGS, fid=FIDS, newfid=FIDS, name=st.sampled_from(sorted(PATHS)))
    def walk(self, tag: int, fid: int, newfid: int, name: str) -> None:
        """By no name from anywhere, by names from the root."""
        bad = self._walk_refused(tag, fid, newfid, name)
        assert isinstance(self.send(Twalk(tag, fid, newfid, PATHS[name]))[0], Rerror if bad else Rwalk)
        if not bad and (PATHS[name] or newfid != fid):
            self.where[newfid] = name if PATHS[name] else self.where[fid]

    def _walk_refused(self, tag: int, fid: int, newfid: int, name: str) -> bool:
        """A clone of any place is fine; a walk of names from a file is not."""
        if tag in self.tags_in_use() or fid not in self.where or fid in self.clunks:
            return True
        if newfid != fid and newfid in self.where:
            return True
        if not PATHS[name]:
            return False
        return self.where[fid] != "root" or (newfid == fid and fid in self.open)

    @rule(tag=TAGS, fid=FIDS)
    def open_it(self, tag: int, fid: int) -> None:
        """Once, for reading."""
        bad = tag in self.tags_in_use() or fid not in self.where or fid in self.clunks or fid in self.open
        replies = self.send(Topen(tag, fid, _wire.OREAD))
        assert isinstance(replies[0], Rerror if bad else Ropen)
        if not bad:
            self.open.add(fid)

    @rule(tag=TAGS, fid=FIDS)
    def stat(self, tag: int, fid: int) -> None:
        """Of any fid that is there."""
        bad = tag in self.tags_in_use() or fid not in self.where or fid in self.clunks
        assert isinstance(self.send(Tstat(tag, fid))[0], Rerror if bad else Rstat)

    @rule(tag=TAGS, fid=FIDS)
    def read(self, tag: int, fid: int) -> None:
        """Of `level` it waits."""
        bad = tag in self.tags_in_use() or fid not in self.open or fid in self.clunks
        replies = self.send(Tread(tag, fid, 0, 1000))
        if bad:
            assert isinstance(replies[0], Rerror)
        elif self.where[fid] == "level":
            assert replies == []
            self.reads[tag] = fid
            self.flushes[tag] = []
            self.ends[tag] = len(self.direct.suspended) - 1
        else:
            assert isinstance(replies[0], Rread)

    @rule(tag=st.integers(5, 8), old=TAGS)
    def flush(self, tag: int, old: int) -> None:
        """Tags of their own, so that they never meet those of requests."""
        if any(tag in flushes for flushes in self.flushes.values()):
            return
        replies = self.send(Tflush(tag, old))
        if old in self.reads:
            assert replies == []
            self.flushes[old].append(tag)
            assert self.direct.suspended[self.ends[old]].cancelled
        elif old in self.clunks.values():
            assert replies == []
            self.flushes.setdefault(old, []).append(tag)
        else:
            assert replies == [Rflush(tag)]

    @rule(tag=TAGS, fid=FIDS)
    def clunk(self, tag: int, fid: int) -> None:
        """It waits for the reads of its fid."""
        bad = tag in self.tags_in_use() or fid not in self.where or fid in self.clunks
        replies = self.send(Tclunk(tag, fid))
        if bad:
            assert isinstance(replies[0], Rerror)
        elif fid in self.reads.values():
            assert replies == []
            self.clunks[fid] = tag
            self.flushes.setdefault(tag, [])
        else:
            assert replies == [Rclunk(tag)]
            self.forget(fid)

    def forget(self, fid: int) -> None:
        """A fid is free."""
        del self.where[fid]
        self.open.discard(fid)

    @precondition(lambda self: self.reads)
    @rule(data=st.data(), well=st.booleans())
    def end_a_read(self, data: st.DataObject, *, well: bool) -> None:
        """It gives data, or ends as cancelled things do."""
        tag = data.draw(st.sampled_from(sorted(self.reads)))
        fid = self.reads.pop(tag)
        flushes = self.flushes.pop(tag)
        suspended = self.direct.suspended[self.ends.pop(tag)]
        if well:
            suspended.done(b"ready", None)
            expected: list[Message] = [Rread(tag, b"ready")]
        else:
            suspended.done(None, asyncio.CancelledError())
            expected = [] if flushes else [Rerror(tag, "interrupted")]
        expected += [Rflush(flush) for flush in flushes]
        if fid in self.clunks and fid not in self.reads.values():
            clunk = self.clunks.pop(fid)
            expected += [Rclunk(clunk), *(Rflush(flush) for flush in self.flushes.pop(clunk))]
            self.forget(fid)
        assert messages_of(self.direct.take()) == expected

    @invariant()
    def counts_agree(self) -> None:
        """Nothing is forgotten, and nothing is left over."""
        assert len(self.direct.session.fids) == len(self.where)
        assert self.direct.session.outstanding == len(self.reads) + len(self.clunks)


Fids.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestFids = Fids.TestCase
