"""Builds standalone Machines for one NodeClaim from the templates of its node class. Pure.

The Machine is created first and owns the other objects, so they are garbage collected with it. Its name is derived from
the NodeClaim, so a repeated creation finds it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from shoal.kinds.clusterapi import capi
from shoal.kinds.karpenter.karpenter import NODE_CLAIM_ANNOTATION, NODE_CLAIM_UID_ANNOTATION, NODE_CLASS_GROUP
from shoal.provision.management import CAPIClusterRef

Object = dict[str, Any]

BOOTSTRAP_SECRET = f"{NODE_CLASS_GROUP}/bootstrap-data-secret"
"""Annotation of an infrastructure template: Secret with the bootstrap data of its Machines."""
TEMPLATE_HASH = f"{NODE_CLASS_GROUP}/machine-template-hash"
"""Annotation of a Machine: hash of the templates it was created from."""
_MAX_NAME_LENGTH = 63
_MACHINE_FIELDS = ("version", "failureDomain")
"""Fields of a machine template that are copied to the Machine; the rest only describes its nodes."""


def machine_name(capi_cluster: CAPIClusterRef, claim: Object) -> str:
    """Deterministic for a NodeClaim; differs for a later NodeClaim of the same name."""
    metadata = claim["metadata"]
    digest = hashlib.sha256(f"{capi_cluster.name}/{metadata['name']}/{metadata['uid']}".encode()).hexdigest()[:8]
    base_name = f"{capi_cluster.name}-{metadata['name']}".replace(".", "-")
    return f"{base_name[: _MAX_NAME_LENGTH - 1 - len(digest)].rstrip('-')}-{digest}"


def new_machine(
    capi_cluster: CAPIClusterRef, claim: Object, entry: Object, template: Object, bootstrap: Object | None
) -> Object:
    name, reference = machine_name(capi_cluster, claim), entry["infrastructureRef"]
    spec: Object = {field: entry[field] for field in _MACHINE_FIELDS if entry.get(field)}
    entry_labels = {key: value for key, value in (entry.get("labels") or {}).items() if key != capi.KARPENTER_MEMBER}
    return {
        "apiVersion": capi.API_VERSION,
        "kind": capi.MACHINE,
        "metadata": {
            "namespace": capi_cluster.namespace,
            "name": name,
            "labels": {
                **capi.node_labels(entry_labels),
                capi.CLUSTER_NAME: capi_cluster.name,
                capi.KARPENTER_MEMBER: "",
            },
            "annotations": {
                NODE_CLAIM_ANNOTATION: claim["metadata"]["name"],
                NODE_CLAIM_UID_ANNOTATION: claim["metadata"]["uid"],
                TEMPLATE_HASH: template_hash(entry, template, bootstrap),
            },
        },
        "spec": {
            **spec,
            "clusterName": capi_cluster.name,
            "bootstrap": _bootstrap_spec(entry, template, name),
            "infrastructureRef": cloned_reference(reference, name),
        },
    }


def clone_template(template: Object, reference: Object, machine: Object) -> Object:
    """Object that a Machine references. `reference`: to the template."""
    body = (template.get("spec") or {}).get("template") or {}
    metadata, machine_metadata = body.get("metadata") or {}, machine["metadata"]
    clone_annotations = {
        capi.CLONED_FROM_NAME: template["metadata"]["name"],
        capi.CLONED_FROM_GROUP_KIND: f"{reference['kind']}.{reference['apiGroup']}",
    }
    return {
        "apiVersion": template["apiVersion"],
        "kind": cloned_reference(reference, "")["kind"],
        "metadata": {
            "namespace": machine_metadata["namespace"],
            "name": machine_metadata["name"],
            "labels": {**(metadata.get("labels") or {}), capi.CLUSTER_NAME: capi.cluster_name(machine)},
            "annotations": {**(metadata.get("annotations") or {}), **clone_annotations},
            "ownerReferences": [
                capi.owner_reference(machine, capi.API_VERSION, capi.MACHINE, controller=True),
            ],
        },
        "spec": body.get("spec") or {},
    }


def cloned_reference(reference: Object, name: str) -> Object:
    kind = str(reference["kind"]).removesuffix(capi.TEMPLATE_SUFFIX)
    return {"apiGroup": reference["apiGroup"], "kind": kind, "name": name}


def bootstrap_reference(entry: Object) -> Object | None:
    """Reference to a template of bootstrap configurations."""
    reference: Object | None = (entry.get("bootstrap") or {}).get("configRef")
    return reference


def template_hash(entry: Object, template: Object, bootstrap: Object | None) -> str:
    """Hash of the fields whose change makes a machine outdated. Labels, prices and sizes do not."""
    references = [entry.get("infrastructureRef"), bootstrap_reference(entry)]
    fields = {field: entry.get(field) for field in _MACHINE_FIELDS}
    bodies = [(each.get("spec") or {}).get("template") for each in (template, bootstrap or {})]
    data = orjson.dumps([references, fields, bodies], option=orjson.OPT_SORT_KEYS)
    return str(int(hashlib.sha256(data).hexdigest()[:15], 16))


def _bootstrap_spec(entry: Object, template: Object, name: str) -> Object:
    reference = bootstrap_reference(entry)
    if reference is not None:
        return {"configRef": cloned_reference(reference, name)}
    secret = capi.annotations_of(template).get(BOOTSTRAP_SECRET)
    return {"dataSecretName": secret} if secret else {}
