"""Builds standalone Machines for one NodeClaim from the templates of its node class. Pure.

The Machine is created first and owns the other objects, so they are garbage collected with it. Its name is derived from
the NodeClaim, so a repeated creation finds it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from shoal.kinds import capi
from shoal.kinds.karpenter import CLAIMED_BY, CLAIMED_BY_UID, CLASS_GROUP
from shoal.provision.homes import Home

Object = dict[str, Any]

BOOTSTRAP_SECRET = f"{CLASS_GROUP}/bootstrap-data-secret"
"""Annotation of an infrastructure template: Secret with the bootstrap data of its Machines."""
TEMPLATE_HASH = f"{CLASS_GROUP}/machine-template-hash"
"""Annotation of a Machine: hash of the templates it was created from."""
_LONGEST = 63
_REPLACED = ("version", "failureDomain")
"""Fields of a machine template that are copied to the Machine; the rest only describes its nodes."""


def machine_name(home: Home, claim: Object) -> str:
    """Deterministic for a NodeClaim; differs for a later NodeClaim of the same name."""
    metadata = claim["metadata"]
    digest = hashlib.sha256(f"{home.name}/{metadata['name']}/{metadata['uid']}".encode()).hexdigest()[:8]
    named = f"{home.name}-{metadata['name']}".replace(".", "-")
    return f"{named[: _LONGEST - 1 - len(digest)].rstrip('-')}-{digest}"


def machine_of(home: Home, claim: Object, entry: Object, template: Object, bootstrap: Object | None) -> Object:
    name, reference = machine_name(home, claim), entry["infrastructureRef"]
    spec: Object = {field: entry[field] for field in _REPLACED if entry.get(field)}
    kept = {key: value for key, value in (entry.get("labels") or {}).items() if key != capi.KARPENTER_MEMBER}
    return {
        "apiVersion": capi.API_VERSION,
        "kind": capi.MACHINE,
        "metadata": {
            "namespace": home.namespace,
            "name": name,
            "labels": {**capi.node_labels(kept), capi.CLUSTER_NAME: home.name, capi.KARPENTER_MEMBER: ""},
            "annotations": {
                CLAIMED_BY: claim["metadata"]["name"],
                CLAIMED_BY_UID: claim["metadata"]["uid"],
                TEMPLATE_HASH: fingerprint(entry, template, bootstrap),
            },
        },
        "spec": {
            **spec,
            "clusterName": home.name,
            "bootstrap": _bootstrap(entry, template, name),
            "infrastructureRef": cloned_reference(reference, name),
        },
    }


def clone(template: Object, reference: Object, machine: Object) -> Object:
    """Object that a Machine references. `reference`: to the template."""
    body = (template.get("spec") or {}).get("template") or {}
    metadata, place = body.get("metadata") or {}, machine["metadata"]
    said = {
        capi.CLONED_FROM_NAME: template["metadata"]["name"],
        capi.CLONED_FROM_GROUP_KIND: f"{reference['kind']}.{reference['apiGroup']}",
    }
    return {
        "apiVersion": template["apiVersion"],
        "kind": cloned_reference(reference, "")["kind"],
        "metadata": {
            "namespace": place["namespace"],
            "name": place["name"],
            "labels": {**(metadata.get("labels") or {}), capi.CLUSTER_NAME: capi.cluster_name(machine)},
            "annotations": {**(metadata.get("annotations") or {}), **said},
            "ownerReferences": [
                capi.owner_reference(machine, capi.API_VERSION, capi.MACHINE, controller=True),
            ],
        },
        "spec": body.get("spec") or {},
    }


def cloned_reference(reference: Object, name: str) -> Object:
    kind = str(reference["kind"]).removesuffix(capi.TEMPLATE)
    return {"apiGroup": reference["apiGroup"], "kind": kind, "name": name}


def bootstrap_reference(entry: Object) -> Object | None:
    """Reference to a template of bootstrap configurations."""
    found: Object | None = (entry.get("bootstrap") or {}).get("configRef")
    return found


def fingerprint(entry: Object, template: Object, bootstrap: Object | None) -> str:
    """Hash of the fields whose change makes a machine outdated. Labels, prices and sizes do not."""
    references = [entry.get("infrastructureRef"), bootstrap_reference(entry)]
    fields = {field: entry.get(field) for field in _REPLACED}
    bodies = [(each.get("spec") or {}).get("template") for each in (template, bootstrap or {})]
    data = orjson.dumps([references, fields, bodies], option=orjson.OPT_SORT_KEYS)
    return str(int(hashlib.sha256(data).hexdigest()[:15], 16))


def _bootstrap(entry: Object, template: Object, name: str) -> Object:
    reference = bootstrap_reference(entry)
    if reference is not None:
        return {"configRef": cloned_reference(reference, name)}
    secret = capi.annotations_of(template).get(BOOTSTRAP_SECRET)
    return {"dataSecretName": secret} if secret else {}
