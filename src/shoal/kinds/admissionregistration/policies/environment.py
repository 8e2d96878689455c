"""The CEL environment of expressions over a request: variables and their types. Objects and parameters are dynamic,
because they are of many kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from shoal.objects.cel import CELEnvironment
from shoal.objects.cel.functions import FUNCTIONS
from shoal.objects.cel.library import mutation
from shoal.objects.cel.library.authz import AUTHORIZER, RESOURCE_CHECK
from shoal.objects.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, CELType, list_of, map_of

VARIABLE_ORDER = (
    "object", "oldObject", "request", "namespaceObject", "params", "authorizer", "authorizer.requestResource",
    "variables",
)  # fmt: skip
"""The order in which a program gets the variable values, whether or not its environment declares them."""
VARIABLES_TYPE_NAME = "kubernetes.variables"


def _object_type(name: str, fields: Mapping[str, CELType]) -> CELType:
    return CELType("object", (), f"kubernetes.{name}", fields)


_GVK = _object_type("GroupVersionKind", dict.fromkeys(("group", "version", "kind"), STRING))
_GVR = _object_type("GroupVersionResource", dict.fromkeys(("group", "version", "resource"), STRING))
_USER = _object_type(
    "UserInfo",
    {
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
)
REQUEST_TYPE = _object_type(
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
_CONDITION = _object_type(
    "NamespaceCondition",
    dict.fromkeys(("status", "type", "message", "reason"), STRING) | {"lastTransitionTime": TIMESTAMP},
)
_META = _object_type(
    "NamespaceMetadata",
    dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), STRING)
    | dict.fromkeys(("labels", "annotations"), map_of(STRING, STRING))
    | dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP)
    | dict.fromkeys(("deletionGracePeriodSeconds", "generation"), INT)
    | {"finalizers": list_of(STRING)},
)
NAMESPACE_TYPE = _object_type(
    "Namespace",
    {
        "metadata": _META,
        "spec": _object_type("NamespaceSpec", {"finalizers": list_of(STRING)}),
        "status": _object_type("NamespaceStatus", {"conditions": list_of(_CONDITION), "phase": STRING}),
    },
)
_FUNCTIONS_WITH_PATCHES = {**FUNCTIONS, **{each.name: [each] for each in mutation.OVERLOADS}}


def environment(
    *,
    has_params: bool,
    has_authorizer: bool = True,
    variables: Mapping[str, CELType] | None = None,
    has_patch_types: bool = False,
) -> CELEnvironment:
    """`variables`: the policy's variables so far, or None where expressions cannot use any. `has_patch_types`:
    expressions may construct patches.
    """
    if variables is None:
        return _cached_environment(has_params, has_authorizer, has_patch_types)
    return _new_environment(
        _variable_types(has_params, has_authorizer)
        | {"variables": CELType("object", (), VARIABLES_TYPE_NAME, variables)},
        has_patch_types,
    )


@lru_cache(maxsize=8)
def _cached_environment(has_params: bool, has_authorizer: bool, has_patch_types: bool) -> CELEnvironment:
    return _new_environment(_variable_types(has_params, has_authorizer), has_patch_types)


def _variable_types(has_params: bool, has_authorizer: bool) -> dict[str, CELType]:
    types = {"object": DYN, "oldObject": DYN, "namespaceObject": NAMESPACE_TYPE, "request": REQUEST_TYPE}
    if has_params:
        types["params"] = DYN
    if has_authorizer:
        types |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    return types


def _new_environment(names: Mapping[str, CELType], has_patch_types: bool) -> CELEnvironment:
    if has_patch_types:
        return CELEnvironment(names, mutation.resolve_struct, _FUNCTIONS_WITH_PATCHES, unescape_fields=False)
    return CELEnvironment(names, unescape_fields=False)
