"""The kinds of apiresource.kcp.dev: names and accessors. Their CRDs are in `crds/root`."""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.kinds.builtin import builtin
from shoal.objects.conditions import get_condition

Object = dict[str, Any]

GROUP = "apiresource.kcp.dev"
VERSION = "v1alpha1"
IMPORT, IMPORTS = "APIResourceImport", "apiresourceimports"
NEGOTIATED, NEGOTIATED_PLURAL = "NegotiatedAPIResource", "negotiatedapiresources"
SCHEMA, SCHEMAS = "APIResourceSchema", "apiresourceschemas"
"""An APIResourceSchema is named by its digest. Imports refer to it."""

API_VERSION = "apiresource.kcp.dev/apiVersion"
"""Annotation: group and version of the API the object is about."""

FROM_IMPORTS = "apiresource.kcp.dev/from-imports"
"""Annotation of objects that negotiation created. Negotiation deletes them when no cluster offers the API any more."""

COMPATIBLE, AVAILABLE = "Compatible", "Available"
"""Conditions of an import: compatible with the negotiated schema; served by the hub."""
SUBMITTED, PUBLISHED, ENFORCED = "Submitted", "Published", "Enforced"
"""Conditions of a NegotiatedAPIResource: publishing is requested; the hub serves it; a CRD created by a user
decides.
"""

NOT_ASKED, CANNOT_BE_SERVED, REFUSED = "NotAsked", "CannotBeServed", "DefinitionRefused"
FINAL = (NOT_ASKED, CANNOT_BE_SERVED, REFUSED)
"""Reasons for not being available that only a user can change."""

SCHEMA_UNKNOWN = "SchemaUnknown"
"""Reason of an import that is not Compatible yet: its APIResourceSchema does not exist."""

NEVER, UNPUBLISHED, ALWAYS = "UpdateNever", "UpdateUnpublished", "UpdatePublished"
"""When an import may change the negotiated schema: never, while it is not published, always."""

COMMON = (
    *("groupVersion", "scope", "plural", "singular", "shortNames", "kind", "listKind", "categories"),
    *("openAPIV3Schema", "schemaDigest", "subResources", "columnDefinitions"),
)
"""The spec fields a NegotiatedAPIResource copies from an import."""


class Api(NamedTuple):
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


def api_of(obj: Object) -> Api:
    spec = obj["spec"]
    return Api(spec["groupVersion"].get("group", ""), spec["groupVersion"]["version"], spec["plural"])


def is_known(api: Api) -> bool:
    """Reports whether Kubernetes itself has the resource."""
    try:
        builtin(*api)
    except KeyError:
        return False
    return True


def import_name(api: Api, location: str) -> str:
    return f"{api.plural}.{location}.{api.version}.{api.group or 'core'}"


def negotiated_name(api: Api) -> str:
    return f"{api.plural}.{api.version}.{api.group or 'core'}"


def is_settled(offered: Object) -> bool:
    """Reports whether negotiation has decided about the current generation of an import."""
    compatible, available = get_condition(offered, COMPATIBLE), get_condition(offered, AVAILABLE)
    if compatible is None or available is None or compatible["status"] == "Unknown":
        return False
    if compatible.get("observedGeneration") != offered["metadata"].get("generation"):
        return False
    return compatible["status"] == "False" or available["status"] == "True" or available["reason"] in FINAL


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
