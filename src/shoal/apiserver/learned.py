"""Kinds a hub has learned: what a published NegotiatedAPIResource makes it serve.

A kind Kubernetes knows is served by the built-in implementation, so that clients find the built-in they know; any
other needs a CustomResourceDefinition, and nothing here answers for it.
"""

from __future__ import annotations

import logging

from shoal.apiserver import builtins
from shoal.apiserver.cache import Entry
from shoal.apiserver.registry import Resource
from shoal.kinds.apiresource import GROUP, NEGOTIATED_PLURAL, api_of

log = logging.getLogger("shoal.apiserver")

LEARNED = (GROUP, NEGOTIATED_PLURAL)
NEEDED = {"create", "list", "watch"}
"""What is not stored (reviews, bindings) is not learned."""


def taught(entry: Entry | None) -> Resource | None:
    """What the object makes its cluster serve. The same resource for the same kind, so it can be compared by `is`."""
    if entry is None:
        return None
    obj = entry.object()
    try:
        if not obj["spec"].get("publish"):
            return None
        found = builtins.resource(*api_of(obj))
    except (KeyError, TypeError, AttributeError):
        log.warning("%s %s is not readable and teaches nothing", NEGOTIATED_PLURAL, entry.name)
        return None
    return found if found is not None and set(found.verbs) >= NEEDED else None
