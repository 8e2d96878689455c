"""Node eligibility of a DaemonSet, and the affinity that pins each of its pods to a node. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.controlplane.podcontrol.template import pod_from_template
from shoal.fit.affinity import REQUIRED, matches_node_affinity
from shoal.fit.taints import NO_EXECUTE, NO_SCHEDULE, first_untolerated
from shoal.kinds.apps.revision import POD_REVISION_LABEL
from shoal.kinds.apps.workload_defaults import TEMPLATE_GENERATION
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

GENERATION_LABEL = "pod-template-generation"

_DAEMON_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_HOST_NETWORK_TOLERATION = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


class NodeEligibility(NamedTuple):
    should_run: bool
    """A pod should run there."""
    should_continue: bool
    """A running pod may stay."""


INELIGIBLE, ELIGIBLE = NodeEligibility(False, False), NodeEligibility(True, True)


class NodeMatcher:
    """Matches nodes against a DaemonSet's template, which is parsed once."""

    def __init__(self, daemon_set: Object) -> None:
        self._spec: Object = daemon_set["spec"]["template"]["spec"]
        self.tolerations = tolerations_of(self._spec)

    def eligibility_of(self, node: Object) -> NodeEligibility:
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        if (self._spec.get("nodeName") or name) != name or not matches_node_affinity(self._spec, name, labels):
            return INELIGIBLE
        taints = (node.get("spec") or {}).get("taints") or ()
        if first_untolerated(taints, self.tolerations) is None:
            return ELIGIBLE
        return NodeEligibility(False, first_untolerated(taints, self.tolerations, (NO_EXECUTE,)) is None)


def tolerations_of(spec: Object) -> list[Object]:
    """Returns the template's tolerations plus those of every daemon pod, which has to run on unhealthy nodes too."""
    added = (*_DAEMON_TOLERATIONS, _HOST_NETWORK_TOLERATION) if spec.get("hostNetwork") else _DAEMON_TOLERATIONS
    tolerations = list(spec.get("tolerations") or ())
    for key, effect in added:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        same = (
            index for index, one in enumerate(tolerations) if toleration.items() <= one.items() and not one.get("value")
        )
        index = next(same, None)
        if index is None:
            tolerations.append(toleration)
        else:
            tolerations[index] = toleration
    return tolerations


def new_pods(daemon_set: Object, nodes: list[str], revision_hash: str) -> list[Object]:
    """Returns one pod for each node."""
    pod = pod_from_template(daemon_set, controller_reference(daemon_set, "apps/v1", "DaemonSet"))
    labels, generation = (
        {**pod["metadata"].get("labels", {}), POD_REVISION_LABEL: revision_hash},
        template_generation_of(daemon_set),
    )
    if generation:
        labels[GENERATION_LABEL] = generation
    metadata = {**pod["metadata"], "labels": labels}
    spec = {**pod["spec"], "tolerations": tolerations_of(pod["spec"])}
    return [
        {**pod, "metadata": metadata, "spec": {**spec, "affinity": _pinned_affinity(spec.get("affinity"), node)}}
        for node in nodes
    ]


def _pinned_affinity(affinity: Object | None, node: str) -> Object:
    """Replaces required node affinity by the node's name: the template's own requirements were already checked for this
    node.
    """
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    original = affinity or {}
    required = {**(original.get("nodeAffinity") or {}), REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**original, "nodeAffinity": required}


def target_node(pod: Object) -> str:
    """Returns the node a pod runs on or is pinned to; empty if unknown."""
    bound: str | None = pod["spec"].get("nodeName")
    if bound:
        return bound
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one.get("key") == "metadata.name" and one.get("operator") == "In":
                values = one.get("values") or []
                return str(values[0]) if len(values) == 1 else ""
    return ""


def template_generation_of(daemon_set: Object) -> str:
    """Returns the number the server gives to each template; empty if it is not a number."""
    text = str((daemon_set["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, ""))
    return text if text.isdecimal() else ""


def is_updated(pod: Object, revision_hash: str, generation: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return labels.get(POD_REVISION_LABEL) == revision_hash or (
        bool(generation) and labels.get(GENERATION_LABEL) == generation
    )
