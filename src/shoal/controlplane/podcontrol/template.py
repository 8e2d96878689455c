"""Builds a pod from an owner's template. Pure."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def pod_from_template(owner: Object, reference: Object) -> Object:
    template = owner["spec"]["template"]
    template_metadata = template.get("metadata") or {}
    metadata = {
        field: template_metadata[field]
        for field in ("labels", "annotations", "finalizers")
        if template_metadata.get(field)
    }
    metadata |= {"generateName": f"{owner['metadata']['name']}-", "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
