"""Runs kind in background jobs: at most one per object, and a limited number of concurrent creations.

A finished job is kept until its result has been written to the status. All jobs end with `run`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from shoal.capi.providers.kind.answers import FAILED, Problem
from shoal.capi.providers.kind.command import Kind
from shoal.capi.providers.kind.kubeconfigs import Access, access_of
from shoal.capi.providers.kind.status import CREATE, DELETE

log = logging.getLogger("shoal.capi.kind")

Object = dict[str, Any]


@dataclass(slots=True)
class Running:
    action: str
    task: asyncio.Task[None] | None = None
    progress: str = ""
    done: bool = False
    problem: Problem | None = None
    access: Access | None = None
    """Of a cluster that was created."""


class Works:
    name = "capi kind works"

    def __init__(self, command: Kind, creates: int, changed: Callable[[str], None]) -> None:
        """`on_progress` is called with the uid whose job made progress."""
        self._command, self._changed = command, changed
        self._places = asyncio.Semaphore(creates)
        self._running: dict[str, Running] = {}

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.gather(*(self.cancel(uid) for uid in self.uids()))

    def of(self, uid: str) -> Running | None:
        return self._running.get(uid)

    def uids(self) -> list[str]:
        return list(self._running)

    def create(self, uid: str, name: str, config: Object) -> None:
        async def make(work: Running) -> None:
            work.progress = "Waiting for other clusters that are being made"
            async with self._places:
                self._heard(uid, work, f'Creating cluster "{name}"')
                await self._command.create(name, config, lambda line: self._heard(uid, work, line))
            try:
                work.access = access_of(await self._command.kubeconfig(name))
            except Problem as problem:
                log.info("kind cluster %s is made, its kubeconfig has to wait: %s", name, problem)

        self._begin(uid, Running(CREATE), make)

    def delete(self, uid: str, name: str) -> None:
        async def unmake(work: Running) -> None:
            await self._command.delete(name, lambda line: self._heard(uid, work, line))

        self._begin(uid, Running(DELETE), unmake)

    def settle(self, uid: str) -> None:
        work = self._running.get(uid)
        if work is not None and work.done:
            del self._running[uid]

    async def cancel(self, uid: str) -> None:
        """Returns when the job has ended."""
        work = self._running.get(uid)
        if work is None:
            return
        if work.task is not None:
            work.task.cancel()
            await asyncio.gather(work.task, return_exceptions=True)
        if self._running.get(uid) is work:
            del self._running[uid]

    def _begin(self, uid: str, work: Running, doing: Callable[[Running], Awaitable[None]]) -> None:
        async def do() -> None:
            try:
                await doing(work)
            except Problem as problem:
                work.problem = problem
            except Exception as error:
                log.exception("kind, for %s", uid)
                work.problem = Problem(FAILED, f"{type(error).__name__}")
            work.done = True
            self._changed(uid)

        self._running[uid] = work
        work.task = asyncio.get_running_loop().create_task(do(), name=f"kind {work.action} {uid}")

    def _heard(self, uid: str, work: Running, line: str) -> None:
        work.progress = line[:1000]
        self._changed(uid)
