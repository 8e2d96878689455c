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
from shoal.fit.taints import is_same_taint
from shoal.kinds.karpenter.karpenter import DISRUPTED_TAINT, DISRUPTION_REASON, INITIALIZED, is_deleting
from shoal.objects.conditions import condition_is, get_condition, remove_condition
from shoal.objects.errors import AlreadyExists, Conflict, NotFound
from shoal.provision.disruption.model import EMPTY, Candidate, Command
from shoal.provision.events import NODE_CLAIM_EVENTS, NODE_EVENTS
from shoal.provision.evictability import is_reschedulable
from shoal.provision.lifecycle.decide import with_condition
from shoal.provision.management import ManagementResolver
from shoal.provision.provisioning.nodeclaim import new_node_claim
from shoal.provision.simulation.model import NewNodeClaim
from shoal.provision.state import NODE_CLAIMS, NODES, PODS, ClusterState
from shoal.runtime.event_recorder import NORMAL, WARNING, EventRecorder
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]

LAUNCH_TIMEOUT_SECONDS = 600.0
"""Maximum time to wait for replacements."""
MAX_ATTEMPTS = 5


Nominate = Callable[[str, Mapping[str, str]], None]
"""Called with a cluster and the expected nodes of pods by uid."""


class CommandFailed(Exception):
    """The command cannot be executed; it is rolled back."""


@dataclass(slots=True)
class InFlightCommand:
    cluster: str
    command: Command
    started_at: float
    uninitialized: set[str] = field(default_factory=set)
    """Replacements that are not initialized yet."""
    announced: set[str] = field(default_factory=set)
    deleting: bool = False
    """The candidates were deleted."""

    def candidate_claims(self) -> set[str]:
        return {each.claim for each in self.command.candidates}

    def replacement_claims(self) -> set[str]:
        return {claim.name for claim in self.command.replacements}

    def placements_of(self, candidate: Candidate) -> dict[str, str]:
        """Expected nodes of the candidate's pods, by uid."""
        placements = self.command.pod_placements
        return {uid: placements[uid] for uid in _pod_uids(candidate) if uid in placements}


