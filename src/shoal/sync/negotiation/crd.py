"""Builds the CRD that serves a negotiated kind that is not built in, in all its versions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.kinds.apiextensions.customresourcedefinition import version_priority
from shoal.kinds.apiextensions.openapi_import import schema_digest, strip_descriptions
from shoal.kinds.workload.apiresource import COMMON_SPEC_FIELDS, FROM_IMPORTS_ANNOTATION, GVR

Object = dict[str, Any]

SCHEMA_DIGEST_ANNOTATION = "apiresource.kcp.dev/schema-digest"
"""Annotation: digest of the spec the CRD was built from."""
NAMES = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_DEFAULT_SCALE: Object = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
"""Used if the cluster's CRD could not be read: discovery names no paths."""


def desired_crd(published: Sequence[Object], old: Object | None) -> Object | None:
    """The desired CRD for the negotiated resources of one kind; None if it is current."""
    ordered = sorted(
        (each["spec"] for each in published), key=lambda spec: version_priority(spec["groupVersion"]["version"])
    )
    newest = ordered[0]
    group = newest["groupVersion"]["group"]
    compatible = [spec for spec in ordered if all(spec[key] == newest[key] for key in ("kind", "scope"))]
    versions = [_crd_version(spec, storage=spec is newest) for spec in compatible]
    versions += _stored_versions(old, {version["name"] for version in versions})
    names = {key: newest[key] for key in NAMES if newest.get(key)}
    spec: Object = {"group": group, "scope": newest["scope"], "names": names, "versions": versions}
    digest = schema_digest(spec)
    if old is not None and (old["metadata"].get("annotations") or {}).get(SCHEMA_DIGEST_ANNOTATION) == digest:
        return None
    annotations = {FROM_IMPORTS_ANNOTATION: "true", SCHEMA_DIGEST_ANNOTATION: digest}
    if group.endswith((".k8s.io", ".kubernetes.io")):
        annotations["api-approved.kubernetes.io"] = "unapproved, learned from a workload Cluster"
    metadata: Object = {**(old["metadata"] if old is not None else {"name": f"{newest['plural']}.{group}"})}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def import_spec_from_crd(crd: Object, api: GVR, offered: Object) -> Object | None:
    """The API as a manual CRD defines it, in the fields of an import; None: the CRD does not serve that version."""
    version = next((one for one in crd["spec"]["versions"] if one["name"] == api.version and one.get("served")), None)
    if version is None:
        return None
    schema = strip_descriptions((version.get("schema") or {}).get("openAPIV3Schema") or {})
    names = {key: crd["spec"]["names"][key] for key in NAMES if key in crd["spec"]["names"]}
    spec = {key: offered[key] for key in COMMON_SPEC_FIELDS if key in offered} | names
    spec |= {"scope": crd["spec"]["scope"], "openAPIV3Schema": schema, "schemaDigest": schema_digest(schema)}
    spec["subResources"] = subresources_of(version)
    spec["columnDefinitions"] = version.get("additionalPrinterColumns") or []
    return spec


def subresources_of(version: Object) -> list[Object]:
    """Subresources of a CRD version, in the form of an import."""
    return [{"name": name, **options} for name, options in sorted((version.get("subresources") or {}).items())]


def _crd_version(spec: Object, storage: bool) -> Object:
    subresources = {
        sub["name"]: {key: sub[key] for key in _DEFAULT_SCALE if key in sub} for sub in spec.get("subResources") or ()
    }
    if subresources.get("scale") == {}:
        subresources["scale"] = _DEFAULT_SCALE
    return {
        "name": spec["groupVersion"]["version"],
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": spec["openAPIV3Schema"]},
        "subresources": subresources,
        "additionalPrinterColumns": spec.get("columnDefinitions") or [],
    }


def _stored_versions(old: Object | None, current_versions: set[str]) -> list[Object]:
    """Versions that objects may be stored in stay, but are no longer served."""
    stored = ((old or {}).get("status") or {}).get("storedVersions") or ()
    versions = old["spec"]["versions"] if old is not None else ()
    return [
        {**version, "served": False, "storage": False}
        for version in versions
        if version["name"] in stored and version["name"] not in current_versions
    ]
