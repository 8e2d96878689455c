"""The CEL environment of expressions over a request: variables and their types. Objects and parameters are dynamic,
because they are of many kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from shoal.objects.cel import Environment
from shoal.objects.cel.functions import FUNCTIONS
from shoal.objects.cel.library import patches
from shoal.objects.cel.library.authz import AUTHORIZER, RESOURCE_CHECK
from shoal.objects.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of

PLACES = (
    "object", "oldObject", "request", "namespaceObject", "params", "authorizer", "authorizer.requestResource",
    "variables",
)  # fmt: skip
"""The order in which a program gets the variable values, whether or not its environment declares them."""
VARIABLES = "kubernetes.variables"


def _object(name: str, fields: Mapping[str, Type]) -> Type:
    return Type("object", (), f"kubernetes.{name}", fields)


_GVK = _object("GroupVersionKind", dict.fromkeys(("group", "version", "kind"), STRING))
_GVR = _object("GroupVersionResource", dict.fromkeys(("group", "version", "resource"), STRING))
_USER = _object(
    "UserInfo",
    {
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
)
REQUEST = _object(
    "AdmissionRequest",
    dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation"), STRING)
    | {
        "kind": _GVK,
        "resource": _GVR,
        "requestKind": _GVK,
        "requestResource": _GVR,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)
_CONDITION = _object(
    "NamespaceCondition",
    dict.fromkeys(("status", "type", "message", "reason"), STRING) | {"lastTransitionTime": TIMESTAMP},
)
_META = _object(
    "NamespaceMetadata",
    dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), STRING)
    | dict.fromkeys(("labels", "annotations"), map_of(STRING, STRING))
    | dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP)
    | dict.fromkeys(("deletionGracePeriodSeconds", "generation"), INT)
    | {"finalizers": list_of(STRING)},
)
NAMESPACE = _object(
    "Namespace",
    {
        "metadata": _META,
        "spec": _object("NamespaceSpec", {"finalizers": list_of(STRING)}),
        "status": _object("NamespaceStatus", {"conditions": list_of(_CONDITION), "phase": STRING}),
    },
)
_WITH_PATCHES = {**FUNCTIONS, **{each.name: [each] for each in patches.OVERLOADS}}


def environment(
    *, params: bool, authorizer: bool = True, variables: Mapping[str, Type] | None = None, makes: bool = False
) -> Environment:
    """`variables`: the policy's variables so far, or None where expressions cannot use any. `has_patch_types`:
    expressions may construct patches.
    """
    if variables is None:
        return _plain(params, authorizer, makes)
    return _with(_names(params, authorizer) | {"variables": Type("object", (), VARIABLES, variables)}, makes)


@lru_cache(maxsize=8)
def _plain(params: bool, authorizer: bool, makes: bool) -> Environment:
    return _with(_names(params, authorizer), makes)


def _names(params: bool, authorizer: bool) -> dict[str, Type]:
    known = {"object": DYN, "oldObject": DYN, "namespaceObject": NAMESPACE, "request": REQUEST}
    if params:
        known["params"] = DYN
    if authorizer:
        known |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    return known


def _with(names: Mapping[str, Type], makes: bool) -> Environment:
    if makes:
        return Environment(names, patches.struct, _WITH_PATCHES, escapes=False)
    return Environment(names, escapes=False)
