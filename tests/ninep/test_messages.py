"""Messages and their bytes."""

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import messages, stats

from ninep import _wire
from ninep.errors import ProtocolError
from ninep.messages import (
    MESSAGES,
    Message,
    Qid,
    Rerror,
    Rread,
    Rwalk,
    Stat,
    Tclunk,
    Topen,
    Tread,
    Tversion,
    Twalk,
    Twrite,
    Twstat,
    decode,
    encode,
    parse_directory,
)

# Written down from section 5 of the manual, field by field.
TABLE: list[tuple[Message, str]] = [
    (Tversion(0xFFFF, 8192, "9P2000"), "13000000 64 ffff 00200000 0600 395032303030"),
    (Twalk(1, 2, 3, ("a", "bc")), "18000000 6e 0100 02000000 03000000 0200 0100 61 0200 6263"),
    (Twalk(1, 2, 3, ()), "11000000 6e 0100 02000000 03000000 0000"),
    (Rwalk(1, (Qid(0x80, 2, 3),)), "16000000 6f 0100 0100 80 02000000 0300000000000000"),
    (Topen(1, 2, 17), "0c000000 70 0100 02000000 11"),
    (Tread(1, 2, 3, 4), "17000000 74 0100 02000000 0300000000000000 04000000"),
    (Rread(1, b"hi"), "0d000000 75 0100 02000000 6869"),
    (Twrite(1, 2, 3, b"hi"), "19000000 76 0100 02000000 0300000000000000 02000000 6869"),
    (Tclunk(1, 2), "0b000000 78 0100 02000000"),
    (Rerror(1, "no"), "0b000000 6b 0100 0200 6e6f"),
    (Twstat(1, 2, Stat()), "3e000000 7e 0100 02000000 3100 2f00" + "ff" * 39 + "0000" * 4),
]


@pytest.mark.parametrize(("message", "frame"), TABLE, ids=[type(message).__name__ for message, _ in TABLE])
def test_layout(message: Message, frame: str) -> None:
    """The bytes are those of the manual."""
    assert encode(message) == bytes.fromhex(frame)


def test_every_message_of_the_manual_is_there() -> None:
    """9P2000 has 27 messages: Terror does not exist."""
    assert sorted(cls.type for cls in MESSAGES.values()) == [t for t in range(100, 128) if t != 106]


@given(messages)
def test_decode_is_the_inverse_of_encode(message: Message) -> None:
    """What is encoded decodes to itself."""
    assert decode(encode(message)) == message


@given(st.integers(100, 127), st.binary(max_size=80))
def test_any_bytes_give_a_message_or_a_protocol_error(kind: int, body: bytes) -> None:
    """A frame that decodes encodes to the same bytes; any other is a ProtocolError and nothing else."""
    frame = struct.pack("<IBH", 7 + len(body), kind, 1) + body
    try:
        message = decode(frame)
    except ProtocolError:
        return
    assert encode(message) == frame


@given(messages, st.data())
def test_a_message_cut_anywhere_is_a_protocol_error(message: Message, data: st.DataObject) -> None:
    """No prefix of a frame decodes, also with a size that fits the prefix."""
    frame = encode(message)
    cut = data.draw(st.integers(0, len(frame) - 1))
    prefix = frame[:cut]
    with pytest.raises(ProtocolError):
        decode(prefix)
    if cut >= _wire.HEADER_BYTES:
        with pytest.raises(ProtocolError):
            decode(struct.pack("<I", cut) + prefix[4:])


@given(st.lists(stats, max_size=5))
def test_directory_records_follow_each_other(entries: list[Stat]) -> None:
    """Records read in one go are the records packed one by one."""
    assert parse_directory(b"".join(entry.pack() for entry in entries)) == entries


@pytest.mark.parametrize("size", [0, 3, 6])
def test_a_size_below_the_header_is_refused(size: int) -> None:
    """A message is at least its header."""
    with pytest.raises(ProtocolError, match="shorter than its header"):
        _wire.message_end(struct.pack("<I", size), 0, 100)


@pytest.mark.parametrize(
    ("cut", "error"),
    [
        (-2, "a message ends 2 bytes too early"),
        (3, "3 bytes are left over at the end of a message"),
    ],
)
def test_a_count_that_is_not_the_one_of_the_message_is_refused(cut: int, error: str) -> None:
    """The error says which way."""
    frame = struct.pack("<IBHI", 11 + 5 + cut, _wire.RREAD, 1, 5) + bytes(5 + cut)
    with pytest.raises(ProtocolError, match=error):
        decode(frame)


def test_a_string_too_long_for_its_length_is_refused() -> None:
    """65535 bytes fit, one more does not."""
    assert len(_wire.pack_string("x" * 65535)) == 65537
    with pytest.raises(ValueError, match="65535"):
        _wire.pack_string("x" * 65536)
    with pytest.raises(ValueError, match="65535"):
        Stat(name="x" * 65535).pack()


def test_don_t_touch_is_the_default_of_a_stat() -> None:
    """A stat with no arguments is the record that means commit."""
    assert Stat().pack() == _wire.NULL_STAT
    assert not Stat(mode=0o644).is_dir
    assert Stat(mode=_wire.DMDIR | 0o755).is_dir


def test_the_wire_loads_nothing_slow() -> None:
    """The blocking client is built on this module alone."""
    import subprocess

    code = (
        "import sys, ninep._wire; print(*{'asyncio','dataclasses','re','typing','enum','inspect'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(_src())!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == []


def _src() -> Path:
    return Path(_wire.__file__).parent.parent
