"""Runs kind in background jobs: at most one per object, and a limited number of concurrent creations.

A finished job is kept until its result has been written to the status. All jobs end with `run`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from shoal.capi.providers.kind.command import KindRunner
from shoal.capi.providers.kind.errors import COMMAND_FAILED, KindError
from shoal.capi.providers.kind.kubeconfig_secrets import KubeconfigAccess, parse_kubeconfig
from shoal.capi.providers.kind.status import CREATE, DELETE

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


class KindJobs:
    name = "capi kind works"

    def __init__(self, command: KindRunner, creates: int, on_progress: Callable[[str], None]) -> None:
        """`on_progress` is called with the uid whose job made progress."""
        self._command, self._on_progress = command, on_progress
        self._create_slots = asyncio.Semaphore(creates)
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
            job.progress = "Waiting for other clusters that are being created"
            async with self._create_slots:
                self._report_progress(uid, job, f'Creating cluster "{name}"')
                await self._command.create(name, config, lambda line: self._report_progress(uid, job, line))
            try:
                job.access = parse_kubeconfig(await self._command.kubeconfig(name))
            except KindError as problem:
                log.info("kind cluster %s was created; its kubeconfig is not available yet: %s", name, problem)

        self._start(uid, KindJob(CREATE), make)

    def delete(self, uid: str, name: str) -> None:
        async def unmake(job: KindJob) -> None:
            await self._command.delete(name, lambda line: self._report_progress(uid, job, line))

        self._start(uid, KindJob(DELETE), unmake)

    def forget_finished(self, uid: str) -> None:
        job = self._jobs.get(uid)
        if job is not None and job.done:
            del self._jobs[uid]

    async def cancel(self, uid: str) -> None:
        """Returns when the job has ended."""
        job = self._jobs.get(uid)
        if job is None:
            return
        if job.task is not None:
            job.task.cancel()
            await asyncio.gather(job.task, return_exceptions=True)
        if self._jobs.get(uid) is job:
            del self._jobs[uid]

    def _start(self, uid: str, job: KindJob, run_job: Callable[[KindJob], Awaitable[None]]) -> None:
        async def do() -> None:
            try:
                await run_job(job)
            except KindError as problem:
                job.error = problem
            except Exception as error:
                log.exception("kind job of KINDCluster with uid %s failed", uid)
                job.error = KindError(COMMAND_FAILED, f"{type(error).__name__}")
            job.done = True
            self._on_progress(uid)

        self._jobs[uid] = job
        job.task = asyncio.get_running_loop().create_task(do(), name=f"kind {job.action} {uid}")

    def _report_progress(self, uid: str, job: KindJob, line: str) -> None:
        job.progress = line[:1000]
        self._on_progress(uid)
