"""Tauth and Tattach: who the client is."""

from collections.abc import Awaitable
from functools import partial

from ninep import _wire, errors
from ninep._session.fids import AUTH, Fid
from ninep._session.interface import AfidConversation, OpenFile, Place, check_text
from ninep._session.request import Request
from ninep._session.session import Session
from ninep._wire import Buffer
from ninep.errors import NinepError


class AuthFile(OpenFile):
    """Reads and writes of an afid."""

    __slots__ = ("aname", "conversation", "uname")

    def __init__(self, conversation: AfidConversation, uname: str, aname: str) -> None:
        super().__init__()
        self.conversation, self.uname, self.aname = conversation, uname, aname

    def read(self, offset: int, count: int) -> Awaitable[bytes]:
        """The conversation has no offsets."""
        return self.conversation.read(count)

    async def write(self, offset: int, data: bytes) -> int:
        """All of it, or the conversation refuses."""
        await self.conversation.write(data)
        return len(data)


def auth(session: Session, tag: int, data: Buffer, at: int, end: int) -> None:
    """Tauth."""
    number, uname, aname = _wire.parse_tauth(data, at, end)
    check_text(uname)
    check_text(aname)
    fid = session.fids.reserve(number)
    reply = partial(_authenticating, session, tag, fid, uname, aname)
    session.run(Request(tag, reply, target=fid, kind=_wire.TAUTH), session.driver.authenticate(uname, aname))


def _authenticating(  # noqa: PLR0917  a partial leaves the conversation last
    session: Session, tag: int, fid: Fid, uname: str, aname: str, conversation: AfidConversation
) -> bytes:
    fid.file = AuthFile(conversation, uname, aname)
    session.fids.turn(fid, _wire.RAUTH)
    return _wire.pack_qid_reply(_wire.RAUTH, tag, _wire.QID.pack(_wire.QTAUTH, 0, fid.number))


def attach(session: Session, tag: int, data: Buffer, at: int, end: int) -> None:
    """Tattach."""
    number, afid, uname, aname = _wire.parse_tattach(data, at, end)
    check_text(uname)
    check_text(aname)
    conversation = None if afid == _wire.NOFID else _finished(session, afid, uname, aname)
    fid = session.fids.reserve(number)
    request = Request(tag, partial(_attached, session, tag, fid), target=fid, kind=_wire.TATTACH)
    session.run(request, session.driver.attach(uname, aname, conversation))


def _finished(session: Session, afid: int, uname: str, aname: str) -> AfidConversation:
    """The conversation on the afid, which must have granted entry to this very user."""
    fid = session.fids.get(afid)
    if fid is None:
        raise NinepError(errors.UNKNOWN_FID)
    file = fid.file
    if fid.state is not AUTH or not isinstance(file, AuthFile):
        raise NinepError(errors.AUTHENTICATION_FAILED)
    if (file.uname, file.aname) != (uname, aname):
        raise NinepError(errors.AFID_OF_ANOTHER)
    if not file.conversation.done:
        raise NinepError(errors.AUTHENTICATION_UNFINISHED)
    return file.conversation


def _attached(session: Session, tag: int, fid: Fid, place: Place) -> bytes:
    qid = place.qid()
    fid.place = place
    session.fids.turn(fid, _wire.RATTACH)
    session.admit()
    return _wire.pack_qid_reply(_wire.RATTACH, tag, qid)
