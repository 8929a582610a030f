"""Twalk: from fid to newfid, name by name."""

from functools import partial
from typing import TYPE_CHECKING, cast

from ninep import _wire, errors
from ninep._session.fids import Fid, FidState
from ninep._session.interface import Place, awaitable, check_name
from ninep._session.request import Request
from ninep._session.session import Session
from ninep._wire import Buffer
from ninep.errors import NinepError

if TYPE_CHECKING:
    from collections.abc import Awaitable


class Walk:
    """A walk under way.

    Attributes:
        place: where it is.
        qids: of the names walked.
        whole: it has ended, and every name was walked.
    """

    __slots__ = ("_names", "_step", "place", "qids", "whole")

    def __init__(self, place: Place, names: list[str]) -> None:
        self.place = place
        self.qids: list[bytes] = []
        self.whole = False
        self._names = names
        self._step: Awaitable[Place] | None = None

    def steps(self) -> bool:
        """Go on until it has ended, True, or a step has to wait, False; NinepError when the first name fails."""
        names, place, qids = self._names, self.place, self.qids
        kind = place.__class__
        while len(qids) < len(names):
            name = names[len(qids)]
            try:
                check_name(name)
                step = place.walk(name)
            except NinepError:
                if not qids:
                    raise
                return True
            if step.__class__ is not kind and awaitable(step):  # the first question is the cheaper one
                self._step = step
                return False
            self.place = place = cast("Place", step)
            qids.append(place.qid())
        self.whole = True
        return True

    async def wait(self) -> "Walk":
        """Itself, ended."""
        ended = False
        while not ended:
            assert self._step is not None
            try:
                self.place = await self._step
                self.qids.append(self.place.qid())
            except NinepError:
                if not self.qids:
                    raise
                return self
            ended = self.steps()
        return self


def walk(session: Session, tag: int, data: Buffer, at: int, end: int) -> None:
    """Twalk."""
    number, newnumber, names = _wire.parse_twalk(data, at, end)
    fid = session.fids.use(number, _wire.TWALK)
    assert fid.place is not None
    if len(names) > _wire.MAXWELEM:
        raise NinepError(errors.TOO_MANY_NAMES)
    if newnumber != number:
        session.fids.check_free(newnumber)
    elif names and fid.state is not FidState.PLACED:
        raise NinepError(errors.OPEN_FID_WALKED)
    steps = Walk(fid.place, names)
    if not steps.steps():
        target = None if newnumber == number else session.fids.reserve(newnumber)
        reply = partial(_walked, session, tag, fid, target)
        session.run(Request(tag, reply, fid=fid, target=target), steps.wait())
    elif newnumber == number or not steps.whole:
        _walked(session, tag, fid, None, steps)
    else:
        session.fids.place(newnumber, steps.place)
        session.send(_wire.pack_rwalk(tag, steps.qids))


def _walked(session: Session, tag: int, fid: Fid, newfid: Fid | None, steps: Walk) -> None:
    """Only a walk of all names changes newfid; without a newfid it is `fid` itself."""
    if newfid is not None:
        newfid.place = steps.place
        session.fids.turn(newfid, _wire.RWALK if steps.whole else _wire.RERROR)
    elif steps.whole and steps.qids:
        if fid.state is not FidState.PLACED:
            raise NinepError(errors.OPEN_FID_WALKED)
        fid.place = steps.place
    session.send(_wire.pack_rwalk(tag, steps.qids))
