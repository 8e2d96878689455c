"""NodeClaim lifecycle controller: launch, registration and initialization, followed by one status write. Deletes a
NodeClaim on a liveness timeout, on expiration, or when its instance is lost. Deletion is handled by `finalizer`.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter.karpenter import (
    LAUNCHED,
    REGISTERED,
    TERMINATION_FINALIZER,
    ZONE,
    is_deleting,
    is_managed_node_class,
    nodepool_of,
)
from shoal.objects.conditions import condition_is
from shoal.objects.duration import parse_time
from shoal.objects.errors import Conflict, NotFound, StatusError
from shoal.provision.cloudprovider.types import (
    CloudProvider,
    CreateError,
    InsufficientCapacity,
    LaunchPending,
    NodeClassNotReady,
    NotSynced,
    ProviderError,
)
from shoal.provision.events import NODE_CLAIM_EVENTS
from shoal.provision.lifecycle.decide import (
    is_expired,
    is_lost,
    launch_backoff,
    launch_labels,
    launched_status,
    liveness_timeout,
    needs_finalizer,
    seconds_until_deadline,
    truncate_message,
    with_condition,
)
from shoal.provision.lifecycle.deletion import delete_claim
from shoal.provision.lifecycle.finalizer import NodeClaimFinalizer
from shoal.provision.lifecycle.registration import NodeRegistration
from shoal.provision.lifecycle.registrationhealth.controller import RegistrationHealthReconciler
from shoal.provision.lifecycle.registrationhealth.decide import failed_outcome
from shoal.provision.management import ManagementResolver
from shoal.provision.metrics import NODES_CREATED
from shoal.provision.state import NODE_CLAIMS, ClusterState, ObjectKey
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.event_recorder import NORMAL, WARNING, EventRecorder

Object = dict[str, Any]

STATUS_DELAY_SECONDS = 1.0
"""A younger pending launch is not written to the status: most finish by then."""


class LifecycleReconciler:
    def __init__(
        self,
        resolver: ManagementResolver,
        state: ClusterState,
        provider: CloudProvider,
        registration_health: RegistrationHealthReconciler,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._resolver, self._state, self._provider = resolver, state, provider
        self._registration_health, self._recorder, self._clock = registration_health, recorder, clock
        self._registration = NodeRegistration(resolver, state, recorder)
        self._finalizer = NodeClaimFinalizer(resolver, state, provider, recorder, clock)
        self._launch_failures: dict[str, tuple[int, float]] = {}
        """By uid: consecutive launch failures, and when the next attempt is made."""
        self.controller: Controller[ObjectKey] = Controller("nodeclaims", clock, self.reconcile, workers=8)
        state.node_claims.add_event_handler(self._on_claim)
        state.nodes.add_event_handler(self._on_node)
        provider.add_event_handler(self._on_provider_change)

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.controller.queue.add((key[0], key[2]))
        elif old is not None:
            self._launch_failures.pop(old["metadata"]["uid"], None)

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        claim = self._state.claim_of(key[0], new or old)
        if claim is not None:
            self.controller.queue.add((key[0], claim["metadata"]["name"]))

    def _on_provider_change(self, cluster: str, claim: str) -> None:
        if claim:
            self.controller.queue.add((cluster, claim))

    async def reconcile(self, key: ObjectKey) -> float | None:
        cluster, name = key
        claim = self._state.node_claims.get((cluster, "", name))
        if claim is None or not is_managed_node_class(claim["spec"]):
            return None
        if not (self._state.has_synced and self._provider.has_synced):
            raise RequeueError("informers have not synced yet")
        try:
            if is_deleting(claim):
                return await self._finalizer.advance(cluster, claim)
            if needs_finalizer(claim):
                finalizers = [*(claim["metadata"].get("finalizers") or ()), TERMINATION_FINALIZER]
                claim = await self._patch(cluster, claim, {"metadata": {"finalizers": finalizers}})
            return await self._advance(cluster, claim)
        except NotFound:
            return None  # the NodeClaim or its cluster was deleted
        except NotSynced as error:
            raise RequeueError(str(error)) from error

    async def _advance(self, cluster: str, claim: Object) -> float | None:
        now = self._clock.now()
        if timeout := liveness_timeout(claim, now):
            message = f"timed out waiting for {timeout.removesuffix('_timeout')}"
            await self._delete_claim(cluster, claim, timeout, WARNING, "LivenessTimeout", message)
            self._registration_health.record(cluster, claim, failed_outcome(claim))
            return None
        if is_expired(claim, now):
            message = "Disrupting NodeClaim: Expired/Delete"
            return await self._delete_claim(cluster, claim, "expired", NORMAL, "DisruptionTerminating", message)
        if condition_is(claim, LAUNCHED):
            node = next(iter(self._state.nodes_of(cluster, claim)), None)
            if is_lost(claim, self._provider.get(cluster, claim), node):
                message = "Disrupting NodeClaim: its instance no longer exists"
                return await self._delete_claim(
                    cluster, claim, "garbage_collected", NORMAL, "DisruptionTerminating", message
                )
            return await self._update_status(cluster, claim, claim)
        return await self._launch(cluster, claim)

    async def _launch(self, cluster: str, claim: Object) -> float | None:
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        failures, next_try = self._launch_failures.get(uid, (0, 0.0))
        if next_try > self._clock.monotonic() + 0.001:
            return next_try - self._clock.monotonic()
        now_rfc3339 = rfc3339(self._clock.now())
        try:
            launch = await self._provider.create(cluster, claim)
        except NotSynced as error:
            launch = LaunchPending(str(error))
        except (InsufficientCapacity, NodeClassNotReady) as error:
            message = f"NodeClaim {name} event: {truncate_message(str(error))}"
            metric_reason = (
                "insufficient_capacity" if isinstance(error, InsufficientCapacity) else "nodeclass_not_ready"
            )
            return await self._delete_claim(cluster, claim, metric_reason, WARNING, error.reason, message)
        except (ProviderError, StatusError, Unreachable) as error:
            if isinstance(error, Conflict | NotFound):
                raise
            claim = self._state.node_claims.get((cluster, "", name)) or claim
            backoff = launch_backoff(failures + 1)
            self._launch_failures[uid] = failures + 1, self._clock.monotonic() + backoff
            reason = error.reason if isinstance(error, CreateError) else "LaunchFailed"
            new = with_condition(claim, LAUNCHED, "Unknown", now_rfc3339, reason, truncate_message(str(error)))
            requeue_after = await self._update_status(cluster, claim, new)
            return backoff if requeue_after is None else min(backoff, requeue_after)
        if isinstance(launch, LaunchPending):
            return await self._report_pending(cluster, claim, launch)
        self._launch_failures.pop(uid, None)
        if labels := launch_labels(claim, launch):
            claim = await self._patch(cluster, claim, {"metadata": {"labels": labels}})
        return await self._update_status(cluster, claim, launched_status(claim, launch, now_rfc3339))

    async def _report_pending(self, cluster: str, claim: Object, launch: LaunchPending) -> float | None:
        # The provider may have written its choice meanwhile.
        claim = self._state.node_claims.get((cluster, "", claim["metadata"]["name"])) or claim
        now = self._clock.now()
        age = now - (parse_time(claim["metadata"]["creationTimestamp"]) or 0.0)
        if age < STATUS_DELAY_SECONDS:
            return STATUS_DELAY_SECONDS - age
        message = truncate_message(launch.message)
        new = with_condition(claim, LAUNCHED, "Unknown", rfc3339(now), launch.reason, message)
        return await self._update_status(cluster, claim, new)

    async def _update_status(self, cluster: str, claim: Object, new: Object) -> float | None:
        """Advances registration, writes the status, and returns the seconds until the next deadline."""
        if condition_is(new, LAUNCHED):
            new = await self._registration.advance(cluster, new, rfc3339(self._clock.now()))
        if new is not claim and new.get("status") != claim.get("status"):
            self._state.node_claims.observe_write(
                await self._resolver.client(cluster).update(NODE_CLAIMS, new, "status"), cluster
            )
        if condition_is(new, REGISTERED) and not condition_is(claim, REGISTERED):
            self._registration_health.record(cluster, new, None)
            labels = new["metadata"].get("labels") or {}
            NODES_CREATED.inc(cluster, nodepool=nodepool_of(new), zone=labels.get(ZONE, ""))
        return seconds_until_deadline(new, self._clock.now())

    async def _delete_claim(
        self, cluster: str, claim: Object, metric_reason: str, type_: str, reason: str, message: str
    ) -> float | None:
        await delete_claim(self._resolver, self._state, cluster, claim, metric_reason)
        self._recorder.record(NODE_CLAIM_EVENTS, cluster, claim, type_, reason, message)
        return None

    async def _patch(self, cluster: str, claim: Object, patch: Object) -> Object:
        metadata = {**patch["metadata"], "resourceVersion": claim["metadata"]["resourceVersion"]}
        written = await self._resolver.client(cluster).merge_patch(
            NODE_CLAIMS, claim["metadata"]["name"], {**patch, "metadata": metadata}
        )
        return self._state.node_claims.observe_write(written, cluster)
