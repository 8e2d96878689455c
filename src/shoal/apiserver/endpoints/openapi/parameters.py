"""The query and path parameters of the resource API, as OpenAPI v3 describes them."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def _query_parameter(name: str, description: str, kind: str = "string") -> Object:
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind, "uniqueItems": True}}


def _path_parameter(name: str, description: str) -> Object:
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "description": description, "required": True, "schema": schema}


def name_parameter(kind: str) -> Object:
    return _path_parameter("name", f"name of the {kind}")


NAMESPACE_PARAMETER = _path_parameter("namespace", "object name and auth scope, such as for teams and projects")
PRETTY_PARAMETER = _query_parameter("pretty", "If 'true', then the output is pretty printed.")

_DRY_RUN = _query_parameter("dryRun", "'All' processes every stage of the request without storing anything.")
_FIELD_MANAGER = _query_parameter(
    "fieldManager", "The name under which the changed fields are owned; at most 128 printable characters."
)
_FIELD_VALIDATION = _query_parameter(
    "fieldValidation",
    "What to do about unknown and duplicate fields: 'Ignore' drops them, 'Warn' (the default) drops them and returns"
    " a warning, 'Strict' rejects the request.",
)
_FORCE = _query_parameter("force", "Takes over fields of other managers. Only for apply patches.", "boolean")

WRITE_PARAMETERS = [_DRY_RUN, _FIELD_MANAGER, _FIELD_VALIDATION]
PATCH_PARAMETERS = [*WRITE_PARAMETERS, _FORCE]
DELETE_PARAMETERS = [
    _DRY_RUN,
    _query_parameter("gracePeriodSeconds", "Seconds before the object is deleted; zero means at once.", "integer"),
    _query_parameter(
        "orphanDependents", "Deprecated: use propagationPolicy. Whether dependents are left behind.", "boolean"
    ),
    _query_parameter(
        "propagationPolicy",
        "What happens to dependents: 'Orphan' leaves them, 'Background' deletes them later, 'Foreground' first.",
    ),
]
SELECT_PARAMETERS = [
    _query_parameter("continue", "The continue token of a previous response, to get the next page of a list."),
    _query_parameter("fieldSelector", "Restricts the objects by their fields. Defaults to everything."),
    _query_parameter("labelSelector", "Restricts the objects by their labels. Defaults to everything."),
    _query_parameter(
        "limit", "Maximum number of objects in the response; if there are more, it has a continue token.", "integer"
    ),
    _query_parameter("resourceVersion", "The resource version to serve from, or to watch from."),
    _query_parameter("resourceVersionMatch", "How resourceVersion is interpreted: 'Exact' or 'NotOlderThan'."),
    _query_parameter("timeoutSeconds", "Ends the request after this many seconds, regardless of activity.", "integer"),
]
LIST_PARAMETERS = [
    *SELECT_PARAMETERS,
    _query_parameter("allowWatchBookmarks", "Requests watch events of type BOOKMARK.", "boolean"),
    _query_parameter("sendInitialEvents", "Begins a watch with the existing objects, then a bookmark.", "boolean"),
    _query_parameter("watch", "Watches the described resources and streams their changes.", "boolean"),
]
