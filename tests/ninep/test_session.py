"""The session without a loop: what it makes of bytes, and what it remembers."""

import asyncio
import struct
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from still import still_root
from strategies import messages

from ninep import _wire, errors
from ninep._session import Limits
from ninep._session.fids import FAILED, MESSAGES, REPLIES, TMOVE, FidState
from ninep.errors import ProtocolError
from ninep.messages import (
    Message,
    Rclunk,
    Rerror,
    Rflush,
    Ropen,
    Rread,
    Rstat,
    Rversion,
    Rwalk,
    Rwrite,
    Tattach,
    Tclunk,
    Tflush,
    Topen,
    Tread,
    Tstat,
    Tversion,
    Twalk,
    Twrite,
    encode,
)
from ninep.testing import DirectDriver
from ninep.testing.things import MemoryText

VERSION = Tversion(_wire.NOTAG, 8192, "9P2000")
ATTACH = Tattach(0, 0, _wire.NOFID, "glenda", "")


def driver(limits: Limits | None = None, note: MemoryText | None = None) -> DirectDriver:
    """A session on a tree that needs no loop."""
    return DirectDriver(still_root(note), limits)


def begun(limits: Limits | None = None, note: MemoryText | None = None) -> DirectDriver:
    """After Tversion and Tattach."""
    direct = driver(limits, note)
    direct.exchange(VERSION, ATTACH)
    return direct


CONVERSATION: list[Message] = [
    VERSION,
    ATTACH,
    Twalk(1, 0, 1, ("thing", "a", "note")),
    Topen(1, 1, _wire.ORDWR),
    Twrite(1, 1, 0, b"x" * 3000),
    Tread(1, 1, 0, 4000),
    Tflush(2, 1),
    Twalk(1, 1, 2, ("..",)),
    Tclunk(1, 1),
    Tstat(1, 0),
    Tstat(1, 9),
]


@given(st.lists(st.integers(1, 200), min_size=1, max_size=40))
def test_how_bytes_are_cut_makes_no_difference(sizes: list[int]) -> None:
    """Byte by byte, in segments of any size, or all at once: the same replies."""
    data = b"".join(map(encode, CONVERSATION))
    whole = driver().feed(data)
    pieces, direct, at = [], driver(), 0
    while at < len(data):
        for size in sizes:
            pieces.append(direct.feed(data[at : at + size]))
            at += size
    assert b"".join(pieces) == whole


def test_a_message_one_byte_at_a_time() -> None:
    """A fragmented Tversion is a Tversion."""
    direct = driver()
    replies = [direct.feed(bytes([byte])) for byte in encode(VERSION)]
    assert [len(reply) for reply in replies[:-1]] == [0] * (len(replies) - 1)
    assert replies[-1] == encode(Rversion(_wire.NOTAG, 8192, "9P2000"))


@given(st.lists(messages, max_size=20))
@settings(max_examples=300)
def test_any_messages_are_answered_or_refused(sent: list[Message]) -> None:
    """Whatever comes after the attach, every message has one reply, or the connection ends; nothing else is raised."""
    direct = begun()
    for message in sent:
        try:
            replies = direct.exchange(message)
        except ProtocolError:
            return
        waiting = len(direct.suspended)
        assert len(replies) == 1 or waiting
        if waiting:
            return
        assert replies[0].type in {message.type + 1, _wire.RERROR}


@given(st.binary(max_size=400))
@settings(max_examples=300)
def test_any_bytes_are_answered_or_end_the_connection(data: bytes) -> None:
    """Hostile input raises ProtocolError and nothing else."""
    direct = begun()
    try:
        direct.feed(data)
    except ProtocolError:
        return


def test_the_tables_of_fids_are_whole() -> None:
    """Every state but FREE says something to every message, every wait has all its ends, and every state is reached."""
    uses = {_wire.TWALK, _wire.TOPEN, _wire.TCREATE, _wire.TREAD, _wire.TWRITE, _wire.TCLUNK, _wire.TREMOVE}
    uses |= {_wire.TSTAT, _wire.TWSTAT, TMOVE}
    texts = {text for name, text in vars(errors).items() if name.isupper()}
    assert set(MESSAGES) == set(FidState) - {FidState.FREE}
    for rules in MESSAGES.values():
        assert set(rules) == uses
        assert all(isinstance(rule, FidState) or rule in texts for rule in rules.values())
    moves = [(state, kind, rule) for state, rules in MESSAGES.items() for kind, rule in rules.items()]
    for state, kind, rule in moves:
        if isinstance(rule, FidState) and rule is not state:
            assert kind | FAILED in REPLIES[rule]
    for reply in REPLIES[FidState.OPENING]:  # a clunk waits for an open, whatever becomes of that
        assert REPLIES[FidState.ENDING][reply] is FidState.ENDING
    reached = {FidState.PENDING, *(rule for _, _, rule in moves if isinstance(rule, FidState))}
    reached |= {state for row in REPLIES.values() for state in row.values()}
    assert reached == set(FidState)


