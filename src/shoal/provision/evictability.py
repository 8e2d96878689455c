"""Evictability of pods: what blocks a node's disruption, which pods must be rescheduled, and the eviction cost.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from shoal.fit.taints import is_tolerated
from shoal.kinds.karpenter.karpenter import DISRUPTED_TAINT, DO_NOT_DISRUPT, annotation_of, is_deleting
from shoal.objects.conditions import condition_is
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import LabelSelector, from_label_selector
from shoal.provision.pods import has_do_not_disrupt, is_node_owned

Object = dict[str, Any]

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class PDBLimits:
    """PodDisruptionBudgets of a cluster."""

    def __init__(self, pdbs: Iterable[Object]) -> None:
        self._by_namespace: dict[str, list[tuple[LabelSelector, Object]]] = {}
        for pdb in pdbs:
            try:
                selector = from_label_selector((pdb.get("spec") or {}).get("selector"))
            except BadRequest:
                continue
            self._by_namespace.setdefault(pdb["metadata"].get("namespace", ""), []).append((selector, pdb))

    def block_reason(self, pod: Object, now: float) -> str:
        """Why the pod cannot be evicted now; empty if it can or need not be."""
        pdbs = self._pdbs_of(pod, now)
        names = ", ".join(_object_key(each) for each in pdbs)
        if len(pdbs) > 1:
            return f"eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{names}])"
        if pdbs and _allows_unhealthy_eviction(pdbs[0], pod):
            return ""
        if any(((each.get("status") or {}).get("disruptionsAllowed") or 0) <= 0 for each in pdbs):
            return f"pdb prevents pod evictions (PodDisruptionBudget=[{names}])"
        return ""

    def is_fully_blocked(self, pod: Object, now: float) -> bool:
        """True if the pod can never be evicted."""
        pdbs = self._pdbs_of(pod, now)
        if len(pdbs) == 1 and _allows_unhealthy_eviction(pdbs[0], pod):
            return False
        return len(pdbs) > 1 or any(_never_allows(each) for each in pdbs)

    def _pdbs_of(self, pod: Object, now: float) -> list[Object]:
        if not is_evictable(pod, now):
            return []
        labels = pod["metadata"].get("labels") or {}
        here = self._by_namespace.get(pod["metadata"].get("namespace", ""), ())
        return [pdb for selector, pdb in here if selector.matches(labels)]


def is_active(pod: Object) -> bool:
    return not is_deleting(pod) and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def is_reschedulable(pod: Object) -> bool:
    """True if the pod needs another node. A deleted StatefulSet pod counts, because it is recreated only after it is
    gone.
    """
    if is_node_owned(pod):
        return False
    if is_active(pod):
        return True
    owners = pod["metadata"].get("ownerReferences") or ()
    return is_deleting(pod) and any(owner.get("kind") == "StatefulSet" for owner in owners)


def is_evictable(pod: Object, now: float) -> bool:
    if not is_active(pod) or has_do_not_disrupt(pod, now):
        return False
    static = any(owner.get("kind") == "Node" for owner in pod["metadata"].get("ownerReferences") or ())
    return not static and not is_tolerated(DISRUPTED_TAINT, (pod.get("spec") or {}).get("tolerations") or ())


def is_currently_reschedulable(pod: Object, limits: PDBLimits, now: float) -> bool:
    """True if the pod needs another node when its node goes, and may be evicted some day as things are."""
    return is_reschedulable(pod) and not has_do_not_disrupt(pod, now) and not limits.is_fully_blocked(pod, now)


def blocking_pod(pods: Sequence[Object], limits: PDBLimits, now: float) -> str:
    """Why a node with these pods cannot be disrupted; empty if it can. DaemonSet and static pods count too."""
    for pod in pods:
        if is_active(pod) and has_do_not_disrupt(pod, now):
            return f'pod has "{DO_NOT_DISRUPT}" annotation (Pod={_object_key(pod)})'
    return next((reason for pod in pods if (reason := limits.block_reason(pod, now))), "")


def eviction_cost(pod: Object) -> float:
    """Eviction cost; 1 without deletion cost or priority."""
    total = 1.0
    with suppress(ValueError):
        total += float(annotation_of(pod, DELETION_COST) or 0) / 2**27
    total += ((pod.get("spec") or {}).get("priority") or 0) / 2**25
    return min(10.0, max(-10.0, total))


def _allows_unhealthy_eviction(pdb: Object, pod: Object) -> bool:
    always = (pdb.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    return always and condition_is(pod, "Ready", "False")


def _never_allows(pdb: Object) -> bool:
    """True if the budget allows nothing by its spec, or because as many pods must be healthy as there are."""
    spec, status = pdb.get("spec") or {}, pdb.get("status") or {}
    if spec.get("maxUnavailable") in (0, "0%") or spec.get("minAvailable") == "100%":
        return True
    return bool(0 < status.get("expectedPods", 0) <= status.get("desiredHealthy", 0))


def _object_key(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"
