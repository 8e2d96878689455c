"""Evictability of pods: what blocks a node's disruption, which pods must be rescheduled, and the eviction cost.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from shoal.fit.taints import tolerated
from shoal.kinds.karpenter import DISRUPTED, DO_NOT_DISRUPT, annotation, is_going, seconds
from shoal.objects.conditions import condition_is
from shoal.objects.duration import parse_time
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import LabelSelector, from_label_selector
from shoal.provision.pods import is_of_the_node

Object = dict[str, Any]

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class Limits:
    """PodDisruptionBudgets of a cluster."""

    def __init__(self, pdbs: Iterable[Object]) -> None:
        self._by_namespace: dict[str, list[tuple[LabelSelector, Object]]] = {}
        for pdb in pdbs:
            try:
                selector = from_label_selector((pdb.get("spec") or {}).get("selector"))
            except BadRequest:
                continue
            self._by_namespace.setdefault(pdb["metadata"].get("namespace", ""), []).append((selector, pdb))

    def blocked(self, pod: Object, now: float) -> str:
        """Why the pod cannot be evicted now; empty if it can or need not be."""
        found = self._of(pod, now)
        names = ", ".join(_key(each) for each in found)
        if len(found) > 1:
            return f"eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{names}])"
        if found and _lets_unhealthy_go(found[0], pod):
            return ""
        if any(((each.get("status") or {}).get("disruptionsAllowed") or 0) <= 0 for each in found):
            return f"pdb prevents pod evictions (PodDisruptionBudget=[{names}])"
        return ""

    def fully_blocked(self, pod: Object, now: float) -> bool:
        """True if the pod can never be evicted."""
        found = self._of(pod, now)
        if len(found) == 1 and _lets_unhealthy_go(found[0], pod):
            return False
        return len(found) > 1 or any(_never_allows(each) for each in found)

    def _of(self, pod: Object, now: float) -> list[Object]:
        if not is_evictable(pod, now):
            return []
        labels = pod["metadata"].get("labels") or {}
        here = self._by_namespace.get(pod["metadata"].get("namespace", ""), ())
        return [pdb for selector, pdb in here if selector.matches(labels)]


def is_active(pod: Object) -> bool:
    return not is_going(pod) and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def is_reschedulable(pod: Object) -> bool:
    """True if the pod needs another node. A deleted StatefulSet pod counts, because it is recreated only after it is
    gone.
    """
    if is_of_the_node(pod):
        return False
    if is_active(pod):
        return True
    owners = pod["metadata"].get("ownerReferences") or ()
    return is_going(pod) and any(owner.get("kind") == "StatefulSet" for owner in owners)


def is_evictable(pod: Object, now: float) -> bool:
    if not is_active(pod) or is_kept(pod, now):
        return False
    static = any(owner.get("kind") == "Node" for owner in pod["metadata"].get("ownerReferences") or ())
    return not static and not tolerated(DISRUPTED, (pod.get("spec") or {}).get("tolerations") or ())


def is_kept(pod: Object, now: float) -> bool:
    """True if do-not-disrupt is set: always, or for a duration since the start."""
    said = annotation(pod, DO_NOT_DISRUPT)
    if said == "true":
        return True
    grace = seconds(said)
    if grace is None or grace <= 0:
        return False
    began = parse_time((pod.get("status") or {}).get("startTime"))
    return began is None or now < began + grace


def problem(pods: Sequence[Object], limits: Limits, now: float) -> str:
    """Why a node with these pods cannot be disrupted; empty if it can. DaemonSet and static pods count too."""
    for pod in pods:
        if is_active(pod) and is_kept(pod, now):
            return f'pod has "{DO_NOT_DISRUPT}" annotation (Pod={_key(pod)})'
    return next((said for pod in pods if (said := limits.blocked(pod, now))), "")


def cost(pod: Object) -> float:
    """Eviction cost; 1 without deletion cost or priority."""
    found = 1.0
    with suppress(ValueError):
        found += float(annotation(pod, DELETION_COST) or 0) / 2**27
    found += ((pod.get("spec") or {}).get("priority") or 0) / 2**25
    return min(10.0, max(-10.0, found))


def _lets_unhealthy_go(pdb: Object, pod: Object) -> bool:
    always = (pdb.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    return always and condition_is(pod, "Ready", "False")


def _never_allows(pdb: Object) -> bool:
    spec = pdb.get("spec") or {}
    return spec.get("maxUnavailable") in (0, "0%") or spec.get("minAvailable") == "100%"


def _key(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"
