"""Single changes to a ManagedCluster or to one Worker that might let it be hosted. Pure; the caller tries each of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shoal.fit.resources import amounts, quantities
from shoal.fleet.scheduler.candidate import Usage
from shoal.fleet.scheduler.demand import need
from shoal.fleet.scheduler.filters import minor, taint_text
from shoal.kinds import fleet
from shoal.objects.conditions import set_condition
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    text: str
    """What to do, for people."""
    of: str
    """The Worker's name; empty: the change is to the ManagedCluster."""
    changed: Object
    """The object after the change."""


def of_cluster(managed: Object, workers: list[Object]) -> Iterator[Change]:
    """Smaller changes come first."""
    spec = fleet.spec_of(managed)
    for text, taint in _taints(workers).items():
        exact = {"key": taint["key"], "operator": "Equal", "value": taint["value"], "effect": taint["effect"]}
        yield _asking(f"tolerate taint {text}", managed, tolerations=[*(spec.get("tolerations") or ()), exact])
    location = spec.get("location") or ""
    if location:
        yield _asking(f"remove location {location}", managed, location="")
        for other in sorted({fleet.spec_of(worker).get("location") or "" for worker in workers} - {"", location}):
            yield _asking(f"ask for location {other} in place of {location}", managed, location=other)
    yield from _selectors(managed, spec.get("workerSelector") or {})
    version = spec.get("version") or ""
    if version:
        yield _asking(f"remove version {version}", managed, version="")
    for other in sorted({each for worker in workers for each in fleet.spec_of(worker).get("provides") or ()}):
        if other != spec.get("infrastructure"):
            yield _asking(f"ask for infrastructure {other}", managed, infrastructure=other)


def asking_nodes(managed: Object, number: int, pool: str = "") -> Object:
    """Sets the number of nodes of that pool, or spec.nodes without one."""
    spec = fleet.spec_of(managed)
    if not pool:
        return {**managed, "spec": {**spec, "nodes": number}}
    pools = [{**each, "nodes": number} if each["name"] == pool else each for each in spec["nodePools"]]
    return {**managed, "spec": {**spec, "nodePools": pools}}


def _taints(workers: list[Object]) -> dict[str, Object]:
    found = {}
    for worker in workers:
        for taint in fleet.spec_of(worker).get("taints") or ():
            whole = {"key": taint["key"], "value": taint.get("value") or "", "effect": taint["effect"]}
            found[taint_text(whole)] = whole
    return dict(sorted(found.items()))


def _selectors(managed: Object, selector: Object) -> Iterator[Change]:
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if len(labels) + len(expressions) > 1:
        for key in sorted(labels):
            kept = {name: value for name, value in labels.items() if name != key}
            text = f"remove {key}={labels[key]} from workerSelector"
            yield _asking(text, managed, workerSelector={**selector, "matchLabels": kept})
        for each in expressions:
            rest = [other for other in expressions if other is not each]
            text = f"remove {each['key']} {each['operator']} from workerSelector"
            yield _asking(text, managed, workerSelector={**selector, "matchExpressions": rest})
    if labels or expressions:
        yield _asking("remove workerSelector", managed, workerSelector={})


def _asking(text: str, managed: Object, **spec: Any) -> Change:
    return Change(text, "", {**managed, "spec": {**fleet.spec_of(managed), **spec}})


def of_worker(managed: Object, worker: Object, used: Usage) -> Iterator[Change]:
    name, spec, asked = worker["metadata"]["name"], fleet.spec_of(worker), fleet.spec_of(managed)
    capacity = int(spec.get("capacity") or 0)
    if used.clusters >= capacity:
        more = used.clusters + 1
        number = "a slot" if more == capacity + 1 else f"{more - capacity} slots"
        yield _saying(f"add {number} to {name} (capacity {capacity} -> {more})", worker, capacity=more)
    limit = spec.get("capacityLimit")
    if limit is not None and used.clusters >= limit:
        more = used.clusters + 1
        yield _saying(f"raise capacityLimit of {name} ({limit} -> {more})", worker, capacityLimit=more)
    yield from _resources(managed, worker, used)
    for taint in spec.get("taints") or ():
        rest = [other for other in spec["taints"] if other is not taint]
        text = taint_text({"key": taint["key"], "value": taint.get("value") or "", "effect": taint["effect"]})
        yield _saying(f"remove taint {text} from {name}", worker, taints=rest)
    yield from _labels(asked.get("workerSelector") or {}, worker)
    if asked.get("version") and spec.get("versions"):
        offered = minor(asked["version"])
        yield _saying(f"let {name} offer version {offered}", worker, versions=[*spec["versions"], offered])
    if spec.get("unschedulable") or spec.get("drain"):
        yield _saying(
            f"uncordon {name} (spec.unschedulable and spec.drain: false)", worker, unschedulable=False, drain=False
        )
    ready = set_condition(worker, fleet.READY, "True", reason="Heartbeat", now="")
    if ready is not worker:
        yield Change(f"bring {name} back: it is not ready", name, ready)


def _resources(managed: Object, worker: Object, used: Usage) -> Iterator[Change]:
    name, listed = worker["metadata"]["name"], fleet.spec_of(worker).get("allocatable") or {}
    wanted = need(managed)
    for resource, amount in sorted(amounts(listed).items()):
        least = used.amounts[resource] + wanted.get(resource, 0)
        if least > amount:
            more = quantities({resource: least})[resource]
            text = f"raise allocatable {resource} of {name} ({listed[resource]} -> {more})"
            yield _saying(text, worker, allocatable={**listed, resource: more})


def _labels(selector: Object, worker: Object) -> Iterator[Change]:
    try:
        requirements = from_label_selector(selector).requirements if selector else ()
    except BadRequest:
        return
    metadata = worker["metadata"]
    for each in requirements:
        if each.operator in ("=", "==", "in") and not each.matches(metadata.get("labels") or {}):
            labels = {**(metadata.get("labels") or {}), each.key: each.values[0]}
            text = f"label {metadata['name']} with {each.key}={each.values[0]}"
            yield Change(text, metadata["name"], {**worker, "metadata": {**metadata, "labels": labels}})


def _saying(text: str, worker: Object, **spec: Any) -> Change:
    return Change(text, worker["metadata"]["name"], {**worker, "spec": {**fleet.spec_of(worker), **spec}})
