"""Hypothesis strategies for messages."""

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from ninep import _wire
from ninep.messages import MESSAGES, Message, Qid, Stat


def uint(bits: int) -> st.SearchStrategy[int]:
    """Unsigned integers of so many bits."""
    return st.integers(0, 2**bits - 1)


# Any bytes may stand in a string on the wire, so every string is one that `surrogateescape` makes of bytes.
strings = st.binary(max_size=300).map(lambda data: data.decode("utf-8", "surrogateescape"))
qids = st.builds(Qid, uint(8), uint(32), uint(64))
stats = st.builds(
    Stat,
    uint(16),
    uint(32),
    qids,
    uint(32),
    uint(32),
    uint(32),
    uint(64),
    strings,
    strings,
    strings,
    strings,
)

_BY_NAME = {"tag": uint(16), "oldtag": uint(16), "mode": uint(8), "offset": uint(64)}
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: uint(32),
    str: strings,
    bytes: st.binary(max_size=500),
    Qid: qids,
    Stat: stats,
    tuple[str, ...]: st.lists(strings, max_size=_wire.MAXWELEM).map(tuple),
    tuple[Qid, ...]: st.lists(qids, max_size=_wire.MAXWELEM).map(tuple),
}


def _message(cls: type[Message]) -> st.SearchStrategy[Message]:
    kinds = {field.name: field.type for field in fields(cls)}
    return st.builds(
        cls, **{name: _BY_NAME[name] if name in _BY_NAME else _BY_TYPE[kind] for name, kind in kinds.items()}
    )


messages = st.one_of([_message(cls) for cls in MESSAGES.values()])
