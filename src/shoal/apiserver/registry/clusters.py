"""Logical clusters: which exist, and what each serves.

`root` always exists. Any other cluster exists exactly as long as its `LogicalCluster` object in root. A cluster's
registry is the shared registry of its profile and Kubernetes version plus its own CRDs; a hub adds its negotiated
resources, the revisions of workloads, and mirrored pods. The registry is rebuilt lazily after one of them changes. An
idle cluster drops all derived state, and its first request rebuilds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shoal.apiserver.cache.cacher import CachedObject, CacheEvent, WatchCache
from shoal.apiserver.registry import mirrored_pods
from shoal.apiserver.registry.negotiated import NEGOTIATED_RESOURCES, resource_from_negotiated
from shoal.apiserver.registry.registry import Registry, Resource
from shoal.apiserver.registry.rollout_history import history_resources
from shoal.apiserver.request.info import ROOT
from shoal.kinds.fleet.endpoint import Endpoint, endpoint_of
from shoal.kinds.fleet.keys import keys_in_force, requested_keys
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, restored_revision, token_keys
from shoal.kinds.limits import DEFAULT_LIMITS, UNLIMITED, ClusterLimits, limits_of
from shoal.kinds.versions import NEWEST_MINOR, minor_of
from shoal.kinds.workload import workloadcluster

LOGICAL_CLUSTERS = (GROUP, PLURAL)
CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
ADDRESS_RESOURCES = ("core/services", "core/endpoints", "discovery.k8s.io/endpointslices")
"""Resources with a bootstrap object `default/kubernetes` that has the address of the cluster."""
_ENDPOINT_MARKER = b'"endpoint":'
PREFERRED_GROUPS = (workloadcluster.GROUP,)
"""Groups that discovery lists before other custom groups: the short name `clusters` means theirs."""


@dataclass(frozen=True, slots=True)
class LogicalCluster:
    name: str
    uid: str
    creation_timestamp: str
    revision: int
    profile: str
    version: str
    terminating: bool = False
    oldest_revision: int = 0
    """Older revisions belong to the server the cluster was on before."""
    token_keys: tuple[str, ...] = ()
    """Public keys of the servers the cluster was on before."""
    endpoint: Endpoint | None = None
    """Its own address."""
    keys_generation: int = 1
    """The generation that its keys have or get."""
    refuses_former_keys: bool = False
    """Whether tokens from before its current keys are refused."""
    limits: ClusterLimits = UNLIMITED


ProfileVersion = tuple[str, int]
"""A profile and a minor version of Kubernetes."""


class CRDSource(Protocol):
    def default_resources(self, profile: str) -> list[Resource]:
        """Resources of the CRDs a cluster of the profile starts with."""

    def resources(self, cluster: str, entry: CachedObject) -> list[Resource]:
        """Resources of one CustomResourceDefinition of the cluster."""

    def forget(self, cluster: str, name: str = "") -> None: ...


class LogicalClusters:
    def __init__(
        self,
        cache: WatchCache,
        builtins: Callable[[str, int], list[Resource]],
        crds: CRDSource,
        limits: ClusterLimits = DEFAULT_LIMITS,
        root_limits: ClusterLimits = UNLIMITED,
    ) -> None:
        """`builtins` returns the resources of a profile at a minor version. `limits` are those of clusters that do not
        specify theirs.
        """
        self._limits, self._root_limits = limits, root_limits
        self._cache = cache
        self._builtins = builtins
        self._crds = crds
        self._default_registries: dict[ProfileVersion, Registry] = {}
        self._builtin_registries: dict[ProfileVersion, Registry] = {}
        self._registries: dict[str, Registry] = {}
        self._clusters: dict[str, LogicalCluster] = {}
        self._deletion_handlers: list[Callable[[str], None]] = []
        self.recently_used: set[str] = set()
        """Clusters looked up since the set was last emptied."""
        cache.history.max_bytes_of = lambda name: self.limits(name).history
        cache.resource_cache(*CRDS).add_event_handler("*", self._on_crd)
        cache.resource_cache(*NEGOTIATED_RESOURCES).add_event_handler("*", self._on_negotiated_resource)
        cache.resource_cache(*mirrored_pods.WORKLOAD_CLUSTERS).add_event_handler("*", self._on_workload_cluster)
        cache.resource_cache(*LOGICAL_CLUSTERS).add_event_handler(ROOT, self._on_logical_cluster)

    def get(self, name: str) -> LogicalCluster | None:
        cluster = self._clusters.get(name)
        if cluster is None:
            entry = self._cache.resource_cache(*LOGICAL_CLUSTERS).get(ROOT, "", name)
            if entry is None:
                return None
            cluster = self._clusters[name] = _cluster_of(entry, self._root_limits if name == ROOT else self._limits)
        self.recently_used.add(name)
        return cluster

    def limits(self, name: str) -> ClusterLimits:
        """Returns the limits of a cluster, without using it."""
        cluster = self._clusters.get(name)
        if cluster is not None:
            return cluster.limits
        entry = self._cache.resource_cache(*LOGICAL_CLUSTERS).get(ROOT, "", name)
        default = self._root_limits if name == ROOT else self._limits
        return limits_of(entry.object(), default) if entry is not None and b'"limits":' in entry.data else default

    def on_deleted(self, handler: Callable[[str], None]) -> None:
        """Registers a handler that gets the name of every deleted cluster."""
        self._deletion_handlers.append(handler)

    def drop_derived(self, name: str) -> None:
        """Drops derived state that the next request rebuilds."""
        self._clusters.pop(name, None)
        self._registries.pop(name, None)
        self._crds.forget(name)

    def names(self) -> list[str]:
        return [entry.name for entry in self._cache.resource_cache(*LOGICAL_CLUSTERS).table(ROOT).select("")]

    def registry(self, cluster: LogicalCluster) -> Registry:
        registry = self._registries.get(cluster.name)
        if registry is None:
            registry = self._registries[cluster.name] = self._build_registry(cluster)
        return registry

    def builtin(self, group: str, version: str, plural: str) -> Resource | None:
        """For the wildcard view: a resource that clusters serve, even if root does not."""
        return self._default_registry(("cluster", NEWEST_MINOR)).find(group, version, plural)

    def _build_registry(self, cluster: LogicalCluster) -> Registry:
        kind, name = self._cache.resource_cache(*CRDS), cluster.name
        profile_version = cluster.profile, minor_of(cluster.version) or NEWEST_MINOR
        definitions = kind.table(name).select("")
        negotiated = self._negotiated_resources(cluster)
        customized = name in kind.tombstones or not all(entry.virtual for entry in definitions)
        if name != ROOT and not customized and not negotiated:
            return self._default_registry(profile_version)
        custom = [resource for entry in definitions for resource in self._crds.resources(name, entry)]
        custom.sort(key=lambda resource: resource.group not in PREFERRED_GROUPS)
        return Registry([*self._builtin_registry(profile_version), *negotiated, *custom])

    def _negotiated_resources(self, cluster: LogicalCluster) -> list[Resource]:
        if cluster.profile != "hub":
            return []
        resources = [
            resource_from_negotiated(entry)
            for entry in self._cache.resource_cache(*NEGOTIATED_RESOURCES).table(cluster.name).select("")
        ]
        pods = [mirrored_pods.pod_resource()] if mirrored_pods.is_served(self._cache, cluster.name) else []
        served = [resource for resource in resources if resource is not None]
        return [*pods, *served, *history_resources(served)]

    def _default_registry(self, profile_version: ProfileVersion) -> Registry:
        """The registry of a cluster whose CRDs are those it started with."""
        registry = self._default_registries.get(profile_version)
        if registry is None:
            registry = self._default_registries[profile_version] = Registry(
                [*self._builtin_registry(profile_version), *self._crds.default_resources(profile_version[0])]
            )
        return registry

    def _builtin_registry(self, profile_version: ProfileVersion) -> Registry:
        registry = self._builtin_registries.get(profile_version)
        if registry is None:
            registry = self._builtin_registries[profile_version] = Registry(self._builtins(*profile_version))
        return registry

    def _on_crd(self, event: CacheEvent) -> None:
        self._registries.pop(event.cluster, None)
        if event.new is None:
            self._crds.forget(event.cluster, event.latest.name)
            plural, _, group = event.latest.name.partition(".")
            self._cache.on_definition_deleted(group, plural)

    def _on_negotiated_resource(self, event: CacheEvent) -> None:
        if resource_from_negotiated(event.old) is not resource_from_negotiated(event.new):
            self._registries.pop(event.cluster, None)

    def _on_workload_cluster(self, event: CacheEvent) -> None:
        if mirrored_pods.is_requested(event.old) != mirrored_pods.is_requested(event.new):
            self._registries.pop(event.cluster, None)

    def _on_logical_cluster(self, event: CacheEvent) -> None:
        """A new profile or version means a new registry. Open watches continue."""
        name = event.latest.name
        self._clusters.pop(name, None)
        self._registries.pop(name, None)
        self._cache.history.refresh_limit(name)
        if event.old is not None and event.new is not None and _has_moved(event.old, event.new):
            for key in ADDRESS_RESOURCES:
                self._cache.refresh_bootstrap(key, name)
        if event.new is None:
            self.drop_derived(name)
            self.recently_used.discard(name)
            self._cache.drop_cluster(name)
            for handler in self._deletion_handlers:
                handler(name)


def _has_moved(old: CachedObject, new: CachedObject) -> bool:
    """Whether the cluster has another address of its own than before. Most have none, and the bytes show it."""
    if _ENDPOINT_MARKER not in old.data and _ENDPOINT_MARKER not in new.data:
        return False
    return endpoint_of(old.object()) != endpoint_of(new.object())


def _cluster_of(entry: CachedObject, default_limits: ClusterLimits) -> LogicalCluster:
    obj = entry.object()
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    return LogicalCluster(
        name=entry.name,
        uid=metadata["uid"],
        creation_timestamp=metadata["creationTimestamp"],
        revision=entry.revision,
        profile=spec.get("profile", "hub"),
        version=spec.get("version", ""),
        terminating="deletionTimestamp" in metadata,
        oldest_revision=above + 1 if (above := restored_revision(obj)) else 0,
        token_keys=token_keys(obj),
        endpoint=endpoint_of(obj),
        keys_generation=requested_keys(obj).generation,
        refuses_former_keys=not keys_in_force(obj).trust_former,
        limits=limits_of(obj, default_limits),
    )