class CommandExecutor:
    def __init__(
        self,
        resolver: ManagementResolver,
        state: ClusterState,
        recorder: EventRecorder,
        clock: Clock,
        nominate: Nominate,
    ) -> None:
        self._resolver, self._state, self._recorder, self._clock = resolver, state, recorder, clock
        self._nominate = nominate

    async def start(self, cluster: str, command: Command) -> InFlightCommand | None:
        """Returns None if there was nothing left to do."""
        marked: list[Candidate] = []
        try:
            for each in command.candidates:
                if await self._mark_candidate(cluster, each, command):
                    marked.append(each)
                elif command.replacements:
                    raise CommandFailed(f"node {each.name} has changed")
            if not marked:
                return None
            in_flight = InFlightCommand(cluster, replace(command, candidates=tuple(marked)), self._clock.now())
            for claim in command.replacements:
                await self._create_replacement(cluster, command, claim)
                in_flight.uninitialized.add(claim.name)
        except Exception:
            await self._unmark_candidates(cluster, marked)
            raise
        return in_flight

    async def advance(self, in_flight: InFlightCommand) -> bool:
        """Returns True when the candidates are gone. Raises CommandFailed if they must stay."""
        if not in_flight.deleting:
            self._check_replacements(in_flight)
            if in_flight.uninitialized:
                return False
            for each in in_flight.command.candidates:
                await self._delete_candidate(in_flight, each)
                # From now on the provisioner plans for these pods too: it must not buy a second replacement.
                self._nominate(in_flight.cluster, in_flight.placements_of(each))
            in_flight.deleting = True
        here = (self._state.node_claims.get((in_flight.cluster, "", name)) for name in in_flight.candidate_claims())
        return all(claim is None for claim in here)

    async def roll_back(self, in_flight: InFlightCommand, error: str) -> None:
        for each in in_flight.command.candidates:
            message = f"Cannot launch replacements, keeping the node: {error}"
            self._recorder.record(
                NODE_CLAIM_EVENTS, in_flight.cluster, each.state_node.claim, WARNING, "DisruptionFailed", message
            )
        await self._unmark_candidates(in_flight.cluster, in_flight.command.candidates)

    async def clean_stale_marks(self, cluster: str, disrupting: Iterable[str]) -> None:
        """Removes marks without a command. `disrupting`: NodeClaims of commands in flight."""
        disrupting_names = set(disrupting)
        for claim in self._state.node_claims.by_index(by_cluster, cluster):
            if claim["metadata"]["name"] in disrupting_names or is_deleting(claim):
                continue
            node = self._state.node_by_provider_id(cluster, (claim.get("status") or {}).get("providerID") or "")
            if get_condition(claim, DISRUPTION_REASON) is None and not _has_disrupted_taint(node):
                continue
            await self._unmark_claim(cluster, claim["metadata"]["name"], node)

    def _check_replacements(self, in_flight: InFlightCommand) -> None:
        cluster, reason = in_flight.cluster, in_flight.command.reason
        for name in sorted(in_flight.uninitialized):
            claim = self._state.node_claims.get((cluster, "", name))
            if claim is None or is_deleting(claim):
                raise CommandFailed(f"replacement {name} was deleted")
            if condition_is(claim, INITIALIZED):
                in_flight.uninitialized.discard(name)
                continue
            if name not in in_flight.announced:
                in_flight.announced.add(name)
                self._record_event(cluster, claim, "DisruptionLaunching", f"Launching NodeClaim: {reason}")
                message = "Waiting on readiness to continue disruption"
                self._record_event(cluster, claim, "DisruptionWaitingReadiness", message)
        if in_flight.uninitialized and self._clock.now() >= in_flight.started_at + LAUNCH_TIMEOUT_SECONDS:
            raise CommandFailed("command reached timeout")

    async def _mark_candidate(self, cluster: str, candidate: Candidate, command: Command) -> bool:
        """Returns True if the node may be disrupted; one that may not is left unmarked."""
        client, reason = self._resolver.client(cluster), command.reason
        try:
            node = await self._update_taints(cluster, candidate.name, _with_disrupted_taint)
            if reason == EMPTY:
                running_pods, _ = await client.list_all(PODS, fields=f"spec.nodeName={candidate.name}")
                if any(
                    is_reschedulable(pod) for pod in running_pods if pod["metadata"]["uid"] not in _pod_uids(candidate)
                ):
                    await self._update_taints(cluster, candidate.name, _without_disrupted_taint)
                    return False
            claim = self._state.node_claims.get((cluster, "", candidate.claim))
            if claim is None or is_deleting(claim) or node is None:
                return False
            now = rfc3339(self._clock.now())
            await self._update_status(
                cluster, claim, lambda old: with_condition(old, DISRUPTION_REASON, "True", now, reason, reason)
            )
        except NotFound:
            return False
        return True

    async def _create_replacement(self, cluster: str, command: Command, new_claim: NewNodeClaim) -> None:
        pool = self._state.node_pools.get((cluster, "", new_claim.pool))
        if pool is None:
            raise CommandFailed(f"NodePool {new_claim.pool} was deleted")
        client = self._resolver.client(cluster)
        try:
            created = await client.create(NODE_CLAIMS, new_node_claim(pool, new_claim))
        except AlreadyExists:
            created = await client.get(NODE_CLAIMS, new_claim.name)  # created by an earlier, interrupted attempt
            if is_deleting(created):
                raise CommandFailed(
                    f"replacement {new_claim.name} of an earlier attempt is still being deleted"
                ) from None
        self._state.node_claims.observe_write(created, cluster)
        message = (
            f"Created to replace {len(command.candidates)} node(s): "
            f"{new_claim.types[0]} at {new_claim.price:g} per hour"
        )
        self._record_event(cluster, created, "Created", message)

    async def _delete_candidate(self, in_flight: InFlightCommand, candidate: Candidate) -> None:
        client, claim = self._resolver.client(in_flight.cluster), candidate.state_node.claim
        with suppress(NotFound, Conflict):
            deleted = await client.delete(NODE_CLAIMS, candidate.claim, uid=claim["metadata"]["uid"])
            if "deletionTimestamp" in deleted.get("metadata", {}):
                self._state.node_claims.observe_write(deleted, in_flight.cluster)
        reason = in_flight.command.reason
        self._record_event(in_flight.cluster, claim, "DisruptionTerminating", f"Disrupting NodeClaim: {reason}")
        message = f"Disrupting Node: {reason}"
        self._recorder.record(
            NODE_EVENTS, in_flight.cluster, candidate.state_node.node, NORMAL, "DisruptionTerminating", message
        )

    async def _unmark_candidates(self, cluster: str, candidates: Iterable[Candidate]) -> None:
        for each in candidates:
            await self._unmark_claim(cluster, each.claim, each.state_node.node)

    async def _unmark_claim(self, cluster: str, name: str, node: Object | None) -> None:
        claim = self._state.node_claims.get((cluster, "", name))
        if claim is None or is_deleting(claim):
            return
        with suppress(NotFound):
            if node is not None:
                await self._update_taints(cluster, node["metadata"]["name"], _without_disrupted_taint)
            await self._update_status(cluster, claim, lambda old: remove_condition(old, DISRUPTION_REASON))

    async def _update_taints(
        self, cluster: str, name: str, change: Callable[[list[Object]], list[Object]]
    ) -> Object | None:
        client = self._resolver.client(cluster)
        node = self._state.nodes.get((cluster, "", name))
        for _ in range(MAX_ATTEMPTS):
            if node is None or is_deleting(node):
                return None
            taints = (node.get("spec") or {}).get("taints") or []
            desired = change(taints)
            if desired == taints:
                return node
            metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
            try:
                patch = {"metadata": metadata, "spec": {"taints": desired or None}}
                return self._state.nodes.observe_write(await client.merge_patch(NODES, name, patch), cluster)
            except Conflict:
                node = await client.get(NODES, name)
        raise CommandFailed(f"too many conflicts writing node {name}")

    async def _update_status(self, cluster: str, claim: Object, change: Callable[[Object], Object]) -> None:
        client, name = self._resolver.client(cluster), claim["metadata"]["name"]
        for _ in range(MAX_ATTEMPTS):
            new = change(claim)
            if new is claim:
                return
            try:
                self._state.node_claims.observe_write(await client.update(NODE_CLAIMS, new, "status"), cluster)
                return
            except Conflict:
                claim = await client.get(NODE_CLAIMS, name)
        raise CommandFailed(f"too many conflicts writing NodeClaim {name}")

    def _record_event(self, cluster: str, claim: Object, reason: str, message: str) -> None:
        self._recorder.record(NODE_CLAIM_EVENTS, cluster, claim, NORMAL, reason, message)


def _with_disrupted_taint(taints: list[Object]) -> list[Object]:
    return taints if any(is_same_taint(each, DISRUPTED_TAINT) for each in taints) else [*taints, DISRUPTED_TAINT]


def _without_disrupted_taint(taints: list[Object]) -> list[Object]:
    return [each for each in taints if not is_same_taint(each, DISRUPTED_TAINT)]


def _has_disrupted_taint(node: Object | None) -> bool:
    return node is not None and any(
        is_same_taint(each, DISRUPTED_TAINT) for each in (node.get("spec") or {}).get("taints") or ()
    )


def _pod_uids(candidate: Candidate) -> set[str]:
    """Uids of the candidate's pods: known when it was chosen, and not worth keeping the node for."""
    return {pod["metadata"]["uid"] for pod in candidate.pods}
