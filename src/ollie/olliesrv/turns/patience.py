"""Waiting for a store that cannot be read at the moment."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ollie.store.rows import StoreError

_T = TypeVar("_T")
_FIRST_S = 1.0
_LONGEST_S = 30.0


async def patiently(read: Callable[[], Awaitable[_T]], trouble: Callable[[str], None]) -> _T:
    """What `read` gives, asked again as long as the store fails; `trouble` is told why, and nothing when it works."""
    wait_s = _FIRST_S
    while True:
        try:
            found = await read()
        except StoreError as error:
            trouble(str(error))
        else:
            trouble("")
            return found
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 2, _LONGEST_S)
