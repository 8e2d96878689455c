"""Reads of a kind whose versions a webhook converts: the requested objects are converted first, then read as usual."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from shoal.apiserver.cache import Change, Entry
from shoal.apiserver.core import Call, Core
from shoal.apiserver.options import list_options
from shoal.apiserver.paths import WILDCARD
from shoal.apiserver.verbs.list import read_at
from shoal.apiserver.verbs.watch import Watcher, watch
from shoal.apiserver.webhooks.conversion import NotConverted, prepare, shown
from shoal.objects.errors import StatusError
from shoal.objects.wire import Answer, Sink

log = logging.getLogger("shoal.apiserver")

ATTEMPTS = 10
"""Attempts of a list that is written to while it is converted. Each converts only what changed meanwhile."""


def converting(read: Callable[[Core, Call], Answer]) -> Callable[[Core, Call], Awaitable[Answer]]:
    async def answered(core: Core, call: Call) -> Answer:
        if call.verb == "watch":
            return watch(core, call, ConvertingWatcher)
        for _ in range(ATTEMPTS):
            await _prepare(core, call)
            with suppress(NotConverted):
                return read(core, call)
        await _prepare(core, call)
        return read(core, call)

    return answered


async def _prepare(core: Core, call: Call) -> None:
    calls, resource = core.webhooks.calls, call.resource
    if call.verb == "get":
        entry = call.entry()
        await prepare(calls, call.target.cluster, resource, [entry] if entry is not None else [])
        return
    if call.target.cluster == WILDCARD:
        for cluster, table in list(call.kind.tables.items()):
            await prepare(calls, cluster, resource, table.select(call.namespace))
        return
    options = list_options(call.query, watching=False)
    at, exact = read_at(core, call, options)
    table = call.kind.as_of(call.target.cluster, at) if exact else call.kind.table(call.target.cluster)
    entries = table.select(call.namespace, options.after)
    if options.limit > 0 and not (options.labels or options.fields):
        entries = entries[: options.limit]
    await prepare(calls, call.target.cluster, resource, entries)


LONGEST = 10_000
"""Events that may wait for a webhook that does not respond."""


class ConvertingWatcher(Watcher):
    """Queues events until they are converted, so that they are sent in order."""

    def start(self, sink: Sink) -> None:
        self._line: deque[Callable[[], None] | Change] = deque()
        self._more = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._tell_all(), name="converting watch")
        sink.on_close(self._give_up)
        super().start(sink)

    def _give_up(self) -> None:
        self._task.cancel()

    def deliver(self, change: Change) -> None:
        self._later(change)
        if len(self._line) > LONGEST:
            self.end()  # the client reconnects and gets only the newest state

    def _later(self, told: Callable[[], None] | Change) -> None:
        self._line.append(told)
        self._more.set()

    def _send_state(self) -> None:
        for cluster, entry in self._state_entries():
            self._later(Change(entry.revision, cluster, None, entry))

    def _bookmark(self, annotations: dict[str, str] | None = None, revision: int = 0) -> None:
        tell, reached = super()._bookmark, self._core.cache.revision
        self._later(lambda: tell(annotations, reached))

    def _close(self) -> None:
        self._later(super()._close)

    async def _tell_all(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            line = list(self._line)
            self._line.clear()
            try:
                await self._convert([each for each in line if isinstance(each, Change)])
                for each in line:
                    if isinstance(each, Change):
                        super().deliver(self._shown(each))
                    else:
                        each()
            except StatusError as error:
                self._fail(error)
                return
            except Exception:
                log.exception("a watch of %s ends: what it has to tell cannot be converted", self._resource.plural)
                self.end()
                return

    async def _convert(self, changes: list[Change]) -> None:
        by_cluster: dict[str, list[Entry]] = {}
        for change in changes:
            known: Iterable[Entry | None] = (change.old, change.new)
            by_cluster.setdefault(change.cluster, []).extend(each for each in known if each is not None)
        for cluster, entries in by_cluster.items():
            await prepare(self._core.webhooks.calls, cluster, self._resource, entries)

    def _shown(self, change: Change) -> Change:
        old, new = (None if each is None else shown(self._resource, each) for each in (change.old, change.new))
        return Change(change.revision, change.cluster, old, new)
