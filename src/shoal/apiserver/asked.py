"""Derives verb, metric labels and authorizer attributes from method, path and query.

Pure. Without a query the result depends on method and path alone and is cached by both, because clients repeat the same
requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from shoal.apiserver.authz import Attributes
from shoal.apiserver.metrics import Labels, labels_of
from shoal.apiserver.paths import LONGEST, Target, parse, verb_of
from shoal.apiserver.registry import Resource
from shoal.apiserver.selection import selection
from shoal.objects.wire import Request

_ANY = Resource("", "", "", "", "", False)
REMEMBERED = 4096


class Asked(NamedTuple):
    verb: str
    labels: Labels
    """Metric labels. Not valid for a patch, which is counted by its media type as well."""
    wanted: Attributes


def plainly(method: str, path: str) -> Asked:
    """Returns the attributes of a request without a query."""
    return _known(method, path) if len(path) <= LONGEST else _worked_out(method, path)


def _worked_out(method: str, path: str) -> Asked:
    target = parse(path)
    verb = verb_of(method, target, watching=False)
    return Asked(verb, labels_of(Request(method, path), target), wanted(target, verb, {}))


_known = lru_cache(maxsize=REMEMBERED)(_worked_out)


def wanted(target: Target, verb: str, query: Mapping[str, str]) -> Attributes:
    name = target.name
    if not name and "fieldSelector" in query and verb in ("list", "watch", "deletecollection"):
        chosen = selection(_ANY, "", query["fieldSelector"]) if _by_name(query["fieldSelector"]) else None
        name = chosen.name if chosen is not None else ""
    namespace = target.namespace
    if target.plural == "namespaces" and target.group == "" and target.name:
        namespace = target.name
    return Attributes(
        cluster=target.cluster,
        verb=verb,
        group=target.group,
        version=target.version,
        resource=target.plural,
        subresource=target.subresource,
        namespace=namespace,
        name=name,
        fields=query.get("fieldSelector", ""),
        labels=query.get("labelSelector", ""),
    )


def _by_name(fields: str) -> bool:
    return fields.startswith(("metadata.name=", "metadata.name==")) and "," not in fields
