"""What is said to the database: the statements that change it, in the order of a batch, and the questions."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Executable, bindparam, delete, func, select, update
from sqlalchemy.dialects.sqlite import insert

from ollie.store.interface import AgentRow, LogName, SessionRow, Setting
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
PUT_CHUNK: Final = insert(chunk)
PUT_PROMPT: Final = insert(prompt)
CLEAR_RECORDS: Final = delete(record).where(record.c.agent == bindparam("of"), record.c.position < bindparam("before"))
DROP_PROMPT: Final = delete(prompt).where(prompt.c.entry == bindparam("of"))
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
_END = (
    select(chunk.c.offset + func.length(chunk.c.data))
    .where(chunk.c.agent == bindparam("of"), chunk.c.log == bindparam("log"))
    .order_by(chunk.c.offset.desc())
    .limit(1)
)
_POSITION = select(func.max(record.c.position)).where(record.c.agent == bindparam("of"))
_QUEUE = select(prompt.c.entry, prompt.c.text).where(prompt.c.agent == bindparam("of")).order_by(prompt.c.entry)
_RECORDS = select(record.c.data).where(record.c.agent == bindparam("of")).order_by(record.c.position)
_AGENTS = select(agent).where(agent.c.session == bindparam("of")).order_by(agent.c.number)


def last_number(connection: Connection, name: str) -> int:
    """The last number that was given away of a kind, 0 before the first."""
    return connection.scalar(select(counter.c.value).where(counter.c.name == name)) or 0


def last_entry(connection: Connection) -> int:
    """The greatest entry of a prompt that waits, 0 when none does."""
    return connection.scalar(select(func.max(prompt.c.entry))) or 0


def sessions(connection: Connection) -> list[SessionRow]:
    """Every session, in order of creation."""
    return [SessionRow(**row) for row in connection.execute(select(session).order_by(session.c.number)).mappings()]


def unfinished(connection: Connection) -> list[str]:
    """The ids of sessions with an agent whose turn was cut, or with a prompt that waits."""
    cut = select(agent.c.session).where(agent.c.busy)
    waits = select(agent.c.session).join(prompt, prompt.c.agent == agent.c.number)
    return list(connection.scalars(cut.union(waits)))


def agents(connection: Connection, of: str) -> list[tuple[AgentRow, Shelf]]:
    """The agents of a session with what belongs to them, in order of creation."""
    return [_agent(connection, dict(row)) for row in connection.execute(_AGENTS, {"of": of}).mappings().all()]


def records(connection: Connection, of: int) -> list[bytes]:
    """The history of an agent, oldest first."""
    return list(connection.scalars(_RECORDS, {"of": of}))


def log_range(connection: Connection, of: int, log: LogName, offset: int, count: int) -> bytes:
    """At most `count` bytes of a conversation file from `offset`."""
    values = {"of": of, "log": log.value, "at": offset, "end": offset + count}
    found = connection.execute(_RANGE, values).all()
    if not found:
        return b""
    skip = offset - found[0].offset
    return b"".join(piece for _, piece in found)[skip : skip + count]


def _agent(connection: Connection, values: dict[str, Any]) -> tuple[AgentRow, Shelf]:
    busy, plan, stats = values.pop("busy"), values.pop("plan"), values.pop("stats")
    values["settings"] = msgspec.json.decode(values["settings"], type=dict[str, Setting])
    found = AgentRow(**values)
    of = {"of": found.number}
    last = connection.scalar(_POSITION, of)
    shelf = Shelf(
        found.number,
        busy=busy,
        position=0 if last is None else last + 1,
        lengths=dict(_lengths(connection, found.number)),
        queue=dict(tuple(row) for row in connection.execute(_QUEUE, of)),
        plan=plan,
        stats=stats,
    )
    return found, shelf


def _lengths(connection: Connection, of: int) -> Iterator[tuple[LogName, int]]:
    for log in LogName:
        yield log, connection.scalar(_END, {"of": of, "log": log.value}) or 0
