"""Runs kind in background jobs: at most one per object, and a limited number of concurrent creations.

A finished job is kept until its result has been written to the status. Jobs outlive a controller that fails and runs
again: they are tasks of their own, and end with `run` of this module.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.capi.providers.kind.command import KindRunner
from shoal.capi.providers.kind.creation_steps import step_of_line
from shoal.capi.providers.kind.errors import KindError, unexpected_error
from shoal.capi.providers.kind.kubeconfig_secrets import KubeconfigAccess, parse_kubeconfig
from shoal.capi.providers.kind.status import CREATE, DELETE, LOAD_IMAGES

log = logging.getLogger("shoal.capi.kind")

Object = dict[str, Any]


@dataclass(slots=True)
class KindJob:
    action: str
    task: asyncio.Task[None] | None = None
    progress: str = ""
    done: bool = False
    error: KindError | None = None
    access: KubeconfigAccess | None = None
    """Of a cluster that was created."""
    steps: dict[str, str] = field(default_factory=dict)
    """States of the steps of a creation, by condition type."""
    images: Mapping[str, str] = field(default_factory=dict)
    """The images that are loaded, with their ids."""
    is_cancelled: bool = False
    """Nobody waits for the result."""


class KindJobs:
    name = "capi kind works"

    def __init__(self, command: KindRunner, creates: int, on_progress: Callable[[str], None]) -> None:
        """`on_progress` is called with the uid whose job made progress."""
        self._command, self._on_progress = command, on_progress
        self._create_slots, self._load_slots = asyncio.Semaphore(creates), asyncio.Semaphore(creates)
        self._jobs: dict[str, KindJob] = {}

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.gather(*(self.cancel(uid) for uid in self.uids()))

    def get(self, uid: str) -> KindJob | None:
        return self._jobs.get(uid)

    def uids(self) -> list[str]:
        return list(self._jobs)

    def create(self, uid: str, name: str, config: Object) -> None:
        async def make(job: KindJob) -> None:
            if self._create_slots.locked():
                self._report_progress(uid, job, "Waiting for other clusters that are being created")
            async with self._create_slots:
                self._report_progress(uid, job, f'Creating cluster "{name}"')
                await self._command.create(name, config, lambda line: self._report_progress(uid, job, line))
            try:
                job.access = parse_kubeconfig(await self._command.kubeconfig(name))
            except KindError as problem:
                log.info("kind cluster %s was created; its kubeconfig is not available yet: %s", name, problem)
            except Exception:
                log.exception("kind cluster %s was created; reading its kubeconfig failed", name)

        self._start(uid, KindJob(CREATE), make)

    def delete(self, uid: str, name: str) -> None:
        async def unmake(job: KindJob) -> None:
            await self._command.delete(name, lambda line: self._report_progress(uid, job, line))

        self._start(uid, KindJob(DELETE), unmake)

    def load_images(self, uid: str, name: str, images: Mapping[str, str]) -> None:
        """`images` are ids by name."""

        async def load(job: KindJob) -> None:
            async with self._load_slots:
                await self._command.load_images(name, list(images), lambda line: self._report_progress(uid, job, line))

        self._start(uid, KindJob(LOAD_IMAGES, images=images), load)

    def forget_finished(self, uid: str) -> None:
        job = self._jobs.get(uid)
        if job is not None and job.done:
            del self._jobs[uid]

    async def cancel(self, uid: str) -> None:
        """Returns when the job has ended. An interrupted call may be repeated."""
        job = self._jobs.get(uid)
        if job is None:
            return
        if job.task is not None:
            if not job.is_cancelled:  # a second cancellation would interrupt the end of the process
                job.is_cancelled = True
                job.task.cancel()
            await asyncio.wait((job.task,))
        if self._jobs.get(uid) is job:
            del self._jobs[uid]

    def _start(self, uid: str, job: KindJob, run_job: Callable[[KindJob], Awaitable[None]]) -> None:
        async def do() -> None:
            await run_job(job)

        def end(task: asyncio.Task[None]) -> None:
            job.done = True
            job.error = _error_of(task, job, uid)
            if not job.is_cancelled:
                self._notify(uid)

        self._jobs[uid] = job
        job.task = asyncio.get_running_loop().create_task(do(), name=f"kind {job.action} {uid}")
        job.task.add_done_callback(end)

    def _report_progress(self, uid: str, job: KindJob, line: str) -> None:
        job.progress = line[:1000]
        step = step_of_line(line)
        if step is not None:
            # Kept apart from the last line: lines may come faster than the status is written.
            job.steps = {**job.steps, step[0]: step[1]}
        self._notify(uid)

    def _notify(self, uid: str) -> None:
        """A handler that fails does not end the job."""
        try:
            self._on_progress(uid)
        except Exception:
            log.exception("kind job of KINDCluster with uid %s failed", uid)


def _error_of(task: asyncio.Task[None], job: KindJob, uid: str) -> KindError | None:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is None or isinstance(error, KindError):
        return error
    if not job.is_cancelled:
        log.error("kind job of KINDCluster with uid %s failed", uid, exc_info=error)
    return unexpected_error(error)
