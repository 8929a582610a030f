"""The reading of directories."""

from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING

from ninep import errors
from ninep._session import OpenFile, awaitable
from ninep.errors import NinepError

if TYPE_CHECKING:
    from ninep.tree.place import Place


class DirFile(OpenFile):
    """Reads a directory: whole records, the same listing from one read at offset 0 to the next."""

    __slots__ = ("_end", "_pending", "_place", "_places")

    def __init__(self, place: "Place") -> None:
        super().__init__()
        self._place = place
        self._places: Iterator[Place] = iter(())
        self._pending = b""  # a record that did not fit the last reply
        self._end = 0

    def read(self, offset: int, count: int) -> bytes | Awaitable[bytes]:
        """Whole records from the start, or from exactly where the last read ended."""
        if offset == 0:
            self._place.check()
            places = self._place.children()
            if awaitable(places):
                return self._begin(places, count)
            self._start(places)  # type: ignore[arg-type]  # not awaitable
        elif offset != self._end:
            raise NinepError(errors.BAD_DIRECTORY_OFFSET)
        return self._fill(count)

    async def _begin(self, listing: "Awaitable[Iterator[Place]]", count: int) -> bytes:
        self._start(await listing)
        return self._fill(count)

    def _start(self, places: "Iterator[Place]") -> None:
        self._places, self._pending, self._end = places, b"", 0

    def _fill(self, count: int) -> bytes:
        data = self._pending
        if len(data) > count:
            raise NinepError(errors.COUNT_TOO_SMALL)
        records = [data]
        size = len(data)
        self._pending = b""
        for place in self._places:
            record = place.record()  # the check of `stat` would end the listing at an object just gone
            if size + len(record) > count:
                self._pending = record
                break
            records.append(record)
            size += len(record)
        if self._pending and not size:
            raise NinepError(errors.COUNT_TOO_SMALL)
        self._end += size
        return b"".join(records)
