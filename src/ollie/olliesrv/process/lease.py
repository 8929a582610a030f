"""One server a data directory: a lease that lasts as long as its process."""

from ollie.olliesrv.process.lock import Lock, LockedError
from ollie.store.rows import StoreError


def lease(directory: str) -> Lock:
    """The lease on a data directory.

    Raises:
        StoreError: another server has it, which the text names.
    """
    try:
        return Lock(f"{directory}/ollie.lock")
    except LockedError as error:
        who = f"olliesrv (pid {error.pid})" if error.pid else "an olliesrv outside this PID namespace"
        raise StoreError(f"{directory} is used by {who}; end it, or set OLLIE_DATA_PATH to another directory") from None
