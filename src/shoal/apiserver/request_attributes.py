"""Derives verb, metric labels and authorizer attributes from method, path and query.

Pure. Without a query the result depends on method and path alone and is cached by both, because clients repeat the same
requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from shoal.apiserver.authz import Attributes
from shoal.apiserver.metrics.requests import RequestLabels, request_labels_of
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.request.info import MAX_CACHED_PATH, RequestInfo, parse_path, verb_of
from shoal.apiserver.selection import selection_predicate
from shoal.objects.wire import Request

_ANY_RESOURCE = Resource("", "", "", "", "", False)
CACHE_SIZE = 4096


class RequestAttributes(NamedTuple):
    info: RequestInfo
    verb: str
    metric_labels: RequestLabels
    """Metric labels. Not valid for a patch, which is counted by its media type as well."""
    attributes: Attributes


def cached_request_attributes(method: str, path: str) -> RequestAttributes:
    """Returns the attributes of a request without a query."""
    return _parse_request_cached(method, path) if len(path) <= MAX_CACHED_PATH else _parse_request(method, path)


def _parse_request(method: str, path: str) -> RequestAttributes:
    info = parse_path(path)
    verb = verb_of(method, info, watching=False)
    labels = request_labels_of(Request(method, path), info)
    return RequestAttributes(info, verb, labels, authorizer_attributes(info, verb, {}))


_parse_request_cached = lru_cache(maxsize=CACHE_SIZE)(_parse_request)


def authorizer_attributes(info: RequestInfo, verb: str, query: Mapping[str, str]) -> Attributes:
    if not info.plural:
        return Attributes(info.cluster, verb, path=info.path.rstrip("/") or "/")
    name = info.name
    if not name and "fieldSelector" in query and verb in ("list", "watch", "deletecollection"):
        predicate = (
            selection_predicate(_ANY_RESOURCE, "", query["fieldSelector"])
            if _is_name_selector(query["fieldSelector"])
            else None
        )
        name = predicate.exact_name if predicate is not None else ""
    namespace = info.namespace
    if info.plural == "namespaces" and info.group == "" and info.name:
        namespace = info.name
    return Attributes(
        cluster=info.cluster,
        verb=verb,
        group=info.group,
        version=info.version,
        resource=info.plural,
        subresource=info.subresource,
        namespace=namespace,
        name=name,
        fields=query.get("fieldSelector", ""),
        labels=query.get("labelSelector", ""),
    )


def _is_name_selector(selector: str) -> bool:
    return selector.startswith(("metadata.name=", "metadata.name==")) and "," not in selector
