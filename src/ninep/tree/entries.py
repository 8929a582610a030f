"""What tables are made of, and who may do what with it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ninep import errors
from ninep._session import OpenFile
from ninep.errors import NinepError
from ninep.tree.directory import DirFile

if TYPE_CHECKING:
    from ninep.tree.place import Place

T = TypeVar("T")
C = TypeVar("C")

WANT_WALK, WANT_WRITE, WANT_READ = 1, 2, 4  # the mode bits of intro(5)
WANT_REMOVE, WANT_RENAME, WANT_CREATE = 8, 16, 32


class Role(StrEnum):
    """Which permission bits of a mode apply to a peer."""

    USER = "user"
    GROUP = "group"
    OTHER = "other"


@dataclass(frozen=True)
class Peer:
    """Who attached. Servers subclass it to add what their callbacks need to know.

    Args:
        uname: the user name of Tattach, claimed and not proved unless the attach callback proved it.
        aname: the aname of Tattach without its options.
        role: which bits of a file's mode apply.
    """

    uname: str
    aname: str
    role: Role


class Entry(ABC, Generic[T]):
    """One line of a directory's table: a kind of file, or a directory.

    Attributes:
        kind: what it is called in `help`.
        consumed: whether a read takes away what it reads. Stat says DMTMP then, which keeps backups and searches off.
        name: as served, or `{thing}` for an `Each`.
        about: one sentence.
        mode: permission bits, 0o000 to 0o777.
    """

    __slots__ = ()
    kind: ClassVar[str]
    consumed: ClassVar[bool] = False
    name: str
    about: str
    mode: int

    @abstractmethod
    def open(self, place: "Place", mode: int, iounit: int) -> OpenFile | Awaitable[OpenFile]:
        """Prepare I/O; permissions have been checked. `iounit` is the largest payload of one Twrite."""

    def length(self, obj: T) -> int:
        """The length that stat reports, in bytes: 0 for everything that is computed or that streams."""
        return 0

    def version(self, obj: T) -> int:
        """The version that the qid reports; it changes with the content, where that is known without asking."""
        return 0

    def truncate(self, obj: T, peer: Any, length: int) -> Awaitable[None] | None:
        """OTRUNC, or wstat of the length. It means nothing here; any length but 0 is refused."""
        if length:
            raise NinepError(errors.TRUNCATE_PROHIBITED)
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Dir(Entry[T]):
    """A directory with a fixed table; at most one of its entries is an `Each`.

    Args:
        name: as served.
        about: one sentence.
        entries: its table.
        mode: permission bits.
        filled: `(obj, peer)`: whether the entries are there now; the directory is empty while it says no.
    """

    kind = "dir"
    name: str
    about: str
    entries: Sequence[Entry[T]]
    mode: int = 0o550
    filled: Callable[[T, Any], bool] | None = None

    def open(self, place: "Place", mode: int, iounit: int) -> OpenFile:
        """Nothing is listed yet."""
        return DirFile(place)


@dataclass(frozen=True, slots=True, eq=False)
class Each(Entry[T], Generic[T, C]):
    """One directory for each object that `names` lists and `find` finds.

    An object has a `number`, never used for another object under the same entry. It may have a `name`, the one shown by
    stat also after a rename, and `gone`, true when it no longer exists.

    Args:
        name: `{agent}`, for people.
        about: one sentence.
        find: the object with this name or id, or None.
        names: all `(name, object)` that a directory read shows.
        entries: the table of each directory; its callbacks get the object found.
        remove: Tremove of such a directory, allowed by `WANT_REMOVE`; without it remove is refused.
        create: Tcreate of a directory with a well-formed name that is not taken; it gives the new object. Allowed by
            `WANT_CREATE` on the directory that holds this entry; without it create is refused.
        rename: wstat of its name to a well-formed name, allowed by `WANT_RENAME`; without it refused. It raises when
            the name is taken.
        mode: of each directory.
    """

    kind = "each"
    name: str
    about: str
    find: Callable[[T, Any, str], C | Awaitable[C | None] | None]
    names: Callable[[T, Any], Iterable[tuple[str, C]] | Awaitable[Iterable[tuple[str, C]]]]
    entries: Sequence[Entry[C]]
    remove: Callable[[T, Any, C], Awaitable[None]] | None = None
    rename: Callable[[T, Any, C, str], Awaitable[None]] | None = None
    create: Callable[[T, Any, str], Awaitable[C]] | None = None
    mode: int = 0o550

    def open(self, place: "Place", mode: int, iounit: int) -> OpenFile:
        """Nothing is listed yet."""
        return DirFile(place)


Permit = Callable[[Any, Entry[Any], tuple[Any, ...], int], None]

_USER, _GROUP = Role.USER, Role.GROUP
_MODE_BITS = WANT_WALK | WANT_WRITE | WANT_READ


def permit_by_mode(peer: Peer, entry: Entry[Any], _objs: tuple[Any, ...], want: int) -> None:
    """The mode bits of the peer's role decide; create, remove and rename are for the user role."""
    if want > _MODE_BITS:
        allowed = peer.role is _USER
    else:
        shift = 6 if peer.role is _USER else 3 if peer.role is _GROUP else 0
        allowed = not want & ~(entry.mode >> shift)
    if not allowed:
        raise NinepError(errors.PERMISSION_DENIED)
