"""Single changes to a ManagedCluster or to one Worker that might let it be hosted. Pure; the caller tries each of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shoal.fit.resources import parse_amounts, to_quantities
from shoal.fleet.scheduler.candidate import WorkerUsage
from shoal.fleet.scheduler.filters import minor_version, taint_text
from shoal.fleet.scheduler.requirements import node_requests
from shoal.kinds.fleet import infrav1
from shoal.objects.conditions import set_condition
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Suggestion:
    text: str
    """What to do, for people."""
    worker: str
    """The Worker's name; empty: the change is to the ManagedCluster."""
    result: Object
    """The object after the change."""


def cluster_suggestions(managed: Object, workers: list[Object]) -> Iterator[Suggestion]:
    """Smaller changes come first."""
    spec = infrav1.spec_of(managed)
    for text, taint in _taints_by_text(workers).items():
        exact = {"key": taint["key"], "operator": "Equal", "value": taint["value"], "effect": taint["effect"]}
        yield _cluster_suggestion(
            f"tolerate taint {text}", managed, tolerations=[*(spec.get("tolerations") or ()), exact]
        )
    location = spec.get("location") or ""
    if location:
        yield _cluster_suggestion(f"remove location {location}", managed, location="")
        for other in sorted({infrav1.spec_of(worker).get("location") or "" for worker in workers} - {"", location}):
            yield _cluster_suggestion(f"request location {other} instead of {location}", managed, location=other)
    yield from _selector_suggestions(managed, spec.get("workerSelector") or {})
    version = spec.get("version") or ""
    if version:
        yield _cluster_suggestion(f"remove version {version}", managed, version="")
    for other in sorted({each for worker in workers for each in infrav1.spec_of(worker).get("provides") or ()}):
        if other != spec.get("infrastructure"):
            yield _cluster_suggestion(f"request infrastructure {other}", managed, infrastructure=other)


def with_nodes(managed: Object, count: int, pool: str = "") -> Object:
    """Sets the number of nodes of that pool, or spec.nodes without one."""
    spec = infrav1.spec_of(managed)
    if not pool:
        return {**managed, "spec": {**spec, "nodes": count}}
    pools = [{**each, "nodes": count} if each["name"] == pool else each for each in spec["nodePools"]]
    return {**managed, "spec": {**spec, "nodePools": pools}}


def _taints_by_text(workers: list[Object]) -> dict[str, Object]:
    by_text = {}
    for worker in workers:
        for taint in infrav1.spec_of(worker).get("taints") or ():
            whole = {"key": taint["key"], "value": taint.get("value") or "", "effect": taint["effect"]}
            by_text[taint_text(whole)] = whole
    return dict(sorted(by_text.items()))


def _selector_suggestions(managed: Object, selector: Object) -> Iterator[Suggestion]:
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if len(labels) + len(expressions) > 1:
        for key in sorted(labels):
            remaining = {name: value for name, value in labels.items() if name != key}
            text = f"remove {key}={labels[key]} from workerSelector"
            yield _cluster_suggestion(text, managed, workerSelector={**selector, "matchLabels": remaining})
        for each in expressions:
            others = [other for other in expressions if other is not each]
            text = f"remove {each['key']} {each['operator']} from workerSelector"
            yield _cluster_suggestion(text, managed, workerSelector={**selector, "matchExpressions": others})
    if labels or expressions:
        yield _cluster_suggestion("remove workerSelector", managed, workerSelector={})


def _cluster_suggestion(text: str, managed: Object, **spec: Any) -> Suggestion:
    return Suggestion(text, "", {**managed, "spec": {**infrav1.spec_of(managed), **spec}})


def worker_suggestions(managed: Object, worker: Object, usage: WorkerUsage) -> Iterator[Suggestion]:
    name, spec, cluster_spec = worker["metadata"]["name"], infrav1.spec_of(worker), infrav1.spec_of(managed)
    capacity = int(spec.get("capacity") or 0)
    if usage.clusters >= capacity:
        needed = usage.clusters + 1
        number = "a slot" if needed == capacity + 1 else f"{needed - capacity} slots"
        yield _worker_suggestion(f"add {number} to {name} (capacity {capacity} -> {needed})", worker, capacity=needed)
    limit = spec.get("capacityLimit")
    if limit is not None and usage.clusters >= limit:
        needed = usage.clusters + 1
        yield _worker_suggestion(f"raise capacityLimit of {name} ({limit} -> {needed})", worker, capacityLimit=needed)
    yield from _resource_suggestions(managed, worker, usage)
    for taint in spec.get("taints") or ():
        rest = [other for other in spec["taints"] if other is not taint]
        text = taint_text({"key": taint["key"], "value": taint.get("value") or "", "effect": taint["effect"]})
        yield _worker_suggestion(f"remove taint {text} from {name}", worker, taints=rest)
    yield from _label_suggestions(cluster_spec.get("workerSelector") or {}, worker)
    if cluster_spec.get("version") and spec.get("versions"):
        offered = minor_version(cluster_spec["version"])
        yield _worker_suggestion(f"add version {offered} to {name}", worker, versions=[*spec["versions"], offered])
    if spec.get("unschedulable") or spec.get("drain"):
        yield _worker_suggestion(
            f"uncordon {name} (spec.unschedulable and spec.drain: false)", worker, unschedulable=False, drain=False
        )
    ready = set_condition(worker, infrav1.READY, "True", reason="Heartbeat", now="")
    if ready is not worker:
        yield Suggestion(f"make {name} ready", name, ready)


def _resource_suggestions(managed: Object, worker: Object, usage: WorkerUsage) -> Iterator[Suggestion]:
    name, allocatable = worker["metadata"]["name"], infrav1.spec_of(worker).get("allocatable") or {}
    requests = node_requests(managed)
    for resource, amount in sorted(parse_amounts(allocatable).items()):
        needed = usage.amounts[resource] + requests.get(resource, 0)
        if needed > amount:
            raised = to_quantities({resource: needed})[resource]
            text = f"raise allocatable {resource} of {name} ({allocatable[resource]} -> {raised})"
            yield _worker_suggestion(text, worker, allocatable={**allocatable, resource: raised})


def _label_suggestions(selector: Object, worker: Object) -> Iterator[Suggestion]:
    try:
        requirements = from_label_selector(selector).requirements if selector else ()
    except BadRequest:
        return
    metadata = worker["metadata"]
    for each in requirements:
        if each.operator in ("=", "==", "in") and not each.matches(metadata.get("labels") or {}):
            labels = {**(metadata.get("labels") or {}), each.key: each.values[0]}
            text = f"label {metadata['name']} with {each.key}={each.values[0]}"
            yield Suggestion(text, metadata["name"], {**worker, "metadata": {**metadata, "labels": labels}})


def _worker_suggestion(text: str, worker: Object, **spec: Any) -> Suggestion:
    return Suggestion(text, worker["metadata"]["name"], {**worker, "spec": {**infrav1.spec_of(worker), **spec}})
