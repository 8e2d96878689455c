"""The query and path parameters of the resource API, as OpenAPI v3 describes them."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def _query(name: str, description: str, kind: str = "string") -> Object:
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind, "uniqueItems": True}}


def _path(name: str, description: str) -> Object:
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "description": description, "required": True, "schema": schema}


def name_parameter(kind: str) -> Object:
    return _path("name", f"name of the {kind}")


NAMESPACE = _path("namespace", "object name and auth scope, such as for teams and projects")
PRETTY = _query("pretty", "If 'true', then the output is pretty printed.")

_DRY_RUN = _query("dryRun", "'All' goes through every stage of the request without storing anything.")
_MANAGER = _query(
    "fieldManager", "The name under which the changed fields are owned; at most 128 printable characters."
)
_VALIDATION = _query(
    "fieldValidation",
    "What to do about unknown and duplicate fields: 'Ignore' drops them, 'Warn' (the default) drops them and says so"
    " in a warning, 'Strict' refuses the request.",
)
_FORCE = _query("force", "Takes over fields that others own. Only for apply patches.", "boolean")

WRITE = [_DRY_RUN, _MANAGER, _VALIDATION]
PATCH = [*WRITE, _FORCE]
DELETE = [
    _DRY_RUN,
    _query("gracePeriodSeconds", "Seconds before the object is deleted; zero means at once.", "integer"),
    _query("orphanDependents", "Deprecated: use propagationPolicy. Whether dependents are left behind.", "boolean"),
    _query(
        "propagationPolicy",
        "What happens to dependents: 'Orphan' leaves them, 'Background' deletes them later, 'Foreground' first.",
    ),
]
SELECT = [
    _query("continue", "The token of a previous answer, to get the next part of a list."),
    _query("fieldSelector", "Restricts the objects by their fields. Defaults to everything."),
    _query("labelSelector", "Restricts the objects by their labels. Defaults to everything."),
    _query("limit", "The most objects to answer with; there are more if the answer has a continue token.", "integer"),
    _query("resourceVersion", "The resource version to serve from, or to watch from."),
    _query("resourceVersionMatch", "How resourceVersion is meant: 'Exact' or 'NotOlderThan'."),
    _query("timeoutSeconds", "Ends the call after so many seconds, whatever happens in it.", "integer"),
]
LIST = [
    *SELECT,
    _query("allowWatchBookmarks", "Asks a watch for events of type BOOKMARK.", "boolean"),
    _query("sendInitialEvents", "Begins a watch with the objects there are, then a bookmark.", "boolean"),
    _query("watch", "Watches the described resources and streams their changes.", "boolean"),
]
