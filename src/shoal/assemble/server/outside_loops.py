"""Tells the hub which of the loops that it leaves out run in no process, by the Leases of the loops.

A Lease counts as renewed when this process sees it change. Checks are counted instead of seconds: while the hub is
paused, nobody can renew. Processes may keep their Leases in any namespace (`--leader-elect-namespace`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.rbac.loop_accounts import LOOPS, lease_of
from shoal.objects.errors import StatusError
from shoal.runtime.leader_election import LEASES

log = logging.getLogger("shoal.assemble")

SUBJECT = "loops outside the hub"
INTERVAL_SECONDS = 5.0
MAX_CHECKS = 5
"""Without a renewal. They take longer than another process needs to acquire the Lease of one that was killed."""

Renewals = frozenset[tuple[str, str, str]]
"""Namespace, holder and time of renewal of each Lease of a loop that has a holder."""


class OutsideLoopMonitor:
    name = "outside-loop-monitor"

    def __init__(self, client: Client, clock: Clock, loops: Iterable[str], report: Callable[[str, str], None]) -> None:
        """`client` is for the root of the hub. `report` takes a subject and its error; empty: none."""
        self._client, self._clock, self._report = client, clock, report
        self._seen: dict[str, Renewals] = dict.fromkeys((loop for loop in LOOPS if loop in set(loops)), frozenset())
        self._checks = dict.fromkeys(self._seen, 0)
        """Checks since the last renewal."""

    async def run(self) -> None:
        try:
            while True:
                try:
                    await self.check()
                except (StatusError, Unreachable) as error:
                    log.info("cannot read the Leases of loops outside the hub: %s", error)
                await self._clock.sleep(INTERVAL_SECONDS)
        finally:
            self._report(SUBJECT, "")

    async def check(self) -> None:
        for loop in self._seen:
            renewals = await self._renewals(loop)
            self._checks[loop] = 0 if renewals - self._seen[loop] else self._checks[loop] + 1
            self._seen[loop] = renewals
        missing = ",".join(loop for loop, checks in self._checks.items() if checks > MAX_CHECKS)
        error = f"no process runs {missing}: start shoal controllers --loops {missing}" if missing else ""
        self._report(SUBJECT, error)

    async def _renewals(self, loop: str) -> Renewals:
        leases, _ = await self._client.list_all(LEASES, fields=f"metadata.name={lease_of(loop)}")
        specs = [(lease["metadata"]["namespace"], lease.get("spec") or {}) for lease in leases]
        return frozenset(
            (namespace, spec["holderIdentity"], spec.get("renewTime") or "")
            for namespace, spec in specs
            if spec.get("holderIdentity")
        )
