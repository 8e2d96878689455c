"""Builds the SchedulingInput of a cluster from ClusterState. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.fit.requirements import Requirements
from shoal.fit.resources import amounts
from shoal.kinds.karpenter import READY, class_ref, is_going, is_managed, template_spec
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider import CloudProvider, Instance, UnevaluatedNodePool
from shoal.provision.overlays import overlaid
from shoal.provision.pods import is_of_the_node
from shoal.provision.provisioning.places import going, left, places, used
from shoal.provision.provisioning.volumes import Unusable, volume_alternatives
from shoal.provision.settings import Settings
from shoal.provision.simulation.model import Pool, Question
from shoal.provision.view import View

Object = dict[str, Any]


class Look:
    def __init__(self, view: View, provider: CloudProvider, settings: Settings) -> None:
        self._view, self._provider, self._settings = view, provider, settings

    def pods(self, cluster: str) -> list[Object]:
        """Pending pods, and pods on nodes that are being deleted."""
        found = self._view.waiting(cluster)
        for node in going(self._view.nodes.of(cluster), self._view.claims.of(cluster)):
            on = self._view.pods_on(cluster, node["metadata"]["name"])
            found += [pod for pod in on if not is_of_the_node(pod) and not is_going(pod) and not _ended(pod)]
        return found

    def question(self, cluster: str, pods: Iterable[Object], promised: Mapping[str, str]) -> Question:
        view = self._view
        pods = list(pods)
        claims, daemons, nodes = view.claims.of(cluster), self._daemons(cluster), view.nodes.of(cluster)
        foreseen = self._foreseen(cluster, claims)
        volumes, problems = self._volumes(cluster, pods)

        def pods_on(node: str) -> list[Object]:
            return view.pods_on(cluster, node)

        return Question(
            pods,
            places(nodes, claims, foreseen, daemons, pods_on, view.requests),
            self._pools(cluster, claims, foreseen),
            daemons,
            promised,
            left(going(nodes, claims), pods_on),
            {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in view.namespaces.of(cluster)},
            volumes,
            problems,
            self._settings.preferences,
            self._settings.min_values,
        )

    def _foreseen(self, cluster: str, claims: Iterable[Object]) -> dict[str, Instance]:
        found = {claim["metadata"]["name"]: self._provider.foresee(cluster, claim) for claim in claims}
        return {name: instance for name, instance in found.items() if instance is not None}

    def _daemons(self, cluster: str) -> list[Object]:
        return [each for each in self._view.daemon_sets.of(cluster) if not is_going(each)]

    def _pools(self, cluster: str, claims: list[Object], foreseen: Mapping[str, Instance]) -> list[Pool]:
        found = []
        for pool in self._view.pools.of(cluster):
            spec = template_spec(pool)
            if is_going(pool) or not condition_is(pool, READY) or not is_managed(spec):
                continue
            node_class = self._view.classes.get(cluster, class_ref(spec).get("name", ""))
            try:
                types = self._provider.instance_types(cluster, node_class) if node_class is not None else []
            except UnevaluatedNodePool:
                continue
            limits = amounts((pool.get("spec") or {}).get("limits"))
            priced = overlaid(types, self._view.overlays.of(cluster), pool)
            found.append(Pool(pool, priced, used(claims, pool["metadata"]["name"], foreseen), limits))
        return found

    def _volumes(
        self, cluster: str, pods: Iterable[Object]
    ) -> tuple[dict[str, tuple[Requirements, ...]], dict[str, str]]:
        """Returns the node requirements of the pods' volumes, and volume errors, both by pod uid."""
        view = self._view
        found: dict[str, tuple[Requirements, ...]] = {}
        problems: dict[str, str] = {}

        def claim(name: str, namespace: str) -> Object | None:
            return view.volume_claims.get(cluster, name, namespace)

        def volume(name: str, _: str) -> Object | None:
            return view.volumes.get(cluster, name)

        def storage_class(name: str, _: str) -> Object | None:
            return view.storage_classes.get(cluster, name)

        for pod in pods:
            if not (pod.get("spec") or {}).get("volumes"):
                continue
            try:
                alternatives = volume_alternatives(pod, claim, volume, storage_class)
            except Unusable as error:
                problems[pod["metadata"]["uid"]] = str(error)
                continue
            if alternatives:
                found[pod["metadata"]["uid"]] = alternatives
        return found, problems


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
