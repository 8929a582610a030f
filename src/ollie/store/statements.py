"""What is said to the database: the statements that change it, in the order of a batch, and the questions."""

from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Executable, ScalarSelect, bindparam, delete, func, literal, select, update
from sqlalchemy.dialects.sqlite import insert

from ollie.store.rows import AgentRow, LogName, Member, SessionRow, Setting
from ollie.store.schema import agent, chunk, counter, prompt, record, session
from ollie.store.shelf import Shelf

_COUNT = insert(counter)
COUNT: Final = _COUNT.on_conflict_do_update(index_elements=["name"], set_={"value": _COUNT.excluded.value})
_SESSION = insert(session)
PUT_SESSION: Final = _SESSION.on_conflict_do_update(
    index_elements=["number"], set_={key: _SESSION.excluded[key] for key in ("name", "cwd", "paused")}
)
_AGENT = insert(agent)
PUT_AGENT: Final = _AGENT.on_conflict_do_update(
    index_elements=["number"],
    set_={key: _AGENT.excluded[key] for key in ("name", "cwd", "profile", "settings", "ceiling")},
)
_THIS_AGENT = agent.c.number == bindparam("of")
SET_PLAN: Final = update(agent).where(_THIS_AGENT).values(plan=bindparam("value"))
SET_STATS: Final = update(agent).where(_THIS_AGENT).values(stats=bindparam("value"))
SET_BUSY: Final = update(agent).where(_THIS_AGENT).values(busy=bindparam("value"))
PUT_RECORD: Final = insert(record)
_CHUNK = insert(chunk)
PUT_CHUNK: Final = _CHUNK.on_conflict_do_update(
    index_elements=["agent", "log", "offset"], set_={"data": _CHUNK.excluded.data}
)
PUT_PROMPT: Final = insert(prompt)
CLEAR_RECORDS: Final = delete(record).where(record.c.agent == bindparam("of"), record.c.position < bindparam("before"))
DROP_PROMPT: Final = delete(prompt).where(prompt.c.agent == bindparam("of"), prompt.c.entry == bindparam("one"))
DROP_AGENT: Final = delete(agent).where(_THIS_AGENT)
DROP_SESSION: Final = delete(session).where(session.c.id == bindparam("of"))

ORDER: Final[tuple[Executable, ...]] = (
    COUNT,
    PUT_SESSION,
    PUT_AGENT,
    SET_PLAN,
    SET_STATS,
    SET_BUSY,
    PUT_RECORD,
    PUT_CHUNK,
    PUT_PROMPT,
    CLEAR_RECORDS,
    DROP_PROMPT,
    DROP_AGENT,
    DROP_SESSION,
)
"""A batch is written statement by statement in this order, each with all its rows. The result is the same as in the
order of the changes: what is dropped is never made again, a history is cleared up to a position, and rows of one
statement keep their order."""

_RANGE = (
    select(chunk.c.offset, chunk.c.data)
    .where(
        chunk.c.agent == bindparam("of"),
        chunk.c.log == bindparam("log"),
        chunk.c.offset < bindparam("end"),
        chunk.c.offset
        >= select(func.max(chunk.c.offset))
        .where(chunk.c.agent == bindparam("of"), chunk.c.log == bindparam("log"), chunk.c.offset <= bindparam("at"))
        .scalar_subquery(),
    )
    .order_by(chunk.c.offset)
)


def _end_of(log: LogName) -> ScalarSelect[int]:
    """The length of a conversation file of the agent that a row is of, from its last chunk alone."""
    return (
        select(chunk.c.offset + func.length(chunk.c.data))
        .where(chunk.c.agent == agent.c.number, chunk.c.log == literal(log.value))
        .order_by(chunk.c.offset.desc())
        .limit(1)
        .scalar_subquery()
    )


_LAST = select(func.max(record.c.position)).where(record.c.agent == agent.c.number).scalar_subquery()
_SHELVES = (
    select(agent, _LAST.label("last"), *(_end_of(log).label(log.name) for log in LogName))
    .where(agent.c.session == bindparam("of"))
    .order_by(agent.c.number)
)
_QUEUES = (
    select(prompt.c.agent, prompt.c.entry, prompt.c.text)
    .join(agent, agent.c.number == prompt.c.agent)
    .where(agent.c.session == bindparam("of"))
    .order_by(prompt.c.entry)
)
_RECORDS = (
    select(record.c.data)
    .where(
        record.c.agent == bindparam("of"), record.c.position >= bindparam("begin"), record.c.position < bindparam("end")
    )
    .order_by(record.c.position)
)


def last_number(connection: Connection, name: str) -> int:
    """The last number that was given away of a kind, 0 before the first."""
    return connection.scalar(select(counter.c.value).where(counter.c.name == name)) or 0


def last_entry(connection: Connection) -> int:
    """The greatest entry of a prompt that waits, 0 when none does."""
    return connection.scalar(select(func.max(prompt.c.entry))) or 0


def sessions(connection: Connection) -> list[SessionRow]:
    """Every session, in order of creation."""
    return [SessionRow(**row) for row in connection.execute(select(session).order_by(session.c.number)).mappings()]


def members(connection: Connection) -> list[Member]:
    """Every agent, in order of creation."""
    return [
        Member(*row)
        for row in connection.execute(select(agent.c.session, agent.c.id, agent.c.name).order_by(agent.c.number))
    ]


def unfinished(connection: Connection) -> list[str]:
    """The ids of sessions with an agent whose turn was cut, with a prompt that waits, or with a temporary agent."""
    cut = select(agent.c.session).where(agent.c.busy)
    temporary = select(agent.c.session).where(agent.c.temporary)
    waits = select(agent.c.session).join(prompt, prompt.c.agent == agent.c.number)
    return list(connection.scalars(cut.union(temporary, waits)))


def shelves(connection: Connection, of: str) -> list[Shelf]:
    """The agents of a session with what belongs to them, in order of creation."""
    queues: dict[int, dict[int, str]] = {}
    for number, entry, text in connection.execute(_QUEUES, {"of": of}):
        queues.setdefault(number, {})[entry] = text
    rows = connection.execute(_SHELVES, {"of": of}).mappings()
    return [_shelf(dict(row), queues.get(row["number"], {})) for row in rows]


def records(connection: Connection, of: int, begin: int, end: int) -> list[bytes]:
    """The history of an agent from one position to before another."""
    return list(connection.scalars(_RECORDS, {"of": of, "begin": begin, "end": end}))


def log_range(connection: Connection, of: int, log: LogName, offset: int, count: int) -> bytes:
    """At most `count` bytes of a conversation file from `offset`."""
    values = {"of": of, "log": log.value, "at": offset, "end": offset + count}
    found = connection.execute(_RANGE, values).all()
    if not found:
        return b""
    skip = offset - found[0].offset
    return b"".join(piece for _, piece in found)[skip : skip + count]


def _shelf(values: dict[str, Any], queue: dict[int, str]) -> Shelf:
    busy, plan, stats, last = (values.pop(key) for key in ("busy", "plan", "stats", "last"))
    lengths = {log: values.pop(log.name) or 0 for log in LogName}
    values["settings"] = msgspec.json.decode(values["settings"], type=dict[str, Setting])
    return Shelf(
        AgentRow(**values),
        busy=busy,
        records=0 if last is None else last + 1,
        lengths=lengths,
        queue=queue,
        plan=plan,
        stats=stats,
    )
