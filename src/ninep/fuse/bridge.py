"""The driver of a mount: takes requests of the kernel, runs each as a task, and sends the replies.

Any number of requests run at the same time, so that a blocked read delays nobody. A caller that is interrupted makes
the kernel send INTERRUPT; the task is cancelled then, which sends Tflush, and its reply is EINTR once the server has
answered that. A process that waits for a reply cannot even be killed, so a server that does not answer Tflush in time
is not waited for: the caller has its EINTR, and what the task still does is undone. For the same reason the server
itself, which may come upon its own mount, is refused.
"""

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ninep.enames import errno_of
from ninep.errors import ConnectionLostError, NinepError
from ninep.fuse import protocol
from ninep.fuse.callers import Judge
from ninep.fuse.device import Device, Request
from ninep.fuse.nodes import Nodes
from ninep.fuse.opcodes import Opcode
from ninep.fuse.operations import Operations
from ninep.fuse.protocol import InitOut

if TYPE_CHECKING:
    from ninep.fuse.link import Link

FLUSH_S = 5.0
PATIENCE_S = 0.5
_PAGE_BYTES = 4096
_WANTED = (
    protocol.ATOMIC_O_TRUNC
    | protocol.BIG_WRITES
    | protocol.AUTO_INVAL_DATA
    | protocol.PARALLEL_DIROPS
    | protocol.MAX_PAGES
)
_NAMING = {  # not GETATTR, which fstat(2) of a descriptor that was handed on needs as well
    Opcode.LOOKUP,
    Opcode.SETATTR,
    Opcode.ACCESS,
    Opcode.OPEN,
    Opcode.OPENDIR,
    Opcode.CREATE,
    Opcode.MKNOD,
    Opcode.MKDIR,
    Opcode.UNLINK,
    Opcode.RMDIR,
    Opcode.RENAME,
    Opcode.RENAME2,
}
_UNANSWERED = {Opcode.FORGET, Opcode.BATCH_FORGET, Opcode.INTERRUPT}
_REFUSED: dict[int, int] = {
    Opcode.IOCTL: errno.ENOTTY,
    Opcode.READLINK: errno.EINVAL,
    Opcode.SYMLINK: errno.EPERM,
    Opcode.LINK: errno.EPERM,
    Opcode.TMPFILE: errno.EOPNOTSUPP,
}


