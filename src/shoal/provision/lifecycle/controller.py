"""NodeClaim lifecycle controller: launch, registration and initialization, followed by one status write. Deletes a
NodeClaim on a liveness timeout, on expiration, or when its instance is lost. Deletion is handled by `finalizer`.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import (
    FINALIZER,
    LAUNCHED,
    REGISTERED,
    ZONE,
    is_going,
    is_managed,
    pool_of,
)
from shoal.objects.conditions import condition_is
from shoal.objects.duration import parse_time
from shoal.objects.errors import Conflict, NotFound, StatusError
from shoal.provision.cloudprovider import (
    CloudProvider,
    CreateError,
    InsufficientCapacity,
    NodeClassNotReady,
    NotYet,
    ProviderError,
)
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.decide import (
    due,
    is_expired,
    is_lost,
    launch_labels,
    launch_pause,
    launched,
    needs_finalizer,
    overdue,
    truncated,
    with_condition,
)
from shoal.provision.lifecycle.deleting import delete_claim
from shoal.provision.lifecycle.ending import Ending
from shoal.provision.lifecycle.health.controller import RegistrationHealth
from shoal.provision.lifecycle.health.decide import failure
from shoal.provision.lifecycle.pairs import Pairs, Place
from shoal.provision.lifecycle.registration import Registration
from shoal.provision.metrics import NODES_CREATED
from shoal.provision.telling import ABOUT_CLAIMS
from shoal.provision.view import CLAIMS, View
from shoal.runtime.loop import Later, Loop
from shoal.runtime.recorder import NORMAL, WARNING, Recorder

Object = dict[str, Any]

QUIET_SECONDS = 1.0
"""A younger pending launch is not written to the status: most finish by then."""


class Lifecycle:
    def __init__(
        self,
        homes: Homes,
        view: View,
        pairs: Pairs,
        provider: CloudProvider,
        health: RegistrationHealth,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._homes, self._view, self._pairs, self._provider = homes, view, pairs, provider
        self._health, self._recorder, self._clock = health, recorder, clock
        self._registration = Registration(homes, view, pairs, recorder)
        self._ending = Ending(homes, view, pairs, provider, recorder, clock)
        self._failures: dict[str, tuple[int, float]] = {}
        """By uid: consecutive launch failures, and when the next attempt is made."""
        self.loop: Loop[Place] = Loop("nodeclaims", clock, self.reconcile, workers=8)
        view.claims.listen(self._claim)
        view.nodes.listen(self._node)
        provider.listen(self._told)

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.loop.queue.add((key[0], key[2]))
        elif old is not None:
            self._failures.pop(old["metadata"]["uid"], None)

    def _node(self, key: Key, old: Object | None, new: Object | None) -> None:
        claim = self._pairs.claim_of(key[0], new or old)
        if claim is not None:
            self.loop.queue.add((key[0], claim["metadata"]["name"]))

    def _told(self, cluster: str, claim: str) -> None:
        if claim:
            self.loop.queue.add((cluster, claim))

    async def reconcile(self, key: Place) -> float | None:
        cluster, name = key
        claim = self._view.claims.get(cluster, name)
        if claim is None or not is_managed(claim["spec"]):
            return None
        if not (self._view.synced and self._provider.synced):
            raise Later("not everything has been listed yet")
        try:
            if is_going(claim):
                return await self._ending.advance(cluster, claim)
            if needs_finalizer(claim):
                finalizers = [*(claim["metadata"].get("finalizers") or ()), FINALIZER]
                claim = await self._patch(cluster, claim, {"metadata": {"finalizers": finalizers}})
            return await self._advance(cluster, claim)
        except NotFound:
            return None  # the NodeClaim or its cluster was deleted
        except NotYet as error:
            raise Later(str(error)) from error

    async def _advance(self, cluster: str, claim: Object) -> float | None:
        now = self._clock.now()
        if late := overdue(claim, now):
            said = f"gave up waiting for its {late.removesuffix('_timeout')}"
            await self._let_go(cluster, claim, late, WARNING, "LivenessTimeout", said)
            self._health.record(cluster, claim, failure(claim))
            return None
        if is_expired(claim, now):
            said = "Disrupting NodeClaim: Expired/Delete"
            return await self._let_go(cluster, claim, "expired", NORMAL, "DisruptionTerminating", said)
        if condition_is(claim, LAUNCHED):
            node = next(iter(self._pairs.nodes_of(cluster, claim)), None)
            if is_lost(claim, self._provider.get(cluster, claim), node):
                said = "Disrupting NodeClaim: its instance is gone"
                return await self._let_go(cluster, claim, "garbage_collected", NORMAL, "DisruptionTerminating", said)
            return await self._settle(cluster, claim, claim)
        return await self._launch(cluster, claim)

    async def _launch(self, cluster: str, claim: Object) -> float | None:
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        often, next_try = self._failures.get(uid, (0, 0.0))
        if next_try > self._clock.monotonic() + 0.001:
            return next_try - self._clock.monotonic()
        stamp = rfc3339(self._clock.now())
        try:
            instance = await self._provider.create(cluster, claim)
        except NotYet as error:
            claim = self._view.claims.get(cluster, name) or claim  # the provider may have written its choice meanwhile
            age = self._clock.now() - (parse_time(claim["metadata"]["creationTimestamp"]) or 0.0)
            if age < QUIET_SECONDS:
                return QUIET_SECONDS - age
            return await self._settle(
                cluster, claim, with_condition(claim, LAUNCHED, "Unknown", stamp, error.reason, truncated(str(error)))
            )
        except (InsufficientCapacity, NodeClassNotReady) as error:
            said = f"NodeClaim {name} event: {truncated(str(error))}"
            counted = "insufficient_capacity" if isinstance(error, InsufficientCapacity) else "nodeclass_not_ready"
            return await self._let_go(cluster, claim, counted, WARNING, error.reason, said)
        except (ProviderError, StatusError, Unreachable) as error:
            if isinstance(error, Conflict | NotFound):
                raise
            claim = self._view.claims.get(cluster, name) or claim
            pause = launch_pause(often + 1)
            self._failures[uid] = often + 1, self._clock.monotonic() + pause
            reason = error.reason if isinstance(error, CreateError) else "LaunchFailed"
            new = with_condition(claim, LAUNCHED, "Unknown", stamp, reason, truncated(str(error)))
            later = await self._settle(cluster, claim, new)
            return pause if later is None else min(pause, later)
        self._failures.pop(uid, None)
        if labels := launch_labels(claim, instance):
            claim = await self._patch(cluster, claim, {"metadata": {"labels": labels}})
        return await self._settle(cluster, claim, launched(claim, instance, stamp))

    async def _settle(self, cluster: str, claim: Object, new: Object) -> float | None:
        """Advances registration, writes the status, and returns the seconds until the next deadline."""
        if condition_is(new, LAUNCHED):
            new = await self._registration.advance(cluster, new, rfc3339(self._clock.now()))
        if new is not claim and new.get("status") != claim.get("status"):
            self._view.claims.learn(cluster, await self._homes.client(cluster).update(CLAIMS, new, "status"))
        if condition_is(new, REGISTERED) and not condition_is(claim, REGISTERED):
            self._health.record(cluster, new, None)
            labels = new["metadata"].get("labels") or {}
            NODES_CREATED.inc(cluster, nodepool=pool_of(new), zone=labels.get(ZONE, ""))
        return due(new, self._clock.now())

    async def _let_go(
        self, cluster: str, claim: Object, counted: str, type_: str, reason: str, said: str
    ) -> float | None:
        await delete_claim(self._homes, self._view, cluster, claim, counted)
        self._recorder.record(ABOUT_CLAIMS, cluster, claim, type_, reason, said)
        return None

    async def _patch(self, cluster: str, claim: Object, patch: Object) -> Object:
        metadata = {**patch["metadata"], "resourceVersion": claim["metadata"]["resourceVersion"]}
        written = await self._homes.client(cluster).merge(
            CLAIMS, claim["metadata"]["name"], {**patch, "metadata": metadata}
        )
        return self._view.claims.learn(cluster, written)
