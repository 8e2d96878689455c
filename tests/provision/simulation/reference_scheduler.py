"""Reference implementation of Karpenter's algorithm, pod by pod and node by node: slow; the fast scheduler must agree
with it.

No grouping, caches or bit sets; requirements are checked one by one. Reservations, offering taints and limited
offerings are left to examples.
"""

from __future__ import annotations

import copy
from typing import Any

from shoal.fit.ports import host_ports, ports_conflict
from shoal.fit.requirements import Requirement, Requirements, from_expressions, from_labels
from shoal.fit.resources import add, fits, pod_requests, subtract
from shoal.fit.taints import first_untolerated
from shoal.kinds.karpenter.karpenter import (
    HOSTNAME,
    WELL_KNOWN_LABELS,
    nodepool_template_labels,
    nodepool_template_spec,
    nodepool_weight,
)
from shoal.objects.selectors import from_label_selector
from shoal.provision.simulation.model import SchedulingInput

Object = dict[str, Any]
EVERY = ("NoSchedule", "NoExecute", "PreferNoSchedule")
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
EXISTS = Requirement("", True)


def section(pod: Object, name: str) -> Object:
    found: Object = ((pod["spec"].get("affinity") or {}).get(name)) or {}
    return found


def by_weight(terms: list[Object]) -> list[Object]:
    return sorted(terms, key=lambda term: -term["weight"])


