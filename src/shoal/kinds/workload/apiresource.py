"""The kinds of apiresource.kcp.dev: names and accessors. Their CRDs are in `crds/root`."""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.kinds.catalogue import find_builtin
from shoal.objects.conditions import get_condition

Object = dict[str, Any]

GROUP = "apiresource.kcp.dev"
VERSION = "v1alpha1"
IMPORT_KIND, IMPORT_PLURAL = "APIResourceImport", "apiresourceimports"
NEGOTIATED_KIND, NEGOTIATED_PLURAL = "NegotiatedAPIResource", "negotiatedapiresources"
SCHEMA_KIND, SCHEMA_PLURAL = "APIResourceSchema", "apiresourceschemas"
"""An APIResourceSchema is named by its digest. Imports refer to it."""

API_VERSION_ANNOTATION = "apiresource.kcp.dev/apiVersion"
"""Annotation: group and version of the API the object is about."""

FROM_IMPORTS_ANNOTATION = "apiresource.kcp.dev/from-imports"
"""Annotation of objects that negotiation created. Negotiation deletes them when no cluster offers the API any more."""

COMPATIBLE, AVAILABLE = "Compatible", "Available"
"""Conditions of an import: compatible with the negotiated schema; served by the hub."""
SUBMITTED, PUBLISHED, ENFORCED = "Submitted", "Published", "Enforced"
"""Conditions of a NegotiatedAPIResource: publishing is requested; the hub serves it; a CRD created by a user
decides.
"""

NOT_REQUESTED, CANNOT_BE_SERVED, DEFINITION_REFUSED = "NotAsked", "CannotBeServed", "DefinitionRefused"
PERMANENT_REASONS = (NOT_REQUESTED, CANNOT_BE_SERVED, DEFINITION_REFUSED)
"""Reasons for not being available that only a user can change."""

SCHEMA_UNKNOWN = "SchemaUnknown"
"""Reason of an import that is not Compatible yet: its APIResourceSchema does not exist."""

UPDATE_NEVER, UPDATE_UNPUBLISHED, UPDATE_PUBLISHED = "UpdateNever", "UpdateUnpublished", "UpdatePublished"
"""When an import may change the negotiated schema: never, while it is not published, always."""

COMMON_SPEC_FIELDS = (
    *("groupVersion", "scope", "plural", "singular", "shortNames", "kind", "listKind", "categories"),
    *("openAPIV3Schema", "schemaDigest", "subResources", "columnDefinitions"),
)
"""The spec fields a NegotiatedAPIResource copies from an import."""


class GVR(NamedTuple):
    """Group, version and plural of an import or a NegotiatedAPIResource."""

    group: str
    version: str
    plural: str

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`deployments.apps`. Resources of the core group have no suffix."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def gvr_of(obj: Object) -> GVR:
    spec = obj["spec"]
    return GVR(spec["groupVersion"].get("group", ""), spec["groupVersion"]["version"], spec["plural"])


def is_builtin(api: GVR) -> bool:
    """Reports whether Kubernetes itself has the resource."""
    try:
        find_builtin(*api)
    except KeyError:
        return False
    return True


def import_name(api: GVR, location: str) -> str:
    return f"{api.plural}.{location}.{api.version}.{api.group or 'core'}"


def negotiated_name(api: GVR) -> str:
    return f"{api.plural}.{api.version}.{api.group or 'core'}"


def is_negotiated(api_import: Object) -> bool:
    """Reports whether negotiation has decided about the current generation of an import."""
    compatible, available = get_condition(api_import, COMPATIBLE), get_condition(api_import, AVAILABLE)
    if compatible is None or available is None or compatible["status"] == "Unknown":
        return False
    if compatible.get("observedGeneration") != api_import["metadata"].get("generation"):
        return False
    return compatible["status"] == "False" or available["status"] == "True" or available["reason"] in PERMANENT_REASONS


def has_subresource(obj: Object, name: str) -> bool:
    return any(sub["name"] == name for sub in obj["spec"].get("subResources") or ())


def parse_resource(text: str) -> tuple[str, str]:
    """Returns plural and group of an entry of `--resources-to-sync`: `deployments.apps`, `pods`, `pods.core`; `*` is
    all.
    """
    if text == "*":
        return "*", "*"
    plural, _, group = text.partition(".")
    return plural, "" if group == "core" else group
