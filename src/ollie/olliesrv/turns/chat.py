"""The two conversation files of an agent, `chat` and `chat.raw`, as logs that are read by range and followed.

A read at the end waits while there is more to come: while a turn runs, or is queued and not held by a pause. Else it
is the end of the file. The bytes are in the store; a log holds nothing but who waits for it.
"""

from collections.abc import Sequence

import msgspec

from ninep.bell import Bell
from ollie.engine import cut
from ollie.engine.blocks import Writer
from ollie.engine.chat import ChatState, render_chat, render_raw
from ollie.engine.messages import Message
from ollie.engine.records import Record, message_of
from ollie.olliesrv.turns.states import State, States
from ollie.store.rows import LogName, Seq
from ollie.store.sqlite import Store

_REPLY_BYTES = 1024 * 1024  # of a reply that was cut so much is kept for the model


class Chat:
    """One conversation file (an `AppendLog` of ninep)."""

    def __init__(self, store: Store, agent: str, log: LogName, states: States) -> None:
        self._store = store
        self._agent = agent
        self._log = log
        self._states = states
        self._grown = Bell()

    @property
    def length(self) -> int:
        """The bytes of the file; 0 when its agent is gone."""
        return 0 if self._states.over else self._store.log_length(self._agent, self._log)

    @property
    def version(self) -> int:
        """Changes with the content: a log only grows."""
        return self.length & 0xFFFFFFFF

    def append(self, data: bytes) -> Seq:
        """Add to the file and wake its readers."""
        seq = self._store.append_log(self._agent, self._log, data)
        self._grown.ring()
        return seq

    async def read(self, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`, empty at the end."""
        return b"" if self._states.over else await self._store.read_log(self._agent, self._log, offset, count)

    async def end(self, count: int) -> bytes:
        """The last `count` bytes, all of them when there are not so many."""
        data, at = b"", max(self.length - count, 0)
        while piece := await self.read(at + len(data), count - len(data)):
            data += piece
        return data

    async def more(self, offset: int) -> bool:
        """Wait until there is data past `offset` (true), or it is certain that none is to come (false)."""
        while self.length <= offset:
            if self._states.over or self._states.state is not State.RUNNING:
                return False
            await self._grown.wait()
        return True

    def settle(self) -> None:
        """The state has changed: whoever waits looks again."""
        self._grown.ring()


class Transcript:
    """Writes what happens to the two conversation files and to the history.

    Args:
        store: where the history is.
        agent: the id of the agent.
        chat: its `chat`.
        chat_raw: its `chat.raw`.
    """

    def __init__(self, store: Store, agent: str, chat: Chat, chat_raw: Chat) -> None:
        self._store = store
        self._agent = agent
        self._chat = chat
        self._chat_raw = chat_raw
        self._chat_state = ChatState()
        self._raw_state = Writer()

    @property
    def length(self) -> int:
        """The bytes of `chat`."""
        return self._chat.length

    async def resume(self) -> None:
        """Go on behind what is written already; between two turns."""
        end = await self._chat.end(2)
        self._chat_state = ChatState(empty=not end, newlines=len(end) - len(end.rstrip(b"\n")) if end else 2)

    async def resume_cut(self, past: Sequence[Message]) -> str:
        """Go on behind what is written already, in the middle of a turn.

        Args:
            past: the history.

        Returns:
            The words of the reply that was not complete.
        """
        await self.resume()
        left = cut.look(past, await self._chat_raw.end(_REPLY_BYTES))
        self._raw_state = left.writer
        return left.said

    def append(self, records: Sequence[Record]) -> Seq:
        """Write records; the number of the last change."""
        messages = [msgspec.json.encode(message) for message in map(message_of, records) if message is not None]
        chat, raw = bytearray(), bytearray()
        for record in records:
            self._chat_state, more = render_chat(self._chat_state, record)
            chat += more
            self._raw_state, more = render_raw(self._raw_state, record)
            raw += more
        seq = self._chat_raw.append(bytes(raw))
        if chat:
            seq = self._chat.append(bytes(chat))
        if messages:
            seq = self._store.append_records(self._agent, messages)
        return seq


def history(records: Sequence[bytes]) -> tuple[Message, ...]:
    """What `Transcript` stored, as the engine takes it."""
    return tuple(msgspec.json.decode(record, type=Message) for record in records)
