"""What can become of a request, and what counts as an answer to one."""

import itertools

import pytest

from ollie.toolsrv.approval import TRANSITIONS, Answer, ApprovalError, Event, Request, State, answer, settle

REQUEST = Request("5f", "a", "s", "shell", "true", ("sh",), "", "/", {}, {}, (), "h", 1.0, 301.0)


def test_only_an_approval_of_a_pending_request_approves() -> None:
    """No time-out, withdrawal or second answer leads to `approved`."""
    leading = {(state, event) for (state, event), to in TRANSITIONS.items() if to is State.APPROVED}
    assert leading == {(State.PENDING, Event.APPROVE), (State.APPROVED, Event.WITHDRAW)}


def test_a_request_is_settled_once() -> None:
    """Every event settles a pending request, and whatever is settled keeps its state."""
    assert {event for state, event in TRANSITIONS if state is State.PENDING} == set(Event)
    assert all(to is state for (state, _), to in TRANSITIONS.items() if state is not State.PENDING)


REFUSALS = {
    State.APPROVED: "request 5f was approved already",
    State.REJECTED: "request 5f was rejected already",
    State.EXPIRED: "request 5f has timed out",
    State.WITHDRAWN: "request 5f was withdrawn: its caller is gone",
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(REFUSALS, (Event.APPROVE, Event.REJECT))))
def test_an_answer_that_comes_too_late_is_told_why(state: State, event: Event) -> None:
    """The error names the request and what became of it."""
    with pytest.raises(ApprovalError, match=REFUSALS[state]):
        settle(REQUEST, state, event)


ANSWERS = [
    ({"id": "5f", "approved": True}, Answer("5f", approved=True)),
    ({"id": "5f", "approved": True, "hash": "h"}, Answer("5f", approved=True, hash="h")),
    ({"id": "5f", "approved": False}, Answer("5f", approved=False)),
    ({"id": "5f", "approved": False, "error": "no"}, Answer("5f", approved=False, why="no")),
    ({"id": "5f", "error": "no"}, Answer("5f", approved=False, why="no")),
    ({"id": "5f", "error": ""}, Answer("5f", approved=False)),
]


@pytest.mark.parametrize(("fields", "meaning"), ANSWERS)
def test_answers(fields: object, meaning: Answer) -> None:
    """As the contract has them, with a hash or without."""
    assert answer(fields) == meaning


NO_ANSWERS = [
    None,
    [],
    "5f",
    {},
    {"id": "5f"},
    {"approved": True},
    {"id": "", "approved": True},
    {"id": 5, "approved": True},
    {"id": "5f", "approved": "true"},
    {"id": "5f", "approved": 1},
    {"id": "5f", "approved": True, "error": "no"},
    {"id": "5f", "approved": True, "error": ""},
    {"id": "5f", "error": 1},
    {"id": "5f", "approved": True, "hash": None},
    {"id": "5f", "approved": True, "always": True},
]


@pytest.mark.parametrize("fields", NO_ANSWERS)
def test_nothing_else_is_an_answer(fields: object) -> None:
    """What is not clearly an answer approves nothing."""
    with pytest.raises(ApprovalError, match="not an answer"):
        answer(fields)
