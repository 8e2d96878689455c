"""Executes disruption commands: taints the candidates, waits for their replacements, then deletes them.

Commands in flight are kept in memory only. After a restart, a node that was marked but not deleted is unmarked. If its
replacements still arrive, they are empty and removed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.clock import Clock, rfc3339
from shoal.fit.taints import same
from shoal.kinds.karpenter import DISRUPTED, DISRUPTION_REASON, INITIALIZED, is_going
from shoal.objects.conditions import condition_is, get_condition, remove_condition
from shoal.objects.errors import AlreadyExists, Conflict, NotFound
from shoal.provision.disruption.evicting import is_reschedulable
from shoal.provision.disruption.model import EMPTY, Candidate, Command
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.decide import with_condition
from shoal.provision.provisioning.claims import node_claim
from shoal.provision.simulation.model import NewClaim
from shoal.provision.telling import ABOUT_CLAIMS, ABOUT_NODES
from shoal.provision.view import CLAIMS, NODES, PODS, View
from shoal.runtime.recorder import NORMAL, WARNING, Recorder

Object = dict[str, Any]

LAUNCH_SECONDS = 600.0
"""Maximum time to wait for replacements."""
TRIES = 5


Promise = Callable[[str, Mapping[str, str]], None]
"""Called with a cluster and the expected nodes of pods by uid."""


class Failed(Exception):
    """The command cannot be executed; it is rolled back."""


@dataclass(slots=True)
class Running:
    cluster: str
    command: Command
    began: float
    waiting: set[str] = field(default_factory=set)
    """Replacements that are not initialized yet."""
    told: set[str] = field(default_factory=set)
    going: bool = False
    """The candidates were deleted."""

    def claims(self) -> set[str]:
        return {each.claim for each in self.command.candidates}

    def replacements(self) -> set[str]:
        return {claim.name for claim in self.command.replacements}

    def places(self, candidate: Candidate) -> dict[str, str]:
        """Expected nodes of the candidate's pods, by uid."""
        known = self.command.places
        return {uid: known[uid] for uid in _uids(candidate) if uid in known}


