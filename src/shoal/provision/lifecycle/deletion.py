"""Deletes a NodeClaim, in the cache too, and counts it. `finalizer` does the rest."""

from __future__ import annotations

from typing import Any

from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, nodepool_of
from shoal.provision.management import ManagementResolver
from shoal.provision.metrics import NODECLAIMS_DISRUPTED
from shoal.provision.state import NODE_CLAIMS, ClusterState

Object = dict[str, Any]


async def delete_claim(
    resolver: ManagementResolver, state: ClusterState, cluster: str, claim: Object, reason: str = ""
) -> Object:
    """Returns the NodeClaim after the deletion. `reason`: label of the disruption counter; empty: somebody else
    requested the deletion.
    """
    metadata = claim["metadata"]
    deleted = await resolver.client(cluster).delete(NODE_CLAIMS, metadata["name"], uid=metadata["uid"])
    if reason:
        capacity_type = (metadata.get("labels") or {}).get(CAPACITY_TYPE, "")
        NODECLAIMS_DISRUPTED.inc(cluster, reason=reason, nodepool=nodepool_of(claim), capacity_type=capacity_type)
    return (
        state.node_claims.observe_write(deleted, cluster)
        if "deletionTimestamp" in deleted.get("metadata", {})
        else claim
    )
