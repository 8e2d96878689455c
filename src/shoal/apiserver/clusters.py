"""Logical clusters: which exist, and what each serves.

`root` always exists. Any other cluster exists exactly as long as its `LogicalCluster` object in root. A cluster's
registry is the shared registry of its profile and Kubernetes version plus its own CRDs; a hub adds its negotiated
resources and mirrored pods. The registry is rebuilt lazily after one of them changes. An idle cluster drops all derived
state, and its first request rebuilds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shoal.apiserver import mirrored
from shoal.apiserver.cache import Cache, Change, Entry
from shoal.apiserver.learned import LEARNED, taught
from shoal.apiserver.paths import ROOT
from shoal.apiserver.registry import Registry, Resource
from shoal.kinds import workload
from shoal.kinds.logicalcluster import GROUP, PLURAL, restored_above, token_keys
from shoal.kinds.versions import NEWEST, minor_of

KIND = (GROUP, PLURAL)
DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
LISTED_FIRST = (workload.GROUP,)
"""Groups that discovery lists before other custom groups: the short name `clusters` means theirs."""


@dataclass(frozen=True, slots=True)
class LogicalCluster:
    name: str
    uid: str
    created: str
    revision: int
    profile: str
    version: str
    terminating: bool = False
    oldest: int = 0
    """Older revisions belong to the server the cluster was on before."""
    token_keys: tuple[str, ...] = ()
    """Public keys of the servers the cluster was on before."""


Offer = tuple[str, int]
"""A profile and a minor version of Kubernetes."""


class Definitions(Protocol):
    def own(self, profile: str) -> list[Resource]:
        """Resources of the CRDs a cluster of the profile starts with."""

    def resources(self, cluster: str, entry: Entry) -> list[Resource]:
        """Resources of one CustomResourceDefinition of the cluster."""

    def forget(self, cluster: str, name: str = "") -> None: ...


class Clusters:
    def __init__(self, cache: Cache, builtins: Callable[[str, int], list[Resource]], definitions: Definitions) -> None:
        """`builtins` returns the resources of a profile at a minor version."""
        self._cache = cache
        self._builtins = builtins
        self._definitions = definitions
        self._whole: dict[Offer, Registry] = {}
        self._plain: dict[Offer, Registry] = {}
        self._registries: dict[str, Registry] = {}
        self._known: dict[str, LogicalCluster] = {}
        self._gone: list[Callable[[str], None]] = []
        self.asked: set[str] = set()
        """Clusters looked up since the set was last emptied."""
        cache.kind(*DEFINITIONS).listen("*", self._definition_changed)
        cache.kind(*LEARNED).listen("*", self._learned_changed)
        cache.kind(*mirrored.ASKING).listen("*", self._asking_changed)
        cache.kind(*KIND).listen(ROOT, self._cluster_changed)

    def get(self, name: str) -> LogicalCluster | None:
        found = self._known.get(name)
        if found is None:
            entry = self._cache.kind(*KIND).get(ROOT, "", name)
            if entry is None:
                return None
            found = self._known[name] = _read(entry)
        self.asked.add(name)
        return found

    def on_gone(self, forget: Callable[[str], None]) -> None:
        """Registers a handler that gets the name of every deleted cluster."""
        self._gone.append(forget)

    def sleep(self, name: str) -> None:
        """Drops derived state that the next request rebuilds."""
        self._known.pop(name, None)
        self._registries.pop(name, None)
        self._definitions.forget(name)

    def names(self) -> list[str]:
        return [entry.name for entry in self._cache.kind(*KIND).table(ROOT).select("")]

    def registry(self, cluster: LogicalCluster) -> Registry:
        registry = self._registries.get(cluster.name)
        if registry is None:
            registry = self._registries[cluster.name] = self._build(cluster)
        return registry

    def builtin(self, group: str, version: str, plural: str) -> Resource | None:
        """For the wildcard view: a resource that clusters serve, even if root does not."""
        return self._untouched(("cluster", NEWEST)).find(group, version, plural)

    def _build(self, cluster: LogicalCluster) -> Registry:
        kind, name = self._cache.kind(*DEFINITIONS), cluster.name
        offer = cluster.profile, minor_of(cluster.version) or NEWEST
        definitions = kind.table(name).select("")
        learned = self._learned(cluster)
        changed = name in kind.removed or not all(entry.virtual for entry in definitions)
        if name != ROOT and not changed and not learned:
            return self._untouched(offer)
        custom = [resource for entry in definitions for resource in self._definitions.resources(name, entry)]
        custom.sort(key=lambda resource: resource.group not in LISTED_FIRST)
        return Registry([*self._shared(offer), *learned, *custom])

    def _learned(self, cluster: LogicalCluster) -> list[Resource]:
        if cluster.profile != "hub":
            return []
        found = [taught(entry) for entry in self._cache.kind(*LEARNED).table(cluster.name).select("")]
        shown = [mirrored.pods()] if mirrored.is_served(self._cache, cluster.name) else []
        return [*shown, *(resource for resource in found if resource is not None)]

    def _untouched(self, offer: Offer) -> Registry:
        """The registry of a cluster whose CRDs are those it started with."""
        whole = self._whole.get(offer)
        if whole is None:
            whole = self._whole[offer] = Registry([*self._shared(offer), *self._definitions.own(offer[0])])
        return whole

    def _shared(self, offer: Offer) -> Registry:
        plain = self._plain.get(offer)
        if plain is None:
            plain = self._plain[offer] = Registry(self._builtins(*offer))
        return plain

    def _definition_changed(self, change: Change) -> None:
        self._registries.pop(change.cluster, None)
        if change.new is None:
            self._definitions.forget(change.cluster, change.last.name)

    def _learned_changed(self, change: Change) -> None:
        if taught(change.old) is not taught(change.new):
            self._registries.pop(change.cluster, None)

    def _asking_changed(self, change: Change) -> None:
        if mirrored.asks(change.old) != mirrored.asks(change.new):
            self._registries.pop(change.cluster, None)

    def _cluster_changed(self, change: Change) -> None:
        """A new profile or version means a new registry. Open watches continue."""
        name = change.last.name
        self._known.pop(name, None)
        self._registries.pop(name, None)
        if change.new is None:
            self.sleep(name)
            self.asked.discard(name)
            self._cache.drop(name)
            for forget in self._gone:
                forget(name)


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
        oldest=above + 1 if (above := restored_above(obj)) else 0,
        token_keys=token_keys(obj),
    )
