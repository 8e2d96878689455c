"""Node eligibility of a DaemonSet, and the affinity that pins each of its pods to a node. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.controlplane.podcontrol.template import from_template
from shoal.fit.affinity import REQUIRED, selected
from shoal.fit.taints import NO_EXECUTE, NO_SCHEDULE, untolerated
from shoal.kinds.apps import TEMPLATE_GENERATION
from shoal.kinds.revisions import POD_REVISION
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

GENERATION_LABEL = "pod-template-generation"

_TOLERATED = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_WITH_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


class Verdict(NamedTuple):
    runs: bool
    """A pod should run there."""
    stays: bool
    """A running pod may stay."""


NOWHERE, HERE = Verdict(False, False), Verdict(True, True)


class Placing:
    """Matches nodes against a DaemonSet's template, which is parsed once."""

    def __init__(self, daemon_set: Object) -> None:
        self._spec: Object = daemon_set["spec"]["template"]["spec"]
        self.tolerations = tolerations_of(self._spec)

    def verdict(self, node: Object) -> Verdict:
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        if (self._spec.get("nodeName") or name) != name or not selected(self._spec, name, labels):
            return NOWHERE
        taints = (node.get("spec") or {}).get("taints") or ()
        if untolerated(taints, self.tolerations) is None:
            return HERE
        return Verdict(False, untolerated(taints, self.tolerations, (NO_EXECUTE,)) is None)


def tolerations_of(spec: Object) -> list[Object]:
    """Returns the template's tolerations plus those of every daemon pod, which has to run on unhealthy nodes too."""
    tolerated = (*_TOLERATED, _WITH_HOST_NETWORK) if spec.get("hostNetwork") else _TOLERATED
    found = list(spec.get("tolerations") or ())
    for key, effect in tolerated:
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        same = (at for at, one in enumerate(found) if wanted.items() <= one.items() and not one.get("value"))
        at = next(same, None)
        if at is None:
            found.append(wanted)
        else:
            found[at] = wanted
    return found


def new_pods(daemon_set: Object, nodes: list[str], hashed: str) -> list[Object]:
    """Returns one pod for each node."""
    pod = from_template(daemon_set, controller_reference(daemon_set, "apps/v1", "DaemonSet"))
    labels, generation = {**pod["metadata"].get("labels", {}), POD_REVISION: hashed}, generation_of(daemon_set)
    if generation:
        labels[GENERATION_LABEL] = generation
    metadata = {**pod["metadata"], "labels": labels}
    spec = {**pod["spec"], "tolerations": tolerations_of(pod["spec"])}
    return [
        {**pod, "metadata": metadata, "spec": {**spec, "affinity": _only_on(spec.get("affinity"), node)}}
        for node in nodes
    ]


def _only_on(affinity: Object | None, node: str) -> Object:
    """Replaces required node affinity by the node's name: the template's own requirements were already checked for this
    node.
    """
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    given = affinity or {}
    required = {**(given.get("nodeAffinity") or {}), REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**given, "nodeAffinity": required}


def node_of(pod: Object) -> str:
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


def generation_of(daemon_set: Object) -> str:
    """Returns the number the server gives to each template; empty if it is not a number."""
    text = str((daemon_set["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, ""))
    return text if text.isdecimal() else ""


def is_updated(pod: Object, hashed: str, generation: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return labels.get(POD_REVISION) == hashed or (bool(generation) and labels.get(GENERATION_LABEL) == generation)
