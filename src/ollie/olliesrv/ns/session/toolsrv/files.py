"""What the files of `session/{session}/toolsrv/` do: each asks its counterpart, for the agent that the peer is."""

from collections.abc import Awaitable, Callable

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions import requests
from ollie.olliesrv.sessions.session import Session
from ollie.olliesrv.toolserver.relay import Counterpart


def aname(peer: OlliePeer) -> str:
    """For whom a peer sees the tool server: an agent for itself, everybody else for all."""
    return peer.agent.id if peer.agent is not None else ""


def counterpart(path: str) -> Callable[[Session, OlliePeer], Counterpart]:
    """A file that is read as it comes."""
    return lambda session, peer: Counterpart(session.toolsrv, aname(peer), path)


def read(path: str) -> Callable[[Session, OlliePeer], Awaitable[bytes]]:
    """A file that is read whole."""

    async def render(session: Session, peer: OlliePeer) -> bytes:
        async with session.toolsrv.visit(aname(peer)) as client:
            return await client.read(path)

    return render


def write(path: str) -> Callable[[Session, OlliePeer, bytes], Awaitable[None]]:
    """A file that takes messages."""

    async def take(session: Session, peer: OlliePeer, data: bytes) -> None:
        async with session.toolsrv.visit(aname(peer)) as client:
            await client.write(path, data)

    return take


def ask(path: str) -> Callable[[Session, OlliePeer, str], Awaitable[str]]:
    """A file that answers what is written to it."""

    async def run(session: Session, peer: OlliePeer, text: str) -> str:
        async with session.toolsrv.visit(aname(peer)) as client:
            return (await client.rdwr(path, text.encode())).decode()

    return run


def ask_of_agent(path: str) -> Callable[[Session, OlliePeer, str], Awaitable[str]]:
    """A file that answers for the agent that is written to it, by name or id."""
    asked = ask(path)

    async def run(session: Session, peer: OlliePeer, text: str) -> str:
        return await asked(session, peer, requests.named(session, text.strip()).id)

    return run
