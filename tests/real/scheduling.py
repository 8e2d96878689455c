"""Scenarios for two schedulers: nodes, pods that are there, pods that come. Made by a seed, the same every time.

All are in one cluster. Every scenario has its own namespaces, zones and hosts, and its pods stay on its nodes by a
node selector; what pods say of others may reach further, as the selectors of namespaces do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

Object = dict[str, Any]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REAL = "real-scheduler"
PRIORITIES = {"low": -5, "high": 1000, "meek": 1000}
"""Classes; `meek` preempts nobody."""
APPS = ("web", "db", "cache")


@dataclass
class Scenario:
    number: int
    namespaces: list[Object] = field(default_factory=list)
    nodes: list[Object] = field(default_factory=list)
    existing: list[Object] = field(default_factory=list)
    leaving: list[tuple[str, str]] = field(default_factory=list)
    pending: list[Object] = field(default_factory=list)


def scenario(number: int) -> Scenario:
    return _Maker(number, Random(number)).make()


class _Maker:
    def __init__(self, number: int, dice: Random) -> None:
        self._number, self._dice = number, dice
        self._names = [f"s{number}", f"s{number}-other"]
        self._made = Scenario(number)
        self._preempts = number % 6 == 5

    def make(self) -> Scenario:
        dice, made = self._dice, self._made
        for name, team in zip(self._names, ("red", "blue"), strict=True):
            labels = {"team": team, "scenario": f"s{self._number}"}
            made.namespaces.append(_object("Namespace", name, labels=labels))
        made.nodes = [self._node(index) for index in range(dice.randint(1, 5))]
        for index in range(dice.randint(0, 8)):
            pod = self._existing(index)
            made.existing.append(pod)
            # One that never goes would make the one it has to make room for wait for ever.
            if dice.random() < 0.1 and not self._preempts:
                pod["metadata"]["finalizers"] = ["example.com/stays"]
                made.leaving.append((pod["metadata"]["namespace"], pod["metadata"]["name"]))
        made.pending = [self._pending(index) for index in range(dice.randint(1, 3))]
        return made

    def _node(self, index: int) -> Object:
        dice, name = self._dice, f"s{self._number}-n{index}"
        labels = {HOST: name, "scenario": f"s{self._number}", "disk": dice.choice(["ssd", "hdd"])}
        if dice.random() < 0.85:
            labels[ZONE] = f"s{self._number}-{dice.choice('abc')}"
        if dice.random() < 0.3:
            labels["size"] = str(dice.randint(1, 9))
        node = _object("Node", name, labels=labels)
        effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
        taints = [
            {"key": key, "value": "x", "effect": dice.choice(effects)} for key in ("a", "b") if dice.random() < 0.15
        ]
        node["spec"] = {"taints": taints, **({"unschedulable": True} if dice.random() < 0.05 else {})}
        room = {"cpu": str(dice.randint(1, 4)), "memory": f"{dice.randint(1, 4)}Gi", "pods": str(dice.randint(2, 8))}
        node["status"] = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        return node

    def _existing(self, index: int) -> Object:
        dice = self._dice
        pod = self._pod(f"e{index}", dice.choice(self._names))
        spec = pod["spec"]
        spec["nodeName"] = dice.choice(self._made.nodes)["metadata"]["name"]
        spec["tolerations"] = [{"operator": "Exists"}]  # nobody is to evict it
        if dice.random() < 0.25:
            spec["affinity"] = {"podAntiAffinity": {_REQUIRED: [self._term()]}}
        elif dice.random() < 0.2:
            spec["affinity"] = {"podAffinity": {_REQUIRED: [self._term()]}}
        if dice.random() < 0.15:
            spec["containers"][0]["ports"] = [self._port()]
        if self._preempts:
            self._rank(pod, "low" if dice.random() < 0.5 else "")
        return pod

    def _pending(self, index: int) -> Object:
        dice = self._dice
        pod = self._pod(f"p{index}", self._names[0])
        spec = pod["spec"]
        spec["schedulerName"] = REAL
        spec["nodeSelector"] = {"scenario": f"s{self._number}"}
        if self._preempts:
            self._rank(pod, dice.choice(["high"] * 7 + ["meek", "", ""]))
        for chance, ask in (
            (0.2, self._ask_for_disk),
            (0.2, self._ask_for_node_affinity),
            (0.08, self._ask_for_node),
            (0.35, self._tolerate),
            (0.2, self._ask_for_port),
            (0.3, self._ask_for_company),
            (0.3, self._ask_for_distance),
            (0.35, self._ask_for_spread),
        ):
            if dice.random() < chance:
                ask(spec)
        return pod

    def _pod(self, name: str, namespace: str) -> Object:
        dice = self._dice
        labels = {"app": dice.choice(APPS), **({"tier": dice.choice(["x", "y"])} if dice.random() < 0.5 else {})}
        pod = _object("Pod", name, namespace, labels)
        asked = {}
        if dice.random() < 0.8:
            asked = {
                "cpu": dice.choice(["100m", "500m", "1", "1500m"]),
                "memory": dice.choice(["64Mi", "512Mi", "1Gi"]),
            }
        container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": asked}}
        pod["spec"] = {"containers": [container], "terminationGracePeriodSeconds": 0}
        return pod

    def _rank(self, pod: Object, name: str) -> None:
        if name:
            pod["spec"] |= {"priorityClassName": name, "priority": PRIORITIES[name]}

    def _ask_for_disk(self, spec: Object) -> None:
        spec["nodeSelector"]["disk"] = self._dice.choice(["ssd", "hdd"])

    def _ask_for_node_affinity(self, spec: Object) -> None:
        dice = self._dice
        expressions = [
            {"key": "disk", "operator": dice.choice(["In", "NotIn"]), "values": ["ssd"]},
            {"key": "size", "operator": dice.choice(["Gt", "Lt"]), "values": ["5"]},
            {"key": "size", "operator": dice.choice(["Exists", "DoesNotExist"])},
            {"key": ZONE, "operator": "In", "values": [f"s{self._number}-a", f"s{self._number}-b"]},
        ]
        terms = [{"matchExpressions": dice.sample(expressions, dice.randint(1, 2))} for _ in range(dice.randint(1, 2))]
        spec.setdefault("affinity", {})["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": terms}}

    def _ask_for_node(self, spec: Object) -> None:
        name = self._dice.choice(self._made.nodes)["metadata"]["name"]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]
        spec.setdefault("affinity", {})["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": terms}}

    def _tolerate(self, spec: Object) -> None:
        dice = self._dice
        spec["tolerations"] = dice.choice(
            [
                [{"operator": "Exists"}],
                [{"key": "a", "operator": "Exists"}],
                [{"key": "a", "value": "x"}, {"key": "b", "operator": "Exists", "effect": "NoSchedule"}],
                [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
            ]
        )

    def _ask_for_port(self, spec: Object) -> None:
        spec["containers"][0]["ports"] = [self._port()]

    def _port(self) -> Object:
        dice = self._dice
        address = {"hostIP": dice.choice(["10.0.0.1", "10.0.0.2"])} if dice.random() < 0.4 else {}
        port = dice.choice([80, 81])
        return {"containerPort": port, "hostPort": port, "protocol": dice.choice(["TCP", "UDP"]), **address}

    def _ask_for_company(self, spec: Object) -> None:
        terms = [self._term() for _ in range(self._dice.randint(1, 2))]
        spec.setdefault("affinity", {})["podAffinity"] = self._required_or_preferred(terms)

    def _ask_for_distance(self, spec: Object) -> None:
        terms = [self._term() for _ in range(self._dice.randint(1, 2))]
        spec.setdefault("affinity", {})["podAntiAffinity"] = self._required_or_preferred(terms)

    def _required_or_preferred(self, terms: list[Object]) -> Object:
        if self._dice.random() < 0.8:
            return {_REQUIRED: terms}
        return {_PREFERRED: [{"weight": self._dice.randint(1, 100), "podAffinityTerm": term} for term in terms]}

    def _term(self) -> Object:
        dice = self._dice
        term: Object = {"topologyKey": dice.choice([HOST, ZONE]), "labelSelector": self._selector()}
        if dice.random() < 0.25:
            term["namespaces"] = dice.sample(self._names, dice.randint(1, 2))
        if dice.random() < 0.3:
            own = {"scenario": f"s{self._number}"}
            term["namespaceSelector"] = dice.choice([{"matchLabels": {"team": "blue", **own}}, {"matchLabels": own}])
        if dice.random() < 0.15:
            term[dice.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["tier"]
        return term

    def _selector(self) -> Object:
        dice = self._dice
        return dice.choice(
            [
                {"matchLabels": {"app": dice.choice(APPS)}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": dice.sample(APPS, 2)}]},
                {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [dice.choice(APPS)]}]},
                {"matchExpressions": [{"key": "tier", "operator": dice.choice(["Exists", "DoesNotExist"])}]},
            ]
        )

    def _ask_for_spread(self, spec: Object) -> None:
        dice = self._dice
        made = []
        for key in dice.sample([HOST, ZONE], dice.randint(1, 2)):
            action = "DoNotSchedule" if dice.random() < 0.8 else "ScheduleAnyway"
            one: Object = {"maxSkew": dice.randint(1, 2), "topologyKey": key, "whenUnsatisfiable": action}
            one["labelSelector"] = self._selector() if dice.random() < 0.9 else {}
            if dice.random() < 0.3 and action == "DoNotSchedule":
                one["minDomains"] = dice.randint(1, 4)
            if dice.random() < 0.3:
                one["nodeTaintsPolicy"] = dice.choice(["Honor", "Ignore"])
            if dice.random() < 0.2:
                one["nodeAffinityPolicy"] = dice.choice(["Honor", "Ignore"])
            if dice.random() < 0.2:
                one["matchLabelKeys"] = ["tier"]
            made.append(one)
        spec["topologySpreadConstraints"] = made


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _object(kind: str, name: str, namespace: str = "", labels: dict[str, str] | None = None) -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels or {}, **where}}
