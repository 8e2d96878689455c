"""Decides which imports of a workload Cluster are created, updated and deleted, from the offered APIs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds import apiresource, workload
from shoal.kinds.apiresource import Api

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """One API as a cluster offers it."""

    api: Api
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
class Decision:
    create: tuple[Object, ...] = ()
    update: tuple[Object, ...] = ()
    gone: tuple[Object, ...] = field(default=())
    """Imports of APIs that are no longer offered, provided discovery was complete."""


def decide(cluster: Object, offers: Sequence[Offer], imports: Sequence[Object]) -> Decision:
    """`offers` are all requested APIs that were found."""
    name = cluster["metadata"]["name"]
    existing = {found["metadata"]["name"]: found for found in imports}
    create, update = [], []
    for offer in offers:
        title = apiresource.import_name(offer.api, name)
        found = existing.pop(title, None)
        if found is None:
            create.append(_import(cluster, title, _spec(offer, name)))
            continue
        kept = {key: value for key, value in found["spec"].items() if key != "openAPIV3Schema"}
        spec = {**kept, **_spec(offer, name)}
        if spec != found["spec"]:
            update.append({**found, "spec": spec})
    return Decision(tuple(create), tuple(update), tuple(existing.values()))


def stored(offer: Offer) -> Object:
    """The object that stores the schema of an offer, once for all clusters that have it."""
    return {
        "apiVersion": f"{apiresource.GROUP}/{apiresource.VERSION}",
        "kind": apiresource.SCHEMA,
        "metadata": {"name": offer.digest},
        "spec": {"firstFor": apiresource.negotiated_name(offer.api), "openAPIV3Schema": offer.schema},
    }


def _import(cluster: Object, title: str, spec: Object) -> Object:
    name = cluster["metadata"]["name"]
    owner = {
        "apiVersion": f"{workload.GROUP}/{workload.VERSION}",
        "kind": workload.KIND,
        "name": name,
        "uid": cluster["metadata"]["uid"],
    }
    group = spec["groupVersion"]["group"]
    api_version = f"{group}/{spec['groupVersion']['version']}" if group else spec["groupVersion"]["version"]
    return {
        "apiVersion": f"{apiresource.GROUP}/{apiresource.VERSION}",
        "kind": apiresource.IMPORT,
        "metadata": {
            "name": title,
            "labels": {workload.ASSIGNED: name},
            "annotations": {apiresource.API_VERSION: api_version},
            "ownerReferences": [owner],
        },
        "spec": {**spec, "schemaUpdateStrategy": apiresource.UNPUBLISHED},
    }


def _spec(offer: Offer, location: str) -> Object:
    """The schema is stored separately by its digest: it is large, and most clusters have the same."""
    return {
        "location": location,
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
