"""What is told of a tool server: that each run and request begins and ends once, whatever connections do."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ollie.olliesrv.toolserver.news import Happening, News

NOW = Happening("now")


def run(pid: int, state: str, **more: Any) -> Happening:
    return Happening("proc", state, pid=pid, agent="a", tool="shell", **more)


class Told:
    """News that keeps what it tells."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, object]]] = []
        self.asked = 0
        self.news = News(self._tell, self._ask)

    def _tell(self, event: str, agent: str, fields: Mapping[str, object]) -> None:
        self.events.append((event, agent, dict(fields)))

    def _ask(self) -> None:
        self.asked += 1

    def take(self, *happenings: Happening) -> list[str]:
        """What is told by these, in short."""
        self.events.clear()
        for happening in happenings:
            self.news.take(happening)
        return self.short()

    def connect(self, *happenings: Happening) -> list[str]:
        """The same, with what a new connection says first."""
        self.news.connected()
        return self.take(*happenings, NOW)

    def over(self) -> list[str]:
        """The same, when the tool server ends."""
        self.events.clear()
        self.news.over()
        return self.short()

    def short(self) -> list[str]:
        """What was told last, in short."""
        return [f"{fields['state']} {fields.get('pid', fields.get('id'))}" for _, _, fields in self.events]


def test_a_run_begins_and_ends_once() -> None:
    """Whatever states it goes through; its exit code is told."""
    told = Told()
    assert told.connect() == []
    assert told.take(run(1, "starting"), run(1, "running"), run(1, "stopping")) == ["started 1"]
    assert told.take(run(1, "exited", exit=3), run(1, "exited", exit=3)) == ["exited 1"]
    assert told.events[0] == (
        "proc",
        "a",
        {"state": "exited", "pid": 1, "tool": "shell", "background": False, "exit": 3},
    )


def test_a_request_is_pending_and_resolved() -> None:
    """With the answer, and whoever waits for requests is woken."""
    told = Told()
    told.connect()
    asked = Happening("bypass", "pending", id="x", agent="a", command="make")
    assert told.take(asked, Happening("bypass", "approved", id="x", agent="a", command="make")) == [
        "pending x",
        "resolved x",
    ]
    assert told.events[1] == ("bypass", "a", {"state": "resolved", "id": "x", "command": "make", "answer": "approved"})
    assert told.asked == 1


def test_what_an_earlier_server_began_is_not_told_as_new() -> None:
    """Its end is."""
    told = Told()
    asked = Happening("bypass", "pending", id="x", agent="a")
    assert told.connect(run(1, "running"), asked, Happening("done", pid=7)) == []
    assert told.asked == 1
    assert told.take(run(1, "exited", exit=0)) == ["exited 1"]


def test_what_ended_between_two_connections_is_told_by_the_second() -> None:
    """And what goes on is not told again."""
    told = Told()
    told.connect()
    told.take(run(1, "running"), run(2, "running"))
    assert told.connect(run(2, "running")) == ["exited 1"]
    assert told.take(run(2, "running")) == []


def test_what_a_tool_server_leaves_open_ends_with_it() -> None:
    """What still comes from it afterwards says nothing new."""
    told = Told()
    told.connect()
    told.take(run(1, "running"), Happening("bypass", "pending", id="x"))
    assert told.over() == ["exited 1", "resolved x"]
    assert told.take(run(1, "exited", exit=0)) == []


@given(st.lists(st.tuples(st.sampled_from(["running", "exited", "connect", "over"]), st.integers(1, 4)), max_size=60))
def test_begins_and_ends_alternate(steps: list[tuple[str, int]]) -> None:
    """For each run, as its events are told."""
    told = Told()
    told.connect()
    live: set[int] = set()
    said: list[str] = []
    for step, pid in steps:
        if step == "connect":
            said += told.connect(*(run(each, "running") for each in live))
        elif step == "over":
            live.clear()
            said += told.over()
        else:
            (live.add if step == "running" else live.discard)(pid)
            said += told.take(run(pid, step))
    for pid in range(1, 5):
        mine = [words.split()[0] for words in said if words.endswith(f" {pid}")]
        assert mine == (["started", "exited"] * len(mine))[: len(mine)]
        assert (mine[-1:] == ["started"]) is (pid in live)
