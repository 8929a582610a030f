"""The permission rule, as a table."""

import itertools

import pytest

from ninep.tree import WANT_READ, WANT_REMOVE, WANT_RENAME, WANT_WALK, WANT_WRITE, Role
from ollie.olliesrv.door.access import Reach, allowed

R, W, X = WANT_READ, WANT_WRITE, WANT_WALK
OWNER, GROUP, OTHER = Role.USER, Role.GROUP, Role.OTHER

# (role, mode, want, reach): whether it is allowed.
TABLE = [
    # The owner, by mode.
    (OWNER, 0o440, R, None, True),
    (OWNER, 0o440, W, None, False),
    (OWNER, 0o660, R | W, None, True),
    (OWNER, 0o600, R | W, None, True),
    (OWNER, 0o220, W, None, True),
    (OWNER, 0o220, R, None, False),
    (OWNER, 0o550, X, None, True),
    (OWNER, 0o550, WANT_REMOVE, None, True),
    (OWNER, 0o550, WANT_RENAME, None, True),
    # A TCP client without the secret: what the group may, never what only the owner may.
    (GROUP, 0o660, R | W, None, True),
    (GROUP, 0o640, R, None, True),
    (GROUP, 0o640, W, None, False),
    (GROUP, 0o640, R | W, None, False),
    (GROUP, 0o600, R, None, False),
    (GROUP, 0o550, X | R, None, True),
    (GROUP, 0o550, WANT_REMOVE, None, False),
    (GROUP, 0o550, WANT_RENAME, None, False),
    # Nobody else gets anything: world bits are off.
    (OTHER, 0o550, X, None, False),
    (OTHER, 0o660, R, None, False),
    # An agent: mode bits first.
    (GROUP, 0o640, W, Reach.COVERED, False),
    (GROUP, 0o640, W, Reach.OWN_SESSION, False),
    (GROUP, 0o600, W, Reach.ROOT, False),
    (GROUP, 0o600, R, Reach.ROOT_WRITABLE, False),
    # It reads in its own session and at the root.
    (GROUP, 0o440, R, Reach.ROOT, True),
    (GROUP, 0o440, R, Reach.OWN_SESSION, True),
    (GROUP, 0o440, R, Reach.COVERED, True),
    (GROUP, 0o440, R, Reach.NOT_COVERED, True),
    (GROUP, 0o440, R, Reach.ELSEWHERE, False),
    (GROUP, 0o550, X, Reach.ELSEWHERE, False),
    # It writes to the agents within its ceiling, and makes others.
    (GROUP, 0o660, R | W, Reach.COVERED, True),
    (GROUP, 0o220, W, Reach.COVERED, True),
    (GROUP, 0o660, R | W, Reach.NOT_COVERED, False),
    (GROUP, 0o220, W, Reach.NOT_COVERED, False),
    (GROUP, 0o660, R | W, Reach.OWN_SESSION, True),
    (GROUP, 0o660, R | W, Reach.ELSEWHERE, False),
    (GROUP, 0o660, R | W, Reach.ROOT, False),
    (GROUP, 0o660, R | W, Reach.ROOT_WRITABLE, True),
    # It removes what it may write to, and renames nothing.
    (GROUP, 0o550, WANT_REMOVE, Reach.COVERED, True),
    (GROUP, 0o550, WANT_REMOVE, Reach.NOT_COVERED, False),
    (GROUP, 0o550, WANT_REMOVE, Reach.OWN_SESSION, False),
    (GROUP, 0o550, WANT_REMOVE, Reach.ELSEWHERE, False),
    (GROUP, 0o550, WANT_RENAME, Reach.COVERED, False),
]


@pytest.mark.parametrize(("role", "mode", "want", "reach", "expected"), TABLE)
def test_rule(role: Role, mode: int, want: int, reach: Reach | None, *, expected: bool) -> None:
    """Each line of the table holds."""
    assert allowed(role, mode, want, reach) is expected


def test_an_agent_never_may_what_its_role_may_not() -> None:
    """Reach takes away and never gives, but for removing an agent within the ceiling."""
    for role, mode, want, reach in itertools.product(Role, range(0o1000), range(1, 8), Reach):
        if allowed(role, mode, want, reach):
            assert allowed(role, mode, want, None)
