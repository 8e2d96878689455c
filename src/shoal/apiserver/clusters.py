"""Logical clusters: which exist, what each serves.

`root` always exists; another exists exactly as long as its `LogicalCluster` object does, in root. A cluster's
registry is the shared one of its profile plus its own CRDs plus, in a hub, the kinds it has learned; rebuilt lazily
after one of them changed. An idle cluster holds nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.apiserver.cache import Cache, Change, Entry
from shoal.apiserver.learned import LEARNED, taught
from shoal.apiserver.paths import ROOT
from shoal.apiserver.registry import Registry, Resource
from shoal.kinds import workload
from shoal.kinds.logicalcluster import GROUP, PLURAL

KIND = (GROUP, PLURAL)
DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
LISTED_FIRST = (workload.GROUP,)
"""Groups that discovery lists before other custom ones: `clusters` alone means theirs."""


@dataclass(frozen=True, slots=True)
class LogicalCluster:
    name: str
    uid: str
    created: str
    revision: int
    profile: str
    version: str
    terminating: bool = False


class Clusters:
    def __init__(
        self,
        cache: Cache,
        builtins: Callable[[str], list[Resource]],
        own: Callable[[str], list[Resource]],
        defined: Callable[[Entry], list[Resource]],
    ) -> None:
        """`builtins` gives the resources of a profile, `own` those of the definitions it starts with, `defined`
        those of one CustomResourceDefinition."""
        self._cache = cache
        self._builtins = builtins
        self._own = own
        self._defined = defined
        self._whole: dict[str, Registry] = {}
        self._plain: dict[str, Registry] = {}
        self._registries: dict[str, Registry] = {}
        self._known: dict[str, LogicalCluster] = {}
        self._generations: dict[str, int] = {}
        cache.kind(*DEFINITIONS).listen("*", self._definition_changed)
        cache.kind(*LEARNED).listen("*", self._learned_changed)
        cache.kind(*KIND).listen(ROOT, self._cluster_changed)

    def get(self, name: str) -> LogicalCluster | None:
        found = self._known.get(name)
        if found is None:
            entry = self._cache.kind(*KIND).get(ROOT, "", name)
            if entry is None:
                return None
            found = self._known[name] = _read(entry)
        return found

    def names(self) -> list[str]:
        return [entry.name for entry in self._cache.kind(*KIND).table(ROOT).select("")]

    def registry(self, cluster: LogicalCluster) -> Registry:
        registry = self._registries.get(cluster.name)
        if registry is None:
            registry = self._registries[cluster.name] = self._build(cluster)
        return registry

    def builtin(self, group: str, version: str, plural: str) -> Resource | None:
        """For the wildcard view: a kind that clusters serve, though root may not."""
        return self._untouched("cluster").find(group, version, plural)

    def generation(self, name: str) -> int:
        """Changes whenever what the cluster serves does."""
        return self._generations.get(name, 0)

    def _build(self, cluster: LogicalCluster) -> Registry:
        kind = self._cache.kind(*DEFINITIONS)
        definitions = kind.table(cluster.name).select("")
        removed = any(where == cluster.name for where, _ in kind.removed)
        learned = self._learned(cluster)
        if cluster.name != ROOT and not removed and not learned and all(entry.virtual for entry in definitions):
            return self._untouched(cluster.profile)
        custom = [resource for entry in definitions for resource in self._defined(entry)]
        custom.sort(key=lambda resource: resource.group not in LISTED_FIRST)
        return Registry([*self._shared(cluster.profile), *learned, *custom])

    def _learned(self, cluster: LogicalCluster) -> list[Resource]:
        if cluster.profile != "hub":
            return []
        found = [taught(entry) for entry in self._cache.kind(*LEARNED).table(cluster.name).select("")]
        return [resource for resource in found if resource is not None]

    def _untouched(self, profile: str) -> Registry:
        """What a cluster serves whose definitions are those it started with."""
        whole = self._whole.get(profile)
        if whole is None:
            whole = self._whole[profile] = Registry([*self._shared(profile), *self._own(profile)])
        return whole

    def _shared(self, profile: str) -> Registry:
        plain = self._plain.get(profile)
        if plain is None:
            plain = self._plain[profile] = Registry(self._builtins(profile))
        return plain

    def _definition_changed(self, change: Change) -> None:
        self._registries.pop(change.cluster, None)
        self._generations[change.cluster] = change.revision

    def _learned_changed(self, change: Change) -> None:
        if taught(change.old) is not taught(change.new):
            self._definition_changed(change)

    def _cluster_changed(self, change: Change) -> None:
        self._known.pop(change.last.name, None)
        self._registries.pop(change.last.name, None)
        if change.new is None:
            self._cache.drop(change.last.name)


def _read(entry: Entry) -> LogicalCluster:
    obj = entry.object()
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    return LogicalCluster(
        name=entry.name,
        uid=metadata["uid"],
        created=metadata["creationTimestamp"],
        revision=entry.revision,
        profile=spec.get("profile", "hub"),
        version=spec.get("version", ""),
        terminating="deletionTimestamp" in metadata,
    )
