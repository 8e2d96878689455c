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
"""Named by its digest; imports refer to it."""

API_VERSION = "apiresource.kcp.dev/apiVersion"
"""Annotation: group and version of the API the object is about."""

FROM_IMPORTS = "apiresource.kcp.dev/from-imports"
"""Annotation of what negotiation made, and takes back when no cluster offers the API any more."""

COMPATIBLE, AVAILABLE = "Compatible", "Available"
"""Conditions of an import: it fits what was negotiated; the hub serves it."""
SUBMITTED, PUBLISHED, ENFORCED = "Submitted", "Published", "Enforced"
"""Conditions of a negotiated resource: publishing was asked for; the hub serves it; a CRD made by hand decides."""

NOT_ASKED, CANNOT_BE_SERVED, REFUSED = "NotAsked", "CannotBeServed", "DefinitionRefused"
FINAL = (NOT_ASKED, CANNOT_BE_SERVED, REFUSED)
"""Reasons for not being available that only a person changes."""

SCHEMA_UNKNOWN = "SchemaUnknown"
"""Reason of an import that is not Compatible yet: the schema it refers to is not there."""

NEVER, UNPUBLISHED, ALWAYS = "UpdateNever", "UpdateUnpublished", "UpdatePublished"
"""When an import may change what is negotiated: never, as long as that is not published, always."""

COMMON = (
    *("groupVersion", "scope", "plural", "singular", "shortNames", "kind", "listKind", "categories"),
    *("openAPIV3Schema", "schemaDigest", "subResources", "columnDefinitions"),
)
"""What a negotiated resource takes over from an import."""


class Api(NamedTuple):
    """What an import or a negotiated resource is about."""

    group: str
    version: str
    plural: str

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`deployments.apps`; kinds of the core group have no suffix."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def api_of(obj: Object) -> Api:
    spec = obj["spec"]
    return Api(spec["groupVersion"].get("group", ""), spec["groupVersion"]["version"], spec["plural"])


def is_known(api: Api) -> bool:
    """Whether it is a kind of Kubernetes itself."""
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
    """Whether negotiation has said of this state of an import what will become of it."""
    compatible, available = get_condition(offered, COMPATIBLE), get_condition(offered, AVAILABLE)
    if compatible is None or available is None or compatible["status"] == "Unknown":
        return False
    if compatible.get("observedGeneration") != offered["metadata"].get("generation"):
        return False
    return compatible["status"] == "False" or available["status"] == "True" or available["reason"] in FINAL


def has_subresource(obj: Object, name: str) -> bool:
    return any(sub["name"] == name for sub in obj["spec"].get("subResources") or ())


def parse_resource(text: str) -> tuple[str, str]:
    """Plural and group of what `--resources-to-sync` lists: `deployments.apps`, `pods`, `pods.core`; `*` is all."""
    if text == "*":
        return "*", "*"
    plural, _, group = text.partition(".")
    return plural, "" if group == "core" else group
