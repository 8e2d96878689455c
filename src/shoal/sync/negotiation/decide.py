"""What is negotiated for one API, from the imports of it. Pure.

The first import is what is negotiated; the others are compared with it. A narrower common schema would be found here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds import apiresource
from shoal.kinds.apiresource import API_VERSION, COMMON, FROM_IMPORTS, Api
from shoal.sync.conditions import Condition
from shoal.sync.negotiation.compat import problems

Object = dict[str, Any]

MOST_PROBLEMS = 5
DIGEST = "apiresource.kcp.dev/schema-digest"


@dataclass(frozen=True, slots=True)
class Served:
    """How the hub serves the API now."""

    by_itself: bool = False
    """It is a kind Kubernetes knows: publishing is enough."""
    listed: bool = False
    """Discovery lists it."""
    definition: Object | None = None
    """The CRD of that name."""


@dataclass(frozen=True, slots=True)
class Decision:
    negotiated: Sequence[Condition] = ()
    imports: dict[str, list[Condition]] = field(default_factory=dict)
    """Conditions by the import's name."""
    definition: Object | None = None
    """The CRD to write, where there has to be one."""


def first(api: Api, imports: Sequence[Object], publish: bool) -> Object | None:
    """The negotiated resource to begin with; None while no import tells a schema."""
    whole = [found for found in imports if "openAPIV3Schema" in found["spec"]]
    if not whole:
        return None
    oldest = min(whole, key=lambda found: (found["metadata"]["creationTimestamp"], found["metadata"]["name"]))
    return {
        "apiVersion": f"{apiresource.GROUP}/{apiresource.VERSION}",
        "kind": apiresource.NEGOTIATED,
        "metadata": {
            "name": apiresource.negotiated_name(api),
            "annotations": {API_VERSION: api.group_version, FROM_IMPORTS: "true"},
        },
        "spec": {"publish": publish, **{key: oldest["spec"][key] for key in COMMON if key in oldest["spec"]}},
    }


def decide(negotiated: Object, imports: Sequence[Object], served: Served) -> Decision:
    published = _published(negotiated, served)
    found = {}
    for offered in imports:
        compatible = _compatible(negotiated, offered)
        available = Condition(apiresource.AVAILABLE, published.status, published.reason, published.message)
        found[offered["metadata"]["name"]] = [compatible, available]
    submitted = Condition(apiresource.SUBMITTED, "True", "Submitted")
    if not negotiated["spec"].get("publish"):
        submitted = Condition(apiresource.SUBMITTED, "False", apiresource.NOT_ASKED, "spec.publish is false")
    enforced = Condition(apiresource.ENFORCED, "False", "Negotiated")
    if is_manual(served.definition):
        enforced = Condition(apiresource.ENFORCED, "True", "ManualDefinition", "a CRD made by hand decides")
    return Decision([submitted, published, enforced], found, _definition(negotiated, served))


def is_manual(definition: Object | None) -> bool:
    """Whether somebody else made the CRD: it is never written."""
    return definition is not None and FROM_IMPORTS not in (definition["metadata"].get("annotations") or {})


def is_withdrawable(negotiated: Object, imports: Sequence[Object]) -> bool:
    """Whether negotiation made it, of imports that are all gone."""
    return not imports and FROM_IMPORTS in (negotiated["metadata"].get("annotations") or {})


def _compatible(negotiated: Object, offered: Object) -> Condition:
    agreed, spec = negotiated["spec"], offered["spec"]
    if spec.get("schemaDigest") and spec.get("schemaDigest") == agreed.get("schemaDigest"):
        wrong = []
    elif "openAPIV3Schema" not in spec:
        return Condition(apiresource.COMPATIBLE, "Unknown", "SchemaUnknown", "the importer has not told the schema yet")
    else:
        wrong = problems(agreed.get("openAPIV3Schema") or {}, spec["openAPIV3Schema"])
    wrong += [
        f"{key} is {spec.get(key)}, not {agreed.get(key)}" for key in ("scope", "kind") if spec[key] != agreed[key]
    ]
    missing = _subresources(negotiated) - _subresources(offered)
    wrong += [f"the subresource {name} is not there" for name in sorted(missing)]
    if not wrong:
        return Condition(apiresource.COMPATIBLE, "True", "Compatible")
    said = "; ".join(wrong[:MOST_PROBLEMS])
    more = f"; and {len(wrong) - MOST_PROBLEMS} more" if len(wrong) > MOST_PROBLEMS else ""
    return Condition(apiresource.COMPATIBLE, "False", "IncompatibleSchema", said + more)


def _subresources(obj: Object) -> set[str]:
    return {sub["name"] for sub in obj["spec"].get("subResources") or ()}


def _published(negotiated: Object, served: Served) -> Condition:
    if served.listed and (negotiated["spec"].get("publish") or is_manual(served.definition)):
        return Condition(apiresource.PUBLISHED, "True", "Served")
    if not negotiated["spec"].get("publish"):
        return Condition(apiresource.PUBLISHED, "False", apiresource.NOT_ASKED, "spec.publish is false")
    if not served.by_itself and not negotiated["spec"]["groupVersion"].get("group"):
        said = "the core group can have no CRD, and Kubernetes knows no such kind"
        return Condition(apiresource.PUBLISHED, "False", apiresource.CANNOT_BE_SERVED, said)
    return Condition(apiresource.PUBLISHED, "False", "NotServedYet", "the hub does not list it yet")


def _definition(negotiated: Object, served: Served) -> Object | None:
    """The CRD as it has to be written; None where there is none to write."""
    spec = negotiated["spec"]
    group = spec["groupVersion"].get("group", "")
    if served.by_itself or not group or not spec.get("publish") or is_manual(served.definition):
        return None
    digest = spec.get("schemaDigest", "")
    old = served.definition
    if old is not None and old["metadata"]["annotations"].get(DIGEST) == digest:
        return None
    annotations = {FROM_IMPORTS: "true", DIGEST: digest}
    if group.endswith((".k8s.io", ".kubernetes.io")):
        annotations["api-approved.kubernetes.io"] = "unapproved, learned from a workload Cluster"
    version: Object = {
        "name": spec["groupVersion"]["version"],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": spec["openAPIV3Schema"]},
        "subresources": {name: _SUBRESOURCES[name] for name in sorted(_subresources(negotiated))},
        "additionalPrinterColumns": spec.get("columnDefinitions") or [],
    }
    names = {
        key: spec[key]
        for key in ("plural", "singular", "shortNames", "kind", "listKind", "categories")
        if spec.get(key)
    }
    made: Object = {"group": group, "scope": spec["scope"], "names": names, "versions": [version]}
    metadata: Object = {**(old["metadata"] if old is not None else {"name": f"{spec['plural']}.{group}"})}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": made,
    }


_SUBRESOURCES: Object = {
    "status": {},
    "scale": {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    },
}