class Bridge:
    """Serves one mount.

    Args:
        fd: a descriptor of `/dev/fuse` that was mounted; the bridge closes it.
        link: the connection; it stays the caller's.
        judge: which callers may name files. Descriptors that they hand on work for whoever has them, as always.
        owner: user and group that all files are shown with.
        max_write: the longest write(2) that is one request, in bytes; what the server takes in one Twrite.
        log: gets a line for every request that fails.
        flush_s: how long an interrupted caller waits for the server to have stopped, in seconds.
        patience_s: how long a file that was opened with O_NONBLOCK is waited for, in seconds.

    Attributes:
        ready: set once the kernel can be served.
        ended: set once the file system is no longer mounted.
    """

    def __init__(
        self,
        fd: int,
        link: "Link",
        *,
        judge: Judge,
        owner: tuple[int, int],
        max_write: int,
        log: Callable[[str], None] | None = None,
        flush_s: float = FLUSH_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.ready = asyncio.Event()
        self.ended = asyncio.Event()
        self.nodes = Nodes(link)
        self._operations = Operations(self.nodes, owner, self._note, patience_s)
        self._link = link
        self._judge = judge
        self._max_write = max_write
        self._log = log
        self._flush_s = flush_s
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by the number of their request, until it is answered
        self._device = Device(fd, max_write, self._take, self.ended.set)

    @property
    def mounted(self) -> bool:
        """Whether the kernel still has the file system."""
        return self._device.mounted

    @property
    def requests(self) -> int:
        """Those that have not been answered."""
        return len(self._tasks)

    async def close(self) -> None:
        """Interrupt every request, clunk every handle, and let the descriptor go."""
        tasks = set(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._flush_s)
        with suppress(TimeoutError):  # a server that does not answer
            async with asyncio.timeout(self._flush_s):
                await self._operations.close_all()
        self._device.close()

    def _take(self, request: Request) -> None:
        if request.opcode in _UNANSWERED:
            self._obey(request)
        elif request.opcode == Opcode.INIT:
            self._init(request)
        elif request.opcode == Opcode.DESTROY:
            self._device.reply(request.unique, b"")
        elif request.opcode in self._operations.table:
            task = asyncio.get_running_loop().create_task(self._serve(request))
            self._tasks[request.unique] = task
            task.add_done_callback(lambda _: self._fail(request, errno.EINTR))  # unless it has been answered
        else:
            self._device.fail(request.unique, _REFUSED.get(request.opcode, errno.ENOSYS))

    def _obey(self, request: Request) -> None:
        """What wants no reply."""
        body = request.body
        if request.opcode == Opcode.INTERRUPT:
            self._interrupt(protocol.INTERRUPT_IN.parse(body).unique)
        elif request.opcode == Opcode.FORGET:
            self.nodes.forget(request.nodeid, protocol.FORGET_IN.parse(body).nlookup)
        else:
            (nodes,) = protocol.BATCH_FORGET_IN.parse(body)
            for number in range(nodes):
                at = protocol.BATCH_FORGET_IN.size + number * protocol.FORGET_ONE.size
                self.nodes.forget(*protocol.FORGET_ONE.parse(body, at))

    def _init(self, request: Request) -> None:
        kernel = protocol.INIT_IN.parse(request.body)
        if kernel.major < protocol.MAJOR or (kernel.major == protocol.MAJOR and kernel.minor < protocol.OLDEST_MINOR):
            self._note(f"this kernel speaks version {kernel.major}.{kernel.minor} of FUSE; 7.23 is needed")
            self._device.fail(request.unique, errno.EPROTO)
            self._device.close()
            return
        answer = InitOut(
            major=protocol.MAJOR,  # a kernel of a later major version sends INIT again, with this one
            minor=protocol.MINOR,
            max_readahead=kernel.max_readahead,
            flags=_WANTED & kernel.flags,
            max_background=0xFFFF,  # asynchronous reads may all be blocked
            congestion_threshold=0xFFFF,
            max_write=self._max_write,
            time_gran=1_000_000_000,
            # More than max_write, also when a buffer begins within a page: a long read then is short, where a second
            # request for the rest of it could block with data in hand.
            max_pages=-(-self._max_write // _PAGE_BYTES) + 1,
            map_alignment=0,
            flags2=0,
        )
        self._device.reply(request.unique, protocol.INIT_OUT.pack(answer))
        if kernel.major == protocol.MAJOR:
            self.ready.set()

    def _interrupt(self, unique: int) -> None:
        task = self._tasks.get(unique)
        if task is not None:  # else the reply is on its way
            task.cancel()
            asyncio.get_running_loop().call_later(self._flush_s, self._give_up, unique, task)

    def _give_up(self, unique: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(unique) is task:
            del self._tasks[unique]
            self._device.fail(unique, errno.EINTR)

    async def _serve(self, request: Request) -> None:
        try:
            if request.caller.pid == self._link.server_pid != 0:
                raise OSError(errno.EDEADLK, "the server would wait for itself")
            if request.opcode in _NAMING and not await self._judge(request.caller):
                raise OSError(errno.EACCES, f"the mount is not for process {request.caller.pid}")
            answer = await self._operations.table[request.opcode](request)
        except asyncio.CancelledError:
            self._fail(request, errno.EINTR)
        except Exception as error:  # noqa: BLE001  it becomes the reply, and is logged
            number, why = _failure(error)
            self._note(f"{self._name(request)}: {why} ({errno.errorcode.get(number, number)})")
            self._fail(request, number)
        else:
            waited = self._tasks.pop(request.unique, None) is not None
            if not (waited and self._device.reply(request.unique, answer.data)) and answer.undo is not None:
                answer.undo()

    def _fail(self, request: Request, number: int) -> None:
        if self._tasks.pop(request.unique, None) is not None:
            self._device.fail(request.unique, number)

    def _name(self, request: Request) -> str:
        """For the log: `open session/myproj/ctl`."""
        words = [Opcode(request.opcode).name.lower()]
        with suppress(OSError):  # a node that was forgotten
            words.append(self.nodes.get(request.nodeid).path() or "/")
        return " ".join(words)

    def _note(self, text: str) -> None:
        if self._log is not None:
            self._log(text)


def _failure(error: Exception) -> tuple[int, str]:
    """The errno for what went wrong, and what to tell about it."""
    if isinstance(error, ConnectionLostError):
        return errno.ENOTCONN, str(error)
    if isinstance(error, NinepError):
        return errno_of(str(error)), str(error)
    if isinstance(error, OSError) and error.errno:
        return error.errno, error.strerror or ""
    return errno.EIO, repr(error)
