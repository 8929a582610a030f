"""What an agent has used, and its budget.

What an agent costs counts for the one that made it, too, and so on upwards: a budget is for an agent with all that it
has made. Each is asked before every request whether there is something left.
"""

from collections.abc import Callable

from msgspec.structs import replace

from ollie.engine.events import Spent
from ollie.engine.limits import exceeded
from ollie.engine.state import State
from ollie.olliesrv.settings.outfit import Outfit
from ollie.olliesrv.turns.counts import Counts
from ollie.olliesrv.turns.driver import Driver
from ollie.store.rows import Seq
from ollie.store.sqlite import Store

_COMPLETED = 256  # keys of messages that are remembered; a tool server repeats only what it was not told to forget


class Account:
    """The account of one agent.

    Args:
        outfit: gives what the agent works with now.
        store: where the counts are kept.
        driver: gives the driver of its engine, None before its first turn.
        find: gives the account of the agent of an id, None when it is not there.
    """

    def __init__(
        self,
        outfit: Callable[[], Outfit],
        store: Store,
        driver: Callable[[], Driver | None],
        find: "Callable[[str], Account | None]",
    ) -> None:
        self._agent = outfit().row.id
        self.counts = Counts.decode(store.stats(self._agent))
        self._outfit = outfit
        self._store = store
        self._driver = driver
        self._find = find

    def take(self, state: State, *, chat_offset: int | None = None) -> Seq | None:
        """Note what the engine has counted, and where a new turn begins in the chat; None when nothing is new."""
        counts = replace(self.counts, totals=state.totals, cost_last_turn_usd=state.turn_cost_usd)
        if chat_offset is not None:
            counts = replace(counts, turn_chat_offset=chat_offset)
        return None if counts == self.counts else self._put(counts)

    def charge(self, cost_usd: float) -> None:
        """An agent that this one made has cost so much."""
        driver = self._driver()
        if driver is not None:
            driver.feed(Spent(cost_usd))
            self.take(driver.state)
        else:
            totals = replace(self.counts.totals, cost_usd=self.counts.totals.cost_usd + cost_usd)
            self._put(replace(self.counts, totals=totals))

    def exhausted(self) -> str:
        """That this budget, or that of a maker, is used up, for people; empty while none is."""
        note = exceeded(self._outfit().limits(), 0, self.counts.totals.cost_usd)
        maker = None if note else self._maker()
        return note if maker is None else maker.exhausted()

    def complete(self, key: str) -> bool:
        """Note that a message with this key is in the queue; False when it was before."""
        if key in self.counts.completed:
            return False
        self.counts = replace(self.counts, completed=(*self.counts.completed, key)[-_COMPLETED:])
        return True

    def stored(self) -> Seq:
        """Store the counts as they are."""
        return self._store.put_stats(self._agent, self.counts.encode())

    def _put(self, counts: Counts) -> Seq:
        cost_usd = counts.totals.cost_usd - self.counts.totals.cost_usd
        self.counts = counts
        if cost_usd and (maker := self._maker()) is not None:
            maker.charge(cost_usd)
        return self.stored()

    def _maker(self) -> "Account | None":
        return self._find(self._outfit().row.parent)