def waiting_read(direct: DirectDriver, tag: int = 5) -> None:
    """A read of `level`, which waits."""
    assert isinstance(direct.exchange(Twalk(1, 0, 1, ("thing", "a", "level")))[0], Rwalk)
    assert isinstance(direct.exchange(Topen(1, 1, 0))[0], Ropen)
    assert direct.exchange(Tread(tag, 1, 0, 100)) == []


def test_what_does_not_end_after_a_flush_is_left_to_itself() -> None:
    """Rflush comes after the time for cleaning up; what the request gives later is discarded."""
    direct = begun()
    waiting_read(direct)
    assert direct.exchange(Tflush(6, 5)) == []
    assert direct.suspended[0].cancelled
    assert direct.session.outstanding == 1
    (expire,) = direct.timers
    expire()
    assert direct.take() == encode(Rflush(6))
    assert direct.session.outstanding == 0
    direct.suspended[0].done(b"late", None)
    assert direct.take() == b""


def test_a_request_that_ends_well_in_spite_of_a_flush_is_answered_first() -> None:
    """The client has to honour a reply that comes before Rflush."""
    direct = begun()
    waiting_read(direct)
    direct.exchange(Tflush(6, 5))
    direct.suspended[0].done(b"ready", None)
    assert direct.take() == encode(Rread(5, b"ready")) + encode(Rflush(6))
    assert direct.timers == []


def test_a_flush_of_a_flush_takes_its_answer_away() -> None:
    """The flushed Tflush is not answered; the request then is, for nobody else speaks for it."""
    direct = begun()
    waiting_read(direct)
    assert direct.exchange(Tflush(6, 5)) == []
    assert direct.exchange(Tflush(7, 6)) == [Rflush(7)]
    direct.suspended[0].done(None, asyncio.CancelledError())
    assert direct.take() == encode(Rerror(5, "interrupted"))


def test_the_tag_of_a_flush_under_way_is_in_use() -> None:
    """For another Tflush as for anything else; the first is answered all the same."""
    direct = begun()
    waiting_read(direct)
    assert direct.exchange(Tflush(6, 5)) == []
    assert direct.exchange(Tflush(6, 5)) == [Rerror(6, "tag already in use")]
    assert direct.exchange(Tstat(6, 0)) == [Rerror(6, "tag already in use")]
    direct.suspended[0].done(None, asyncio.CancelledError())
    assert direct.take() == encode(Rflush(6))


def test_a_clunk_waits_for_what_it_cancels() -> None:
    """Until Rclunk the number is in use, and the fid unknown."""
    direct = begun()
    waiting_read(direct)
    assert direct.exchange(Tclunk(6, 1)) == []
    assert direct.exchange(Twalk(7, 0, 1, ())) == [Rerror(7, "fid already in use")]
    assert direct.exchange(Tstat(7, 1)) == [Rerror(7, "unknown fid")]
    assert direct.exchange(Tflush(8, 6)) == []
    direct.suspended[0].done(None, asyncio.CancelledError())
    assert direct.take() == encode(Rerror(5, "interrupted")) + encode(Rclunk(6)) + encode(Rflush(8))
    assert direct.exchange(Twalk(7, 0, 1, ())) == [Rwalk(7, ())]


def test_a_new_version_waits_for_what_it_aborts() -> None:
    """Input is held until everything of the old session has ended; then it goes on with nothing of it."""
    direct = begun()
    waiting_read(direct)
    assert direct.exchange(VERSION, ATTACH, Tstat(1, 1)) == []
    assert direct.session.then is not None
    direct.suspended[0].done(None, asyncio.CancelledError())
    assert direct.exchange()[0] == Rversion(_wire.NOTAG, 8192, "9P2000")
    assert direct.session.then is None
    assert direct.exchange(Tstat(5, 0))[0].type == _wire.RSTAT


