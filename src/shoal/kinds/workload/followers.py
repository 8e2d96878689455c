"""Objects that belong to the pods of a workload without being named by it: what each of them selects. Pure.

They are of no use where those pods do not run. A workload that they select is called their leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shoal.kinds.autoscaling.scale_target import scale_target_of
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import LabelSelector, from_label_selector

Object = dict[str, Any]
SelectionKey = tuple[str, ...]
"""A label of pods, a kind, perhaps with a name or a label, or nothing: what is common to a selection and all that it
selects.
"""

FOLLOW_LABEL = "placement.shoal.dev/follow"
"""Label of a namespace, `true`: all objects that select what is placed follow it. Label of one such object, `false`: it
stays on the hub.
"""
FOLLOWER_KINDS = {
    "Service": "v1",
    "PodDisruptionBudget": "policy/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "Ingress": "networking.k8s.io/v1",
}
"""Kinds that follow, with their apiVersion."""
RELATIONS = {"HorizontalPodAutoscaler": "scales", "Ingress": "routes to"}
DEFAULT_RELATION = "selects pods of"
ANY_POD: SelectionKey = ()


def is_follower_kind(kind: str, group: str) -> bool:
    return FOLLOWER_KINDS.get(kind, "/?").rpartition("/")[0] == group


def selection_keys(kind: str, obj: Object) -> set[SelectionKey]:
    """Returns keys of an object of a follower kind: everything that it selects has one of them."""
    selector = _pod_selector(kind, obj)
    if selector is None:
        return {object_key(kind, name=name) for kind, name in _selected_names(kind, obj)}
    equality = next((one for one in selector.requirements if one.is_equality), None)
    return {(equality.key, equality.values[0])} if equality is not None else {ANY_POD}


def object_key(kind: str, name: str = "", label: tuple[str, str] | None = None) -> SelectionKey:
    """Returns the key of objects of that kind with a name or a label."""
    return ("", kind, name) if name else ("", kind, *(label or ()))


def leader_keys(
    kind: str, name: str, pod_labels: Mapping[str, str] | None, labels: Mapping[str, str]
) -> set[SelectionKey]:
    """Returns the keys of everything that may select the object. `pod_labels` are those of its pods, if it has pods."""
    keys = {object_key(kind), object_key(kind, name), *(object_key(kind, label=pair) for pair in labels.items())}
    return keys if pod_labels is None else keys.union(pod_labels.items(), (ANY_POD,))


def is_selected(kind: str, obj: Object, leader: tuple[str, str], pod_labels: Mapping[str, str] | None) -> bool:
    """Whether an object of a follower kind selects the leader, a kind and name, or its pods."""
    selector = _pod_selector(kind, obj)
    if selector is None:
        return leader in _selected_names(kind, obj)
    return pod_labels is not None and selector.matches(pod_labels)


def pod_labels_of(obj: Object) -> Mapping[str, str] | None:
    """Returns the labels of the pods that a workload makes; None: it makes none."""
    spec = obj.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("jobTemplate"), dict):
        spec = spec["jobTemplate"].get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return None
    labels = (template.get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}


def _pod_selector(kind: str, obj: Object) -> LabelSelector | None:
    spec = obj.get("spec") or {}
    selector: Object | None = None
    if kind == "Service":
        selector = {"matchLabels": spec["selector"]} if spec.get("selector") else None
    elif kind == "PodDisruptionBudget":
        selector = spec.get("selector")
    elif kind == "NetworkPolicy":
        selector = spec.get("podSelector") or {}
    try:
        return from_label_selector(selector) if selector is not None else None
    except BadRequest:
        return None


def _selected_names(kind: str, obj: Object) -> set[tuple[str, str]]:
    """Returns kinds and names."""
    if kind == "HorizontalPodAutoscaler":
        target = scale_target_of(obj)
        return {target} if target is not None else set()
    return {("Service", name) for name in _backend_services(obj)} if kind == "Ingress" else set()


def _backend_services(ingress: Object) -> Iterator[str]:
    spec = ingress.get("spec") or {}
    backends = [spec.get("defaultBackend")]
    for rule in spec.get("rules") or ():
        backends += [path.get("backend") for path in (rule.get("http") or {}).get("paths") or ()]
    for backend in backends:
        name = ((backend or {}).get("service") or {}).get("name")
        if name:
            yield name
