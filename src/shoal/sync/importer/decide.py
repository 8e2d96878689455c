"""What the imports of one workload Cluster have to become, from what the cluster offers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    subresources: tuple[str, ...] = ()
    columns: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    create: tuple[Object, ...] = ()
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = field(default=())


def decide(
    cluster: Object, offers: Sequence[Offer], imports: Sequence[Object], negotiated: Mapping[Api, str]
) -> Decision:
    """`offers` is all that was asked for and found; `negotiated` the digests of the negotiated schemas."""
    name = cluster["metadata"]["name"]
    existing = {found["metadata"]["name"]: found for found in imports}
    create, update = [], []
    for offer in offers:
        title = apiresource.import_name(offer.api, name)
        found = existing.pop(title, None)
        known = negotiated.get(offer.api) == offer.digest
        if found is None:
            create.append(_import(cluster, title, _spec(offer, name, whole=not known)))
            continue
        had = found["spec"]
        whole = not known or (had.get("schemaDigest") == offer.digest and "openAPIV3Schema" in had)
        spec = {**had, **_spec(offer, name, whole)}
        if not whole:
            spec.pop("openAPIV3Schema", None)
        if spec != had:
            update.append({**found, "spec": spec})
    return Decision(tuple(create), tuple(update), tuple(existing.values()))


def _import(cluster: Object, title: str, spec: Object) -> Object:
    owner = {
        "apiVersion": f"{workload.GROUP}/{workload.VERSION}",
        "kind": workload.KIND,
        "name": cluster["metadata"]["name"],
        "uid": cluster["metadata"]["uid"],
    }
    group = spec["groupVersion"]["group"]
    api_version = f"{group}/{spec['groupVersion']['version']}" if group else spec["groupVersion"]["version"]
    return {
        "apiVersion": f"{apiresource.GROUP}/{apiresource.VERSION}",
        "kind": apiresource.IMPORT,
        "metadata": {
            "name": title,
            "annotations": {apiresource.API_VERSION: api_version},
            "ownerReferences": [owner],
        },
        "spec": {**spec, "schemaUpdateStrategy": "UpdateUnpublished"},
    }


def _spec(offer: Offer, location: str, whole: bool) -> Object:
    """The schema only where it is not the negotiated one: it is large, and most clusters have the same."""
    spec: Object = {
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
        "subResources": [{"name": name} for name in offer.subresources],
        "columnDefinitions": list(offer.columns),
    }
    return {**spec, "openAPIV3Schema": offer.schema} if whole else spec