def test_a_lost_connection_ends_everything() -> None:
    """`closed` comes when the last request has ended, and nothing is sent."""
    direct = begun()
    waiting_read(direct)
    direct.session.close()
    assert not direct.is_closed
    direct.suspended[0].done(None, asyncio.CancelledError())
    assert direct.is_closed
    assert (len(direct.session.fids), direct.session.outstanding, direct.take()) == (0, 0, b"")


def test_a_lost_connection_does_not_wait_for_ever() -> None:
    """What does not end within the time for cleaning up is left to itself."""
    direct = begun()
    waiting_read(direct)
    direct.session.close()
    (expire,) = direct.timers
    expire()
    assert direct.is_closed


def test_a_bug_in_a_callback_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    """Its request gets an error, its traceback goes to the log, and the session goes on."""
    direct = begun()
    waiting_read(direct)
    direct.suspended[0].done(None, RuntimeError("a bug"))
    assert direct.take() == encode(Rerror(5, "internal error"))
    assert "a bug" in caplog.text
    assert isinstance(direct.exchange(Tstat(1, 1))[0], Rstat)


def test_too_many_fids() -> None:
    """The limit is told, and clunking makes room."""
    direct = begun(Limits(fids=2))
    assert direct.exchange(Twalk(1, 0, 1, ()), Twalk(1, 0, 2, ())) == [Rwalk(1, ()), Rerror(1, "too many fids")]
    assert direct.exchange(Tclunk(1, 1), Twalk(1, 0, 2, ())) == [Rclunk(1), Rwalk(1, ())]


_AGREED = Tversion(_wire.NOTAG, 2**20, "9P2000")
_ATTACHED = Tattach(1, 0, _wire.NOFID, "glenda", "")


@pytest.mark.parametrize(
    "begun", [(), (Tversion(_wire.NOTAG, 8192, "9P1999"),), (_AGREED,), (_AGREED, _ATTACHED, _AGREED)]
)
def test_a_long_message_comes_after_the_attach(begun: tuple[Message, ...]) -> None:
    """Who has not attached cannot have the server keep more than 8 KiB, whatever msize was agreed on."""
    start = struct.pack("<IBH", 8193, _wire.TWRITE, 1)
    direct = driver()
    direct.exchange(*begun)
    with pytest.raises(ProtocolError, match="message of 8193 bytes is longer than the msize of 8192"):
        direct.feed(start)
    direct = driver()
    direct.exchange(*begun, _AGREED, _ATTACHED)
    assert direct.feed(start) == b""


def test_too_many_requests() -> None:
    """What frees something is answered all the same."""
    direct = begun(Limits(requests=1))
    waiting_read(direct)
    assert direct.exchange(Tstat(6, 1)) == [Rerror(6, "too many requests outstanding")]
    assert direct.exchange(Tflush(6, 5)) == []
    direct.suspended[0].done(None, asyncio.CancelledError())
    assert direct.take() == encode(Rflush(6))


def test_too_many_bytes() -> None:
    """Writes that wait may hold so much and no more."""
    direct = begun(Limits(written_bytes=10))
    direct.exchange(Twalk(1, 0, 1, ("thing", "a", "ctl")))
    direct.exchange(Topen(1, 1, _wire.OWRITE))
    assert direct.exchange(Twrite(5, 1, 0, b"wait")) == []
    assert direct.exchange(Twrite(6, 1, 0, b"echo xx")) == [Rerror(6, "too many bytes outstanding")]
    direct.suspended[0].done(4, None)
    assert direct.take() == encode(Rwrite(5, 4))
    assert direct.session.written_bytes == 0


def test_output_is_handed_out_in_between() -> None:
    """Many large replies to one segment do not pile up: the session stops until what it has is written."""
    note = MemoryText()
    note.data = b"x" * 8000
    direct = begun(note=note)
    direct.exchange(Twalk(1, 0, 1, ("thing", "a", "note")), Topen(1, 1, 0))
    more = direct.session.process(b"".join(encode(Tread(tag, 1, 0, 8000)) for tag in range(100)))
    sizes = [len(direct.take())]
    while more:
        more = direct.session.process()
        sizes.append(len(direct.take()))
    assert sum(sizes) == 100 * 8011
    assert max(sizes) < 64 * 1024 + 8011


def test_a_long_error_is_cut_between_characters() -> None:
    """An ename fits into the msize, and stays UTF-8."""
    direct = driver()
    direct.exchange(Tversion(_wire.NOTAG, 256, "9P2000"), ATTACH)
    direct.session.send(direct.session.rerror(1, "é" * 300))
    (reply,) = map(partial(Rerror, 1), ["é" * 123])
    assert direct.take() == encode(reply)