def strict(pod: Object) -> Requirements:
    terms = (section(pod, "nodeAffinity").get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    return from_labels(pod["spec"].get("nodeSelector")).union(from_expressions(terms[0].get("matchExpressions")))


def wanted(pod: Object) -> Requirements:
    liked = by_weight(section(pod, "nodeAffinity").get(PREFERRED) or [])
    found = strict(pod)
    return found.union(from_expressions(liked[0]["preference"].get("matchExpressions"))) if liked else found


def relax(pod: Object, tolerate: bool) -> bool:
    """One step, in place."""
    required = section(pod, "nodeAffinity").get(REQUIRED) or {}
    if len(required.get("nodeSelectorTerms") or ()) > 1:
        required["nodeSelectorTerms"] = required["nodeSelectorTerms"][1:]
        return True
    for name in ("podAffinity", "podAntiAffinity", "nodeAffinity"):
        terms = section(pod, name).get(PREFERRED)
        if terms:
            section(pod, name)[PREFERRED] = by_weight(terms)[1:]
            return True
    spreads = pod["spec"].get("topologySpreadConstraints") or []
    for number, spread in enumerate(spreads):
        if spread["whenUnsatisfiable"] == "ScheduleAnyway":
            spreads[number] = spreads[-1]
            spreads.pop()
            return True
    anything = {"operator": "Exists", "effect": "PreferNoSchedule"}
    if tolerate and anything not in (pod["spec"].get("tolerations") or []):
        pod["spec"]["tolerations"] = [*(pod["spec"].get("tolerations") or []), anything]
        return True
    return False


class Group:
    def __init__(self, kind: str, key: str, namespaces: set[str], selector: Object | None, pod: Object, spread: Object):
        self.kind, self.key, self.namespaces, self.selector = kind, key, namespaces, from_label_selector(selector)
        self.skew, self.least = spread.get("maxSkew", 1), spread.get("minDomains") or 0
        self.by_taints = spread.get("nodeTaintsPolicy") == "Honor"
        self.tolerations = pod["spec"].get("tolerations") or []
        self.filters: list[Requirements] = []
        if kind == "spread" and spread.get("nodeAffinityPolicy", "Honor") == "Honor":
            own = from_labels(pod["spec"].get("nodeSelector"))
            terms = (section(pod, "nodeAffinity").get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
            self.filters = [own.union(from_expressions(term.get("matchExpressions"))) for term in terms]
        self.counts: dict[str, int] = {}
        self.owners: set[str] = set()

    @property
    def name(self) -> tuple[Any, ...]:
        filters = frozenset(frozenset(each.values()) for each in self.filters)
        tolerations = str(self.tolerations) if self.by_taints else ""
        return (
            self.kind,
            self.key,
            frozenset(self.namespaces),
            self.selector,
            self.skew,
            self.least,
            filters,
            tolerations,
        )

    def selects(self, pod: Object) -> bool:
        metadata = pod["metadata"]
        return metadata["namespace"] in self.namespaces and self.selector.matches(metadata["labels"])

    def counts_on(self, requirements: Requirements, taints: Any) -> bool:
        if self.filters and not any(requirements.is_compatible(each) for each in self.filters):
            return False
        return not self.by_taints or first_untolerated(taints, self.tolerations, EVERY) is None

    def domains(self, pod: Object, mine: Requirement, its: Requirement) -> set[str]:
        itself = self.selects(pod)
        host = next(iter(its.values)) if self.key == HOSTNAME else ""
        if self.kind == "spread":
            if host:
                return {host} if self.counts.get(host, 0) + itself <= self.skew else set()
            reachable = [count for domain, count in self.counts.items() if mine.has(domain)]
            lowest = min(reachable, default=1 << 31) if len(reachable) >= self.least else 0
            open_ = [(n, d) for d, n in self.counts.items() if its.has(d) and n + itself - lowest <= self.skew]
            return {min(open_)[1]} if open_ else set()
        if self.kind == "apart":
            if host:
                return {host} if not self.counts.get(host) else set()
            return {
                domain for domain, count in self.counts.items() if not count and mine.has(domain) and its.has(domain)
            }
        populated = {domain for domain, count in self.counts.items() if count and mine.has(domain)}
        found = {domain for domain in populated if its.has(domain)}
        if found or populated or not itself:
            return found
        if host:
            return {host} if mine.has(host) else set()
        free = sorted(domain for domain in self.counts if mine.has(domain) and its.has(domain))
        return set(free[:1])


class Node:
    def __init__(self, requirements: Requirements, taints: Any, host: str) -> None:
        self.requirements = requirements.without(HOSTNAME).add([Requirement(HOSTNAME, False, frozenset((host,)))])
        self.taints, self.host = taints, host
        self.pods: list[Object] = []
        self.ports: set[Any] = set()


class Plain:
    def __init__(self, question: SchedulingInput) -> None:
        self.question = question
        self.pools = sorted(
            question.node_pools, key=lambda each: (nodepool_weight(each.node_pool), each.name), reverse=True
        )
        self.groups: dict[Any, Group] = {}
        self.inverse: dict[Any, Group] = {}
        self.universe = self._universe()
        self.left = {each.name: subtract(each.limits, each.usage) for each in self.pools}
        self.left = {
            each.name: {k: v for k, v in self.left[each.name].items() if k in each.limits} for each in self.pools
        }
        self.tolerate = any(
            taint["effect"] == "PreferNoSchedule"
            for each in self.pools
            for taint in nodepool_template_spec(each.node_pool).get("taints") or ()
        )
        self.spots: list[Any] = []
        self.claims: list[Any] = []
        self.made: list[Any] = []
        for place in sorted(question.existing_nodes, key=lambda each: (not each.initialized, each.name)):
            node = Node(from_labels(place.labels), place.taints, place.labels.get(HOSTNAME, place.name))
            node.free, node.name, node.ports = dict(place.free), place.name, set(place.ports)  # type: ignore[attr-defined]
            self.spots.append(node)
        for place in question.existing_nodes:
            for pod in place.pods:
                self._oppose(pod, {**place.labels, HOSTNAME: place.labels.get(HOSTNAME, place.name)})
        for pod in question.pods:
            self._oppose(pod, {})
        for pod in question.pods:
            self._own(pod)

    def run(self) -> tuple[list[tuple[str, list[str], list[str]]], dict[str, str], set[str]]:
        """Claims as pool, types and pods; where others went; who got nothing."""
        queue = sorted(self.question.pods, key=self._size)
        last: dict[str, int] = {}
        while queue and last.get(queue[0]["metadata"]["uid"]) != len(queue):
            pod = queue.pop(0)
            if not self._try(copy.deepcopy(pod)):
                self._own(pod)
                queue.append(pod)
                last[pod["metadata"]["uid"]] = len(queue)
        claims = [(each.pool.name, sorted(t.name for t in each.types), sorted(_uids(each))) for each in self.made]
        return claims, {uid: each.name for each in self.spots for uid in _uids(each)}, set(_uids_of(queue))

    def _size(self, pod: Object) -> Any:
        requests, metadata = pod_requests(pod), pod["metadata"]
        return -requests.get("cpu", 0), -requests.get("memory", 0), metadata["creationTimestamp"], metadata["uid"]

    def _try(self, pod: Object) -> bool:
        while not self._add(pod):
            if not relax(pod, self.tolerate):
                return False
            self._own(pod)
        return True

    def _add(self, pod: Object) -> bool:
        for spot in self.spots:
            if self._onto_spot(pod, spot):
                return True
        self.claims.sort(key=lambda each: len(each.pods))
        for each in self.claims:
            if self._onto_claim(pod, each):
                return True
        for pool in self.pools:
            left = self.left[pool.name]
            if left.get("nodes", 1) <= 0:
                continue
            types = [t for t in pool.types if all(t.capacity.get(k, 0) <= v for k, v in left.items() if k != "nodes")]
            labels = {**nodepool_template_labels(pool.node_pool), "karpenter.sh/nodepool": pool.name}
            requirements = from_expressions(nodepool_template_spec(pool.node_pool).get("requirements")).union(
                from_labels(labels)
            )
            claim: Any = Node(
                requirements, nodepool_template_spec(pool.node_pool).get("taints") or (), f"new-{len(self.made)}"
            )
            claim.types, claim.used, claim.pool = types, {}, pool
            if self._onto_claim(pod, claim):
                self.claims.append(claim)
                self.made.append(claim)
                for name in left:
                    left[name] -= 1 if name == "nodes" else max(t.capacity.get(name, 0) for t in claim.types)
                return True
        return False

    def _onto_spot(self, pod: Object, spot: Any) -> bool:
        if first_untolerated(spot.taints, pod["spec"].get("tolerations") or (), EVERY) is not None:
            return False
        if any(amount < 0 for amount in spot.free.values()) or not fits(pod_requests(pod), spot.free):
            return False
        if ports_conflict(host_ports(pod), spot.ports) or not spot.requirements.is_compatible(wanted(pod)):
            return False
        for volume in self.question.volume_requirements.get(pod["metadata"]["uid"]) or (Requirements(),):
            if not spot.requirements.is_compatible(volume):
                continue
            more = self._topology(pod, spot, spot.requirements)
            if more is not None and spot.requirements.is_compatible(more):
                spot.free = subtract(spot.free, pod_requests(pod))
                self._placed(pod, spot, spot.requirements)
                return True
        return False

    def _onto_claim(self, pod: Object, claim: Any) -> bool:
        known = WELL_KNOWN_LABELS | {key for each in claim.pool.types for key in each.requirements}
        if first_untolerated(claim.taints, pod["spec"].get("tolerations") or (), EVERY) is not None:
            return False
        if ports_conflict(host_ports(pod), claim.ports) or not claim.requirements.is_compatible(wanted(pod), known):
            return False
        requests = add(claim.used, pod_requests(pod))
        for volume in self.question.volume_requirements.get(pod["metadata"]["uid"]) or (Requirements(),):
            both = claim.requirements.union(wanted(pod))
            if not both.is_compatible(volume, known):
                continue
            both = both.union(volume)
            more = self._topology(pod, claim, both)
            if more is None or not both.is_compatible(more, known):
                continue
            both = both.union(more)
            types = [
                each
                for each in claim.types
                if each.requirements.intersects(both)
                and fits(requests, each.allocatable)
                and any(o.available and both.intersects(from_labels(o.labels)) for o in each.offerings)
            ]
            if types and all(_variety(types, each) for each in both.values() if each.min_values):
                claim.types, claim.used, claim.requirements = types, requests, both
                self._placed(pod, claim, both)
                return True
        return False

    def _topology(self, pod: Object, node: Any, requirements: Requirements) -> Requirements | None:
        mine, found = strict(pod), Requirements()
        groups = [each for each in self.groups.values() if pod["metadata"]["uid"] in each.owners]
        for group in [*groups, *(each for each in self.inverse.values() if each.selects(pod))]:
            domains = group.domains(pod, mine.get(group.key) or EXISTS, requirements.get(group.key) or EXISTS)
            if not domains:
                return None
            found = found.add([Requirement(group.key, False, frozenset(domains))])
        return found

    def _placed(self, pod: Object, node: Any, requirements: Requirements) -> None:
        node.pods.append(pod)
        node.ports |= host_ports(pod)
        for group in self.groups.values():
            if group.selects(pod) and group.counts_on(requirements, node.taints):
                self._count(group, requirements)
        for group in self.inverse.values():
            if pod["metadata"]["uid"] in group.owners:
                self._count(group, requirements)

    def _count(self, group: Group, requirements: Requirements) -> None:
        known = requirements.get(group.key)
        if known is not None and not known.complement and (group.kind == "apart" or len(known.values) == 1):
            for domain in known.values:
                group.counts[domain] = group.counts.get(domain, 0) + 1

    def _own(self, pod: Object) -> None:
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        for group in self.groups.values():
            group.owners.discard(uid)
        said = [
            ("spread", each["topologyKey"], {namespace}, each["labelSelector"], each)
            for each in pod["spec"].get("topologySpreadConstraints") or ()
        ]
        for kind, name in (("together", "podAffinity"), ("apart", "podAntiAffinity")):
            terms = section(pod, name).get(REQUIRED) or []
            terms = [*terms, *(each["podAffinityTerm"] for each in section(pod, name).get(PREFERRED) or ())]
            said += [
                (kind, each["topologyKey"], self._named(each, namespace), each["labelSelector"], {}) for each in terms
            ]
        for kind, key, namespaces, selector, spread in said:
            group = Group(kind, key, namespaces, selector, pod, spread)
            if group.name not in self.groups:
                self._know(group)
                self.groups[group.name] = group
            self.groups[group.name].owners.add(uid)

    def _know(self, group: Group) -> None:
        group.counts = dict.fromkeys(self._domains(group), 0)
        moving = {pod["metadata"]["uid"] for pod in self.question.pods}
        for place in self.question.existing_nodes:
            labels = {**place.labels, HOSTNAME: place.labels.get(HOSTNAME, place.name)}
            if group.key not in labels or not group.counts_on(from_labels(place.labels), place.taints):
                continue
            group.counts.setdefault(labels[group.key], 0)
            for pod in place.pods:
                if group.selects(pod) and pod["metadata"]["uid"] not in moving:
                    group.counts[labels[group.key]] += 1

    def _domains(self, group: Group) -> set[str]:
        found = self.universe.get(group.key, {})
        if not group.by_taints:
            return set(found)
        return {
            domain
            for domain, many in found.items()
            if any(first_untolerated(taints, group.tolerations, EVERY) is None for taints in many)
        }

    def _oppose(self, pod: Object, labels: Any) -> None:
        for term in section(pod, "podAntiAffinity").get(REQUIRED) or ():
            namespaces = self._named(term, pod["metadata"]["namespace"])
            group = Group("apart", term["topologyKey"], namespaces, term["labelSelector"], pod, {})
            if group.name not in self.inverse:
                group.counts = dict.fromkeys(self.universe.get(group.key, {}), 0)
                self.inverse[group.name] = group
            group = self.inverse[group.name]
            if group.key in labels:
                group.counts[labels[group.key]] = group.counts.get(labels[group.key], 0) + 1
            group.owners.add(pod["metadata"]["uid"])

    def _named(self, term: Object, namespace: str) -> set[str]:
        if term.get("namespaceSelector") is None:
            return set(term.get("namespaces") or (namespace,))
        chosen = from_label_selector(term["namespaceSelector"])
        return {*(term.get("namespaces") or ()), *(n for n, v in self.question.namespaces.items() if chosen.matches(v))}

    def _universe(self) -> dict[str, dict[str, list[Any]]]:
        found: dict[str, dict[str, list[Any]]] = {}
        for pool in self.question.node_pools:
            spec = nodepool_template_spec(pool.node_pool)
            own = from_expressions(spec.get("requirements")).union(
                from_labels(nodepool_template_labels(pool.node_pool))
            )
            for kind in pool.types:
                for each in [*own.union(kind.requirements).values(), *own.values()]:
                    for value in () if each.complement else each.values:
                        found.setdefault(each.key, {}).setdefault(value, []).append(spec.get("taints") or ())
        return found


def _variety(types: Any, wanted: Requirement) -> bool:
    values = {
        value for each in types if wanted.key in each.requirements for value in each.requirements[wanted.key].values
    }
    return len(values) >= (wanted.min_values or 0)


def _uids(node: Any) -> list[str]:
    return _uids_of(node.pods)


def _uids_of(pods: Any) -> list[str]:
    return [pod["metadata"]["uid"] for pod in pods]
