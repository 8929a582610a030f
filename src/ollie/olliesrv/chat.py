"""The two conversation files of an agent, `chat` and `chat.raw`, as logs that are read by range and followed.

A read at the end waits while there is more to come: while a turn runs, or is queued and not held by a pause. Else it
is the end of the file. The bytes are in the store; a log holds nothing but who waits for it.
"""

from ollie.olliesrv.states import Bell, State, States
from ollie.store.interface import LogName, Seq, Store


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

    def append(self, text: str) -> Seq:
        """Add text to the file and wake its readers."""
        seq = self._store.append_log(self._agent, self._log, text.encode("utf-8", "replace"))
        self._grown.ring()
        return seq

    async def read(self, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`, empty at the end."""
        return b"" if self._states.over else await self._store.read_log(self._agent, self._log, offset, count)

    async def more(self, offset: int) -> bool:
        """Wait until there is data past `offset` (true), or it is certain that none is to come (false)."""
        while self.length <= offset:
            if self._states.over or self._states.state is not State.RUNNING:
                return False
            await self._grown.heard()
        return True

    def settle(self) -> None:
        """The state has changed: whoever waits looks again."""
        self._grown.ring()

    @property
    def waiting(self) -> int:
        """How many reads wait, for statistics."""
        return self._grown.waiting
