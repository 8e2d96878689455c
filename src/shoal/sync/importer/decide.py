"""Decides which imports of a workload Cluster are created, updated and deleted, from the offered APIs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.workload import apiresource, workloadcluster
from shoal.kinds.workload.apiresource import GVR

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """One API as a cluster offers it."""

    api: GVR
    kind: str
    namespaced: bool
    schema: Object
    digest: str
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Object, ...] = ()
    columns: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportDecision:
    create: tuple[Object, ...] = ()
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = field(default=())
    """Imports of APIs that are no longer offered, provided discovery was complete."""


def decide(cluster: Object, offers: Sequence[Offer], imports: Sequence[Object]) -> ImportDecision:
    """`offers` are all requested APIs that were found."""
    name = cluster["metadata"]["name"]
    existing = {current["metadata"]["name"]: current for current in imports}
    create, update = [], []
    for offer in offers:
        import_name = apiresource.import_name(offer.api, name)
        current = existing.pop(import_name, None)
        if current is None:
            create.append(_import(cluster, import_name, _spec(offer, name)))
            continue
        preserved = {key: value for key, value in current["spec"].items() if key != "openAPIV3Schema"}
        spec = {**preserved, **_spec(offer, name)}
        if spec != current["spec"]:
            update.append({**current, "spec": spec})
    return ImportDecision(tuple(create), tuple(update), tuple(existing.values()))


def schema_object(offer: Offer) -> Object:
    """The object that stores the schema of an offer, once for all clusters that have it."""
    return {
        "apiVersion": f"{apiresource.GROUP}/{apiresource.VERSION}",
        "kind": apiresource.SCHEMA_KIND,
        "metadata": {"name": offer.digest},
        "spec": {"firstFor": apiresource.negotiated_name(offer.api), "openAPIV3Schema": offer.schema},
    }


def _import(cluster: Object, title: str, spec: Object) -> Object:
    name = cluster["metadata"]["name"]
    owner = {
        "apiVersion": f"{workloadcluster.GROUP}/{workloadcluster.VERSION}",
        "kind": workloadcluster.KIND,
        "name": name,
        "uid": cluster["metadata"]["uid"],
    }
    group = spec["groupVersion"]["group"]
    api_version = f"{group}/{spec['groupVersion']['version']}" if group else spec["groupVersion"]["version"]
    return {
        "apiVersion": f"{apiresource.GROUP}/{apiresource.VERSION}",
        "kind": apiresource.IMPORT_KIND,
        "metadata": {
            "name": title,
            "labels": {workloadcluster.CLUSTER_LABEL: name},
            "annotations": {apiresource.API_VERSION_ANNOTATION: api_version},
            "ownerReferences": [owner],
        },
        "spec": {**spec, "schemaUpdateStrategy": apiresource.UPDATE_UNPUBLISHED},
    }


def _spec(offer: Offer, cluster_name: str) -> Object:
    """The schema is stored separately by its digest: it is large, and most clusters have the same."""
    return {
        "location": cluster_name,
        "groupVersion": {"group": offer.api.group, "version": offer.api.version},
        "scope": "Namespaced" if offer.namespaced else "Cluster",
        "plural": offer.api.plural,
        "singular": offer.singular,
        "kind": offer.kind,
        "listKind": offer.list_kind or f"{offer.kind}List",
        "shortNames": list(offer.short_names),
        "categories": list(offer.categories),
        "schemaDigest": offer.digest,
        "subResources": list(offer.subresources),
        "columnDefinitions": list(offer.columns),
    }
