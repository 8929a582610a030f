"""Runs jobs: starts a process, drains its output, ends it in time, and reports.

A foreground call lives as long as who asked for it: when its caller goes, it is ended, and the cancellation is over
only when nothing of it is alive. A background run lives until it ends, is stopped, or the server ends. In both cases a
task of the table does the work, so that no cancellation can come between a process and the end of it.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache, partial
from time import time

from ollie.protocol import result
from ollie.protocol.payload import Call
from ollie.protocol.result import ResultError, ToolResult
from ollie.protocol.why import explain
from ollie.protocol.words import reason
from ollie.sandbox.launcher import Exit, Launcher, SandboxError, Spec
from ollie.sandbox.launcher import Run as Process
from ollie.sandbox.open_files import scarce
from ollie.toolsrv import report
from ollie.toolsrv.bypass import Broker, check
from ollie.toolsrv.capture import Capture
from ollie.toolsrv.descriptor import Descriptor
from ollie.toolsrv.done import Done
from ollie.toolsrv.events import Events, of_run
from ollie.toolsrv.output import Output
from ollie.toolsrv.prepare import InvalidError, Job, RefusedError, Settings, prepare
from ollie.toolsrv.registry import Registry
from ollie.toolsrv.runs import Run, Runs, State
from ollie.toolsrv.validation import Failures, Rate

_log = logging.getLogger(__name__)

YOLO = "not sandboxed: toolsrv runs with --yolo"
APPROVED = "not sandboxed: this run was approved"
_STARTED = "runs in the background as process {pid}; a message comes when it has ended"
_ASK = "to run it without the sandbox, if the user approves, call it again with bypass: true"


class Executor:
    """Runs the calls of one server."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        launcher: Launcher,
        runs: Runs,
        *,
        broker: Broker,
        events: Events,
        done: Done,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._launcher = launcher
        self._runs = runs
        self._broker = broker
        self._events = events
        self._done = done
        self._failures = Failures(Rate(), time)

    async def foreground(self, call: Call) -> ToolResult:
        """Run a call to its end, or start it when it says so. Cancelled, it returns when nothing of it is alive."""
        try:
            job = await self._cleared(call, background=False)
            if job.task.background:
                return result.text(_STARTED.format(pid=(await self._started(job)).number))
            run, printed = self._start(job)
        except RefusedError as error:
            return result.text(str(error), is_error=True)
        await self._unless_abandoned(run, run.ended())
        run.dismiss()
        return self._report(job, run, printed)

    async def background(self, call: Call) -> Run:
        """Start a call; returns when it runs. Cancelled before that, it returns when nothing of it is alive.

        Raises:
            RefusedError: It cannot run.
        """
        return await self._started(await self._cleared(call, background=True))

    async def _started(self, job: Job) -> Run:
        """A run of the job in the background."""
        run, _ = self._start(job)
        await self._unless_abandoned(run, run.started())
        if run.failure:
            run.dismiss()
            raise RefusedError(run.failure)
        return run

    async def _cleared(self, call: Call, *, background: bool) -> Job:
        """The job of a call, once it may run.

        Raises:
            RefusedError: It cannot run, or is not approved.
        """
        if why := self._failures.blocked(call.agent):
            raise RefusedError(why)
        self._admit(call.agent)
        try:
            job = prepare(call, self._registry, self._settings, background=background)
        except InvalidError:
            self._failures.add(call.agent)
            raise
        return await self._broker.clear(job) if job.bypass else job

    def _admit(self, agent: str) -> None:
        """Refuse one run more than an agent may have."""
        most = self._settings.max_runs
        if self._runs.live_of(agent) >= most:
            raise RefusedError(
                f"not run: {most} runs of this agent have not ended, and there may be no more (max_runs); wait for one "
                "or end one: proc/PID/ctl"
            )

    async def _unless_abandoned(self, run: Run, waiting: Awaitable[None]) -> None:
        """Wait, and end the run when whoever waits goes away."""
        try:
            await waiting
        except asyncio.CancelledError:
            # A second cancellation ends the waiting, not the stopping.
            await asyncio.shield(self._runs.work(self._abandon(run)))
            raise

    async def _abandon(self, run: Run) -> None:
        """End a run that nobody waits for any more."""
        await run.stop(self._settings.grace_s)
        run.dismiss()

    def _start(self, job: Job) -> tuple[Run, Output]:
        """A run for the job, and what the tool prints on standard output, which may be part of the run's output.

        Raises:
            RefusedError: Its agent has as many as it may.
        """
        self._admit(job.task.agent)
        run = self._runs.open(job.task, Output(self._settings.output_bytes))
        printed = Output(self._settings.output_bytes) if job.blocks else run.output
        if run.task.told:
            self._done.started(run)
        self._runs.work(self._work(job, run, printed))
        return run, printed

    async def _work(self, job: Job, run: Run, printed: Output) -> None:
        """Start the process, and see to it until nothing of it is alive."""
        end = None
        failure = "internal error"
        try:
            if scarce():
                raise RefusedError("not run: the tool server has no open files to spare; try when others have ended")
            with (
                Capture(run.output) as stderr,
                Capture(printed) if job.blocks else nullcontext(stderr) as stdout,
                self._descriptor(run) as descriptor,
            ):
                await check(job)
                process = await self._spawn(job, stdout, stderr, descriptor)
                run.spawned(process)
                self._events.emit(run.task.agent, of_run(run))
                if run.state is State.STOPPING:
                    await process.kill(self._settings.grace_s)
                end = await self._in_time(process, job.timeout_s)
        except (SandboxError, RefusedError, OSError) as error:
            failure = str(error)
        finally:
            run.finished(end, "" if end else failure)
            if run.task.told:
                self._note(job, run)
            self._events.emit(run.task.agent, of_run(run))
            # Whoever waits for the run is woken before.
            asyncio.get_running_loop().call_soon(self._settle, job, run)

    def _settle(self, job: Job, run: Run) -> None:
        """What remains to be done about a run that has ended."""
        self._runs.collect()
        how = (report.ending(run.exit, job.timeout_s) or "exit status 0") if run.exit else run.failure
        _log.info("run %d: %s for %s, %.3f s: %s", run.number, job.task.tool, job.task.agent, run.runtime_s, how)

    def _descriptor(self, run: Run) -> AbstractContextManager[Descriptor | None]:
        """How the tool reaches olliesrv, where there is one and an agent."""
        where, agent = self._settings.olliesrv, run.task.agent
        return Descriptor(where, agent, run.number) if where and agent else nullcontext()

    async def _spawn(self, job: Job, stdout: Capture, stderr: Capture, descriptor: Descriptor | None) -> Process:
        stdin = _readable(job.stdin)
        try:
            return await self._launcher.spawn(
                Spec(
                    argv=() if job.function else job.argv,
                    call=job.function,
                    env=job.environment,
                    cwd=job.cwd,
                    policy=job.policy if job.enforced else None,
                    limits=job.policy.limits,
                    stdin=stdin,
                    stdout=stdout.write,
                    stderr=stderr.write,
                    broker=descriptor.given if descriptor else -1,
                    background=job.task.background,
                    grace_s=self._settings.grace_s,
                )
            )
        finally:
            stdout.started()
            stderr.started()
            if descriptor:
                descriptor.started()
            if stdin >= 0:
                os.close(stdin)

    async def _in_time(self, process: Process, timeout_s: float | None) -> Exit:
        """How the process ended; it is ended when its time is up."""
        try:
            async with asyncio.timeout(timeout_s):
                return await process.wait()
        except TimeoutError:
            await process.kill(self._settings.grace_s, "timed out")
            return await process.wait()

    def _note(self, job: Job, run: Run) -> None:
        """Have it told that a background run has ended."""
        if run.exit is None:
            self._done.never(run)
            return
        last = report.ending(run.exit, job.timeout_s)
        kept = run.output.kept(report.EXCERPT_BYTES)
        shown = report.shown(kept)
        save = cache(partial(self._save, run, run.output))
        said = self._said(job, run.exit, shown if last else "")
        self._done.ended(run, report.text_result(shown, kept.missing, "", said, save).text)

    def _said(self, job: Job, end: Exit, failed: str) -> list[str]:
        """What is to be said about a run besides its output, which is looked at when it has failed."""
        refused = explain(job.policies, failed, job.cwd, job.task.command) if failed and job.enforced else ()
        said = report.remarks(end, (*refused, _ASK) if refused else ())
        if not job.enforced:
            said.append(APPROVED if job.bypass else YOLO)
        return said

    def _report(self, job: Job, run: Run, printed: Output) -> ToolResult:
        """The result of a run that has ended."""
        if run.exit is None:
            return result.text(run.failure, is_error=True)
        last = report.ending(run.exit, job.timeout_s)
        kept = run.output.kept(report.EXCERPT_BYTES)
        shown = report.shown(kept)
        said = self._said(job, run.exit, shown if last else "")
        save = cache(partial(self._save, run, printed))
        if not job.blocks:
            return report.text_result(shown, kept.missing, last, said, save)
        try:
            return report.block_result(printed.kept(), last, said, save)
        except ResultError as error:
            wrong = printed.kept(report.EXCERPT_BYTES)
            shown = report.shown(wrong) + shown
            return report.text_result(shown, wrong.missing + kept.missing, last or str(error), said, save)

    def _save(self, run: Run, output: Output) -> str | None:
        """Put what was kept of an output into a file that the tools of the session can read; its path."""
        path = self._settings.tmpdir / f"output-{run.number}-{os.urandom(4).hex()}.txt"
        try:
            # Tools may write to that directory, and have put a link there if they could guess the name.
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            with os.fdopen(fd, "wb") as file:
                file.writelines(output.everything())
        except OSError as error:
            _log.warning("cannot keep the output of run %d in %s: %s", run.number, path, reason(error))
            with suppress(OSError):
                path.unlink()
            return None
        return str(path)


def _readable(data: bytes) -> int:
    """A descriptor that gives `data` and then end of file; -1, which stands for /dev/null, when there is none."""
    if not data:
        return -1
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    try:
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
    except OSError:
        os.close(fd)
        raise
    return fd
