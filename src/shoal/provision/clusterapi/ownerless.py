"""Machines that are of no MachineDeployment: made for one NodeClaim from the templates its node class names. Pure.

The Machine comes first and owns the rest, so that whatever was made of it goes with it. Its name follows from the
NodeClaim: made again, it is found to be there.
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
"""On an infrastructure template: the Secret with the bootstrap data of Machines made from it."""
TEMPLATE_HASH = f"{CLASS_GROUP}/machine-template-hash"
"""On a Machine: of all that it was made from."""
_LONGEST = 63
_REPLACED = ("version", "failureDomain")
"""What of a machine template a Machine has itself; the rest is what nodes of it are said to be."""


def machine_name(home: Home, claim: Object) -> str:
    """The same for the same NodeClaim, another for one of the same name that comes after it."""
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
    """What a Machine refers to; `reference`: to the template."""
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
    """To a template of bootstrap configurations."""
    found: Object | None = (entry.get("bootstrap") or {}).get("configRef")
    return found


def fingerprint(entry: Object, template: Object, bootstrap: Object | None) -> str:
    """Of what makes a machine outdated when it changes; labels, prices and sizes are only said of it."""
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
