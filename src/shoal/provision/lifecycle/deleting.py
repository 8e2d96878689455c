"""Deletes a NodeClaim, in the cache too, and counts it. `finalizer` does the rest."""

from __future__ import annotations

from typing import Any

from shoal.kinds.karpenter import CAPACITY_TYPE, pool_of
from shoal.provision.homes import Homes
from shoal.provision.metrics import NODECLAIMS_DISRUPTED
from shoal.provision.view import CLAIMS, View

Object = dict[str, Any]


async def delete_claim(homes: Homes, view: View, cluster: str, claim: Object, reason: str = "") -> Object:
    """Returns the NodeClaim after the deletion. `reason`: label of the disruption counter; empty: somebody else
    requested the deletion.
    """
    metadata = claim["metadata"]
    gone = await homes.client(cluster).delete(CLAIMS, metadata["name"], uid=metadata["uid"])
    if reason:
        capacity_type = (metadata.get("labels") or {}).get(CAPACITY_TYPE, "")
        NODECLAIMS_DISRUPTED.inc(cluster, reason=reason, nodepool=pool_of(claim), capacity_type=capacity_type)
    return view.claims.learn(cluster, gone) if "deletionTimestamp" in gone.get("metadata", {}) else claim
