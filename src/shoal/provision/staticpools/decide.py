"""Which NodeClaims a static NodePool lacks or has too many of. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from shoal.fit.resources import parse_amounts
from shoal.kinds.karpenter.karpenter import (
    INITIALIZED,
    LAUNCHED,
    READY,
    is_deleting,
    is_managed_node_class,
    nodepool_template_spec,
    static_replicas,
)
from shoal.objects.conditions import condition_is
from shoal.provision.provisioning.nodeclaim import new_node_claim
from shoal.provision.simulation.model import NODES, NewNodeClaim
from shoal.provision.simulation.nodeclaim_template import SIMULATED_LABELS, pool_requirements

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StaticPoolDecision:
    create: tuple[Object, ...] = ()
    """NodeClaims."""
    delete: tuple[Object, ...] = ()
    """NodeClaims beyond the replicas."""


def decide(pool: Object, claims: Collection[Object], pods_of: Callable[[Object], int]) -> StaticPoolDecision:
    """`claims`: those of the pool. `pods_of`: number of pods of a NodeClaim that would have to move."""
    replicas = static_replicas(pool)
    if replicas is None or is_deleting(pool) or not is_managed_node_class(nodepool_template_spec(pool)):
        return StaticPoolDecision()
    most = parse_amounts((pool.get("spec") or {}).get("limits")).get(NODES)
    remaining = [claim for claim in claims if not is_deleting(claim)]
    if len(remaining) > replicas:
        return StaticPoolDecision(delete=tuple(_least_needed(remaining, pods_of)[: len(remaining) - replicas]))
    # A NodeClaim that is being deleted still has its machine and counts for the limit.
    missing = replicas - len(remaining) if most is None else min(replicas - len(remaining), most - len(claims))
    if missing <= 0 or not condition_is(pool, READY):
        return StaticPoolDecision()
    names = {claim["metadata"]["name"] for claim in claims}
    return StaticPoolDecision(create=tuple(_new_claim(pool, name) for name in _free_names(pool, names, missing)))


def _least_needed(claims: Iterable[Object], pods_of: Callable[[Object], int]) -> list[Object]:
    """Those without a machine come first, then those that are starting, then those with the fewest pods."""
    return sorted(
        claims,
        key=lambda claim: (
            condition_is(claim, LAUNCHED),
            condition_is(claim, INITIALIZED),
            pods_of(claim),
            claim["metadata"]["name"],
        ),
    )


def _free_names(pool: Object, taken: Collection[str], count: int) -> list[str]:
    """Deterministic, so that an interrupted attempt is not repeated under other names."""
    metadata, names, number = pool["metadata"], list[str](), 0
    while len(names) < count:
        digest = hashlib.sha256(f"{metadata['uid']} {number}".encode()).hexdigest()[:8]
        name = f"{metadata['name'][:50].rstrip('.-')}-{digest}"
        number += 1
        if name not in taken:
            names.append(name)
    return names


def _new_claim(pool: Object, name: str) -> Object:
    requirements = pool_requirements(pool).without(*SIMULATED_LABELS)
    return new_node_claim(pool, NewNodeClaim(pool["metadata"]["name"], name, (), requirements, {}, (), 0.0))