class Execution:
    def __init__(self, homes: Homes, view: View, recorder: Recorder, clock: Clock, promise: Promise) -> None:
        self._homes, self._view, self._recorder, self._clock = homes, view, recorder, clock
        self._promise = promise

    async def start(self, cluster: str, command: Command) -> Running | None:
        """Returns None if there was nothing left to do."""
        marked: list[Candidate] = []
        try:
            for each in command.candidates:
                if await self._mark(cluster, each, command):
                    marked.append(each)
                elif command.replacements:
                    raise Failed(f"node {each.name} has changed")
            if not marked:
                return None
            running = Running(cluster, replace(command, candidates=tuple(marked)), self._clock.now())
            for claim in command.replacements:
                await self._replace(cluster, command, claim)
                running.waiting.add(claim.name)
        except Exception:
            await self._unmark(cluster, marked)
            raise
        return running

    async def advance(self, running: Running) -> bool:
        """Returns True when the candidates are gone. Raises CommandFailed if they must stay."""
        if not running.going:
            self._wait(running)
            if running.waiting:
                return False
            for each in running.command.candidates:
                await self._let_go(running, each)
                # From now on the provisioner plans for these pods too: it must not buy a second replacement.
                self._promise(running.cluster, running.places(each))
            running.going = True
        here = (self._view.claims.get(running.cluster, name) for name in running.claims())
        return all(claim is None for claim in here)

    async def roll_back(self, running: Running, why: str) -> None:
        for each in running.command.candidates:
            said = f"Replacements are not to be had, the node stays: {why}"
            self._recorder.record(ABOUT_CLAIMS, running.cluster, each.standing.claim, WARNING, "DisruptionFailed", said)
        await self._unmark(running.cluster, running.command.candidates)

    async def clean(self, cluster: str, busy: Iterable[str]) -> None:
        """Removes marks without a command. `disrupting`: NodeClaims of commands in flight."""
        under_way = set(busy)
        for claim in self._view.claims.of(cluster):
            if claim["metadata"]["name"] in under_way or is_going(claim):
                continue
            node = self._view.node_of(cluster, (claim.get("status") or {}).get("providerID") or "")
            if get_condition(claim, DISRUPTION_REASON) is None and not _is_marked(node):
                continue
            await self._unmark_one(cluster, claim["metadata"]["name"], node)

    def _wait(self, running: Running) -> None:
        cluster, reason = running.cluster, running.command.reason
        for name in sorted(running.waiting):
            claim = self._view.claims.get(cluster, name)
            if claim is None or is_going(claim):
                raise Failed(f"replacement {name} was deleted")
            if condition_is(claim, INITIALIZED):
                running.waiting.discard(name)
                continue
            if name not in running.told:
                running.told.add(name)
                self._tell(cluster, claim, "DisruptionLaunching", f"Launching NodeClaim: {reason}")
                said = "Waiting on readiness to continue disruption"
                self._tell(cluster, claim, "DisruptionWaitingReadiness", said)
        if running.waiting and self._clock.now() >= running.began + LAUNCH_SECONDS:
            raise Failed("command reached timeout")

    async def _mark(self, cluster: str, candidate: Candidate, command: Command) -> bool:
        """Returns True if the node may be disrupted; one that may not is left unmarked."""
        client, reason = self._homes.client(cluster), command.reason
        try:
            node = await self._taint(cluster, candidate.name, _with_mark)
            if reason == EMPTY:
                there, _ = await client.list_all(PODS, fields=f"spec.nodeName={candidate.name}")
                if any(is_reschedulable(pod) for pod in there if pod["metadata"]["uid"] not in _uids(candidate)):
                    await self._taint(cluster, candidate.name, _without_mark)
                    return False
            claim = self._view.claims.get(cluster, candidate.claim)
            if claim is None or is_going(claim) or node is None:
                return False
            now = rfc3339(self._clock.now())
            await self._status(
                cluster, claim, lambda old: with_condition(old, DISRUPTION_REASON, "True", now, reason, reason)
            )
        except NotFound:
            return False
        return True

    async def _replace(self, cluster: str, command: Command, wanted: NewClaim) -> None:
        pool = self._view.pools.get(cluster, wanted.pool)
        if pool is None:
            raise Failed(f"NodePool {wanted.pool} is gone")
        client = self._homes.client(cluster)
        try:
            made = await client.create(CLAIMS, node_claim(pool, wanted))
        except AlreadyExists:
            made = await client.get(CLAIMS, wanted.name)  # created by an earlier, interrupted attempt
            if is_going(made):
                raise Failed(f"replacement {wanted.name} is still going from an earlier try") from None
        self._view.claims.learn(cluster, made)
        said = f"Wanted in place of {len(command.candidates)} node(s), {wanted.types[0]} at {wanted.price:g} an hour"
        self._tell(cluster, made, "Created", said)

    async def _let_go(self, running: Running, candidate: Candidate) -> None:
        client, claim = self._homes.client(running.cluster), candidate.standing.claim
        with suppress(NotFound, Conflict):
            gone = await client.delete(CLAIMS, candidate.claim, uid=claim["metadata"]["uid"])
            if "deletionTimestamp" in gone.get("metadata", {}):
                self._view.claims.learn(running.cluster, gone)
        reason = running.command.reason
        self._tell(running.cluster, claim, "DisruptionTerminating", f"Disrupting NodeClaim: {reason}")
        said = f"Disrupting Node: {reason}"
        self._recorder.record(
            ABOUT_NODES, running.cluster, candidate.standing.node, NORMAL, "DisruptionTerminating", said
        )

    async def _unmark(self, cluster: str, candidates: Iterable[Candidate]) -> None:
        for each in candidates:
            await self._unmark_one(cluster, each.claim, each.standing.node)

    async def _unmark_one(self, cluster: str, name: str, node: Object | None) -> None:
        claim = self._view.claims.get(cluster, name)
        if claim is None or is_going(claim):
            return
        with suppress(NotFound):
            if node is not None:
                await self._taint(cluster, node["metadata"]["name"], _without_mark)
            await self._status(cluster, claim, lambda old: remove_condition(old, DISRUPTION_REASON))

    async def _taint(self, cluster: str, name: str, change: Callable[[list[Object]], list[Object]]) -> Object | None:
        client = self._homes.client(cluster)
        node = self._view.nodes.get(cluster, name)
        for _ in range(TRIES):
            if node is None or is_going(node):
                return None
            taints = (node.get("spec") or {}).get("taints") or []
            wanted = change(taints)
            if wanted == taints:
                return node
            metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
            try:
                patch = {"metadata": metadata, "spec": {"taints": wanted or None}}
                return self._view.nodes.learn(cluster, await client.merge(NODES, name, patch))
            except Conflict:
                node = await client.get(NODES, name)
        raise Failed(f"node {name} is written too often")

    async def _status(self, cluster: str, claim: Object, change: Callable[[Object], Object]) -> None:
        client, name = self._homes.client(cluster), claim["metadata"]["name"]
        for _ in range(TRIES):
            new = change(claim)
            if new is claim:
                return
            try:
                self._view.claims.learn(cluster, await client.update(CLAIMS, new, "status"))
                return
            except Conflict:
                claim = await client.get(CLAIMS, name)
        raise Failed(f"NodeClaim {name} is written too often")

    def _tell(self, cluster: str, claim: Object, reason: str, said: str) -> None:
        self._recorder.record(ABOUT_CLAIMS, cluster, claim, NORMAL, reason, said)


def _with_mark(taints: list[Object]) -> list[Object]:
    return taints if any(same(each, DISRUPTED) for each in taints) else [*taints, DISRUPTED]


def _without_mark(taints: list[Object]) -> list[Object]:
    return [each for each in taints if not same(each, DISRUPTED)]


def _is_marked(node: Object | None) -> bool:
    return node is not None and any(same(each, DISRUPTED) for each in (node.get("spec") or {}).get("taints") or ())


def _uids(candidate: Candidate) -> set[str]:
    """Uids of the candidate's pods: known when it was chosen, and not worth keeping the node for."""
    return {pod["metadata"]["uid"] for pod in candidate.pods}
