"""Placement and ClusterPlacement of placement.shoal.dev: names. The CRDs are in `crds/root`, their reading in
placement/policy.py.
"""

from __future__ import annotations

GROUP = "placement.shoal.dev"
VERSION = "v1alpha1"
KIND = "Placement"
PLURAL = "placements"
CLUSTER_KIND, CLUSTER_PLURAL = "ClusterPlacement", "clusterplacements"
"""Places cluster-scoped objects. It is cluster-scoped itself, so that nobody places them by rights in a namespace."""

VALID, SUPERSEDED, SERVED, LEFT_BEHIND = "Valid", "Superseded", "Served", "LeftBehind"
"""Conditions: it can be applied; some of its objects follow another Placement; all clusters it selects take the
kinds of its objects, absent as long as they always did; objects that select those that it places stay on the hub.
"""
AFFINITY_MET = "AffinityMet"
"""Condition: its objects are placed, and run, as its workload affinity requires; absent as long as they always did."""
